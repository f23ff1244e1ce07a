#ifndef COMMON_QUEUE_SCHEDULES_H
#define COMMON_QUEUE_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/moves.h"

/*
 * The schedules of a queue, as Redis knows them (scripts/tick.lua). The record in Redis decides which ticks are pushed,
 * not what a sweeper remembers. As in moves.h, every function that takes a struct redis appends a command and returns.
 */

/* A last tick that is further ahead of the clock of Redis would stop the schedule until then. */
#define QUEUE_SCHEDULE_AHEAD_MS 120000
#define QUEUE_SCHEDULE_DEFINITION_SIZE 17
/* A tick that is due for longer is late: for catch_up = "none", and for health and doctor. A minute, or twice a lease
 * if that is longer: another host takes the lead within that time. */
int64_t queue_schedule_on_time_ms(int64_t lease_ms);

struct queue_schedule {
	char definition[QUEUE_SCHEDULE_DEFINITION_SIZE];
	int64_t last_ms;		/* by the server's clock: its last tick, or when it began */
	int64_t pushed_ms;		/* the last tick whose message was pushed; 0: none */
	int64_t missed;			/* ticks that were not pushed, since they were late */
	/* not pushed either, since an earlier message of it was in the queue; the last of these, 0: none */
	int64_t skipped, skipped_ms;
};

/*
 * Every list in which a message of a queue may be. A script that must know whether a message of a schedule is anywhere
 * names them all (scripts/shared/overlap.lua). They follow from the workers hash. The script compares these
 * with the ones that its caller knew, and answers with the new ones if they differ.
 */
struct queue_places {
	char registered[ENCODE_SHA1_SIZE];	/* of the names; "": not read yet */
	char **keys;
	size_t n;
};
void queue_places_free(struct queue_places *p);

struct queue_tick {
	const char *name, *definition;
	int64_t last_ms;		/* as the caller knows it; -1: not known */
	int64_t tick_ms;		/* -1: only looks */
	int64_t missed;			/* ticks that this one skips */
	const char *message;		/* with its wrapper; NULL: the tick itself is not pushed either */
	size_t len;
	const struct queue_places *alone;	/* skipped while an earlier message is in the queue; NULL: never */
};
/* -> ARRAY for queue_ticked() */
void queue_tick(struct redis *r, const struct queue_keys *k, const struct queue_tick *t);
/* The numbers are those of the scripts. */
enum queue_tick_end {
	QUEUE_TICK_NONE,		/* nothing was due, or the record is another one than the caller knew */
	QUEUE_TICK_DONE,		/* the tick was recorded, and its message pushed */
	/* the schedule has begun now: */
	QUEUE_TICK_NEW,			/* Redis had no record */
	QUEUE_TICK_CHANGED,		/* the record was of other times */
	QUEUE_TICK_UNKNOWN,		/* quredis did not write the record */
	QUEUE_TICK_AHEAD,		/* the clock of Redis was set back by more than QUEUE_SCHEDULE_AHEAD_MS */
	/* the tick was recorded, and its message not pushed: */
	QUEUE_TICK_SKIPPED,		/* an earlier one of the schedule is in the queue */
	QUEUE_TICK_UNSEEN,		/* the queue is too long to tell whether one is */
	QUEUE_TICK_PLACES,		/* nothing was done: queue_places_learn(), and ask again */
	QUEUE_TICK_ENDS
};
struct queue_ticked {
	enum queue_tick_end end;
	int64_t now_ms;			/* by the server's clock */
	struct queue_schedule schedule;	/* as it is now */
};
int queue_ticked(const struct redis_reply *reply, struct queue_ticked *out);	/* -1: another type of reply */
/* Reads the places from the same reply, after QUEUE_TICK_PLACES. -1: another type of reply */
int queue_places_learn(struct queue_places *p, const struct queue_keys *k, const struct redis_reply *reply);

/* Pushes a message that an operator asks for: t has its name, message and alone. message NULL: only tells whether it
 * would. -> ARRAY for queue_schedule_pushed() */
void queue_schedule_push(struct redis *r, const struct queue_keys *k, const struct queue_tick *t);
/* QUEUE_TICK_DONE, _SKIPPED, _UNSEEN or _PLACES, as of a tick. -1: another type of reply */
int queue_schedule_pushed(const struct redis_reply *reply, enum queue_tick_end *end);

/* Appends the message of a schedule, as it is pushed: with its wrapper, and a header with its id. A shared queue gets
 * the message alone, and headers = false gets no header. tick false: an operator asks for it. */
struct conf_schedule;
void queue_schedule_message(struct buffer *out, const struct queue_keys *k, const struct conf_schedule *c,
    int64_t at_ms, bool tick);

/* Reads the record of one schedule. -> STRING for queue_schedule_parse(), or NIL */
void queue_schedule_read(struct redis *r, const struct queue_keys *k, const char *name);
int queue_schedule_parse(const struct redis_reply *reply, struct queue_schedule *out);	/* -1: it is no record */

/* The fingerprint of its times: a schedule with other times is another one; its message may change. */
void queue_schedule_definition(const struct conf_schedule *c, char out[QUEUE_SCHEDULE_DEFINITION_SIZE]);

/* Counts one look without it for the record of each schedule but these n, at most one every between_ms, and deletes
 * those with that many looks. A look with it forgets the count. -> INTEGER how many were deleted */
void queue_schedules_forget(struct redis *r, const struct queue_keys *k, int64_t between_ms, int looks,
    const char *const *names, size_t n);

#endif
