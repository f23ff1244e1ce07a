#ifndef WORKER_CANCEL_H
#define WORKER_CANCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* An order that this worker executes. */
struct cancel {
	char field[ENCODE_SHA1_SIZE];
	struct place place;			/* of its message, */
	uint64_t serial;			/* and its serial: another message may be there later */
	struct queue_cancel order;
	bool settled;				/* its run has ended by this order, and a move is chosen */
	bool undone;				/* that move did not happen, and another one was chosen */
};

/* Owner: cancel.c. */
struct cancels {
	uint64_t before;			/* a generation: every incarnation of this process has a higher one */
	bool asking;				/* the request for the orders is unanswered */
	int64_t sent_ms;			/* CLOCK_MONOTONIC: when it was sent */
	int64_t next_ms;			/* CLOCK_MONOTONIC: no request before */
	struct cancel *all;			/* owned */
	size_t n;
};

void cancel_init(struct worker *w);
void cancel_free(struct worker *w);
void cancel_tick(struct worker *w, int64_t now_ms);		/* asks for the orders, if there are some */
void cancel_lost(struct worker *w);
enum cancel_request { CANCEL_READS, CANCEL_NOTES };		/* what an answer is to */
void cancel_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
int64_t cancel_deadline_ms(const struct worker *w, int64_t now_ms);		/* INT64_MAX: there are no orders */
struct handler_result;
/* result: how its run ended; NULL: it never ran */
void cancel_settle(struct worker *w, struct place p, const struct handler_result *result);
/* Redis refuses the move that cancel_settle() has chosen, and another move follows */
void cancel_undone(struct worker *w, struct place p);
void cancel_moved(struct worker *w, struct place p);		/* Redis has answered that the message has moved */
/* For a move: the order that it executes. NULL: none. */
struct cancel_end {
	struct queue_cancel_end end;
	char order[QUEUE_CANCEL_TEXT_SIZE], result[QUEUE_CANCEL_TEXT_SIZE];
};
const struct queue_cancel_end *cancel_end_of(struct worker *w, struct place p, struct cancel_end *room);
struct cancel *cancel_of(struct worker *w, struct place p);	/* the order that ends this message; NULL: none */

#endif
