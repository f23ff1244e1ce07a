#ifndef COMMON_QUEUE_SCHEDULES_H
#define COMMON_QUEUE_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * The schedules of a queue, as Redis knows them (scripts/tick.lua). The record in Redis decides which ticks are pushed,
 * not what a sweeper remembers. As in moves.h, every function that takes a struct redis appends a command and returns.
 */

/* A last tick that is further ahead of the clock of Redis would stop the schedule until then. */
#define QUEUE_SCHEDULE_AHEAD_MS 120000
/* of the times of a schedule: another one begins anew */
#define QUEUE_SCHEDULE_DEFINITION_SIZE 17
struct queue_schedule {
	char definition[QUEUE_SCHEDULE_DEFINITION_SIZE];
	int64_t last_ms;		/* by the server's clock: its last tick, or when it began */
	int64_t pushed_ms;		/* the last tick whose message was pushed; 0: none */
	int64_t missed;			/* ticks that were not pushed */
};

struct queue_tick {
	const char *name, *definition;
	int64_t last_ms;		/* as the caller knows it; -1: not known */
	int64_t tick_ms;		/* -1: only looks */
	int64_t missed;			/* ticks that this one skips */
	const char *message;		/* with its wrapper; NULL: the tick itself is not pushed either */
	size_t len;
};
/* -> ARRAY for queue_ticked() */
void queue_tick(struct redis *r, const struct queue_keys *k, const struct queue_tick *t);
/* The numbers are those of the script. After the last four the schedule has begun now. */
enum queue_tick_end {
	QUEUE_TICK_NONE,		/* nothing was due, or the record is another one than the caller knew */
	QUEUE_TICK_DONE,		/* the tick was recorded, and its message pushed */
	QUEUE_TICK_NEW,			/* Redis had no record */
	QUEUE_TICK_CHANGED,		/* the record was of other times */
	QUEUE_TICK_UNKNOWN,		/* quredis did not write the record */
	QUEUE_TICK_AHEAD,		/* the clock of Redis was set back by more than QUEUE_SCHEDULE_AHEAD_MS */
	QUEUE_TICK_ENDS
};
struct queue_ticked {
	enum queue_tick_end end;
	int64_t now_ms;			/* by the server's clock */
	struct queue_schedule schedule;	/* as it is now */
};
int queue_ticked(const struct redis_reply *reply, struct queue_ticked *out);	/* -1: another type of reply */

/* Counts one look without it for the record of each schedule but these n, at most one every between_ms, and deletes
 * those with that many looks. A look with it forgets the count. -> INTEGER how many were deleted */
void queue_schedules_forget(struct redis *r, const struct queue_keys *k, int64_t between_ms, int looks,
    const char *const *names, size_t n);

#endif
