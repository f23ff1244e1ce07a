#ifndef WORKER_TRAY_H
#define WORKER_TRAY_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/parsed.h"

struct outcome;

/*
 * Owner: tray.c. A tray mirrors the list with the same number in Redis: the items are the messages that the worker
 * knows to lie there, and GONE items are those that have left it.
 *
 * Life of a tray, and of each message in it:
 *	EMPTY -asked-> FETCHING -all answered-> FILLED -all done or gone-> DELETING -answered-> EMPTY
 *			└<-------asked for more------┘
 *	WAITING -start-> RUNNING -success-> DONE (goes with its tray)
 *	   └─hand back─┐    └─failure─> MOVING -answered-> GONE
 *	               └───────────────^
 * After a doubt adopt.c corrects both: an EMPTY tray in which messages reappeared becomes FILLED, a DELETING one FILLED
 * again, and a message that is not in the list becomes GONE from any state. Each change goes through one function of
 * tray.c, which asserts that it is legal by the tables there. The tables are complete: no other change happens.
 */
enum tray_state { TRAY_EMPTY, TRAY_FETCHING, TRAY_FILLED, TRAY_DELETING, TRAY_STATES };
enum item_state { ITEM_WAITING, ITEM_RUNNING, ITEM_DONE, ITEM_MOVING, ITEM_GONE, ITEM_STATES };
/* PUT_OFF: a RETRY of a message that did not run. HOLD: as PUT_OFF, and no worker starts another one before.
 * ASIDE: Redis refused the move that was chosen first. */
enum move { MOVE_DONE, MOVE_RETRY, MOVE_ESCAPE, MOVE_HAND_BACK, MOVE_PUT_OFF, MOVE_HOLD, MOVE_ASIDE, MOVES };

#define BATCH_MAX 1000			/* the largest value of batch.max */

struct item {
	size_t at, len;			/* offset and length in the bytes of its tray, if kept is NULL */
	/* large message: the reply of Redis that holds it, instead of a copy; owned. NULL: none */
	void *kept;
	const char *kept_raw;		/* in kept */
	enum item_state state;
	bool solo;			/* run it alone: it may be what killed its worker or handler */
	bool fresh;			/* and in a new process: it may be what killed a handler that had read others */
	bool again;			/* the message reappeared in its tray (adopt.c), so it may have run before */
	/* RUNNING: another process took the message; its end changes nothing in Redis */
	bool lost;
	uint64_t serial;		/* 1, 2, ... in the order in which the worker got its messages */
	int64_t received_us;		/* CLOCK_MONOTONIC */
	int64_t done_ms, duration_ms;	/* DONE, for history: ms since 1970 */
	enum move move;			/* MOVING */
	bool sent;			/* MOVING: the move is unanswered; after a lost connection, in doubt */
	bool refused;			/* MOVING: Redis refused the move the last time */
	/* MOVING: how often Redis refused it because of this message or its destination */
	uint8_t refusals;
	struct outcome *outcome;	/* owned; NULL: none. settle.c owns its contents */
	struct wrapper *note;		/* the note of a shared queue; owned; NULL: none */
	struct parsed *parsed;		/* owned; NULL: not parsed, or not needed any more */
};

struct tray {
	enum tray_state state;
	struct buffer bytes;
	/* earlier buffers that running handlers still read; freed when the tray is empty */
	struct buffer *outgrown;
	size_t noutgrown;
	struct item *items;		/* oldest first, unless refilled: by serial */
	int n, cap;
	int count[ITEM_STATES];		/* items in each state; their sum is n */
	int next;			/* no item before this index is WAITING */
	int solos;			/* WAITING items that must run alone */
	/* FETCHING: messages requested, and answers so far; answered < asked. In other states 0 */
	int asked, answered;
	int arrived;			/* FETCHING: of the answers, those that were a message */
	/* more was fetched into it while its messages ran: each leaves when it is done, and another takes its item */
	bool refilled;
	bool sent, refused;		/* DELETING: as for an item */
	bool mixed;			/* the serials are in another order than the list, since some reappeared */
	/* no message of the tray starts before its notes are known */
	enum tray_notes { NOTES_KNOWN, NOTES_WANTED, NOTES_ASKED } notes;
	/* a message has a seal that cannot be verified: the secrets are read before any message of the tray starts */
	bool doubtful;
	uint64_t serial;		/* increases with each filling: the tray with the lowest serial is the oldest */
};

struct place {
	int tray, item;			/* tray -1: none */
};

struct trays {
	const struct queue_keys *keys;
	struct tray tray[QUEUE_TRAYS];
	int next;			/* trays are used in rotation */
	uint64_t fillings;		/* number of fillings so far, which is the serial of the last one */
	uint64_t messages;		/* number of messages so far, which is the serial of the last one */
	int refusals;			/* items and trays marked as refused; never negative */
	struct parsed_pool pool;
};

void tray_init(struct trays *ts, const struct queue_keys *keys);	/* keeps keys */
void tray_free_all(struct trays *ts);

/* ---- queries ---- */
static inline struct item *tray_item(struct trays *ts, struct place p)
{
	return &ts->tray[p.tray].items[p.item];
}

static inline const char *tray_raw(const struct tray *t, const struct item *item)
{
	return item->kept == NULL ? t->bytes.data + item->at : item->kept_raw;
}

/*
 * The message of an item, with its note, parsed at the first call. Valid until the item is done or gone. Callers may
 * call message_id() on it, and must not change it otherwise.
 */
struct message *tray_message(struct trays *ts, struct place p);
void tray_forget_message(struct trays *ts, struct place p);	/* tray_message() parses it again */

static inline int tray_count(const struct trays *ts, enum item_state state)
{
	int n = 0;

	for (int i = 0; i < QUEUE_TRAYS; i++)
		n += ts->tray[i].count[state];
	return n;
}

/* A fetch is unanswered. */
static inline bool tray_fetching(const struct trays *ts)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (ts->tray[i].state == TRAY_FETCHING)
			return true;
	return false;
}

static inline bool tray_some_empty(const struct trays *ts)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (ts->tray[i].state == TRAY_EMPTY)
			return true;
	return false;
}

static inline bool tray_all_empty(const struct trays *ts)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (ts->tray[i].state != TRAY_EMPTY)
			return false;
	return true;
}

static inline bool tray_none_in_flight(const struct trays *ts)
{
	return tray_count(ts, ITEM_WAITING) + tray_count(ts, ITEM_RUNNING) == 0;
}

/* The worker knows of no message that it owns: at most a fetch is in doubt. */
static inline bool tray_hold_nothing(const struct trays *ts)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (ts->tray[i].state == TRAY_DELETING || ts->tray[i].count[ITEM_GONE] != ts->tray[i].n)
			return false;
	return true;
}

/* ---- a tray ---- */
void tray_ask(struct trays *ts, int tray, int n);		/* EMPTY or open: n messages were requested */
/* FETCHING: one more answer arrived. true: it was the last */
bool tray_answered(struct trays *ts, int tray);
/* no more answers come: FILLED, or EMPTY if no message arrived */
void tray_filled(struct trays *ts, int tray);
/* FILLED: becomes DELETING, or EMPTY, if no message of it waits, runs or moves */
void tray_close(struct trays *ts, int tray);
/* Those that are done get a move each, instead of one DEL when all are done. */
void tray_let_done_leave(struct trays *ts, int tray);
void tray_reopen(struct trays *ts, int tray);			/* a DELETING one, after its list was read: FILLED */
/* DELETING: the acknowledgement is under way; false: it must be sent again */
void tray_delete_sent(struct trays *ts, int tray, bool sent);
void tray_delete_refused(struct trays *ts, int tray, bool refused);
void tray_empty(struct trays *ts, int tray);			/* Redis deleted the list */
void tray_mix(struct trays *ts, int tray);			/* its items are in another order than the list */
void tray_set_notes(struct trays *ts, int tray, enum tray_notes notes);
void tray_secrets_learnt(struct trays *ts, int tray);		/* parses its waiting messages again */
/* frees the memory of empty trays, if large batches needed it */
void tray_free_memory(struct trays *ts);

/* ---- an item ---- */
/* as WAITING. In a refilled tray it takes the place of one that is gone; else it is the newest. Valid until the next */
struct item *tray_add(struct trays *ts, int tray, const char *raw, size_t len, bool again);
/* the same; takes the reply over if it is large */
struct item *tray_add_reply(struct trays *ts, int tray, struct redis *r, const struct redis_reply *reply);
void tray_add_note(struct trays *ts, struct place p, const struct wrapper *note);	/* WAITING: sets the note */
void tray_start(struct trays *ts, struct place p);		/* WAITING: the message runs */
/* RUNNING: its handler had not read it, so it waits again */
void tray_unstart(struct trays *ts, struct place p);
void tray_lose(struct trays *ts, struct place p);		/* RUNNING: another process took the message */
/* RUNNING: done_ms 0: no history needs it */
void tray_done(struct trays *ts, struct place p, int64_t done_ms, int64_t duration_ms);
void tray_move(struct trays *ts, struct place p, enum move move);	/* the move is chosen, and not sent yet */
/* MOVING: the move is under way; false: it must be sent again */
void tray_move_sent(struct trays *ts, struct place p, bool sent);
void tray_move_refused(struct trays *ts, struct place p, bool refused);
/* counts a refusal because of this message; returns how many there are */
int tray_count_refusal(struct trays *ts, struct place p);
void tray_gone(struct trays *ts, struct place p);		/* the message is not in the list any more */
struct outcome *tray_outcome(struct trays *ts, struct place p);	/* the outcome of the item; zeroed at the first call */

#endif
