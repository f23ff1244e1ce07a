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
	uint64_t serial;			/* in this filling of its tray */
	struct queue_cancel order;
	enum queue_cancel_result result;	/* WANTED: the run has not ended yet */
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
void cancel_settle(struct worker *w, struct place p, const struct handler_result *result);	/* result: how its run ended; NULL: it never ran */
void cancel_unsettled(struct worker *w, struct place p);	/* the chosen move did not happen */
struct cancel *cancel_of(struct worker *w, struct place p);	/* the order that ends this message; NULL: none */

#endif
