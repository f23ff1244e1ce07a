#ifndef WORKER_THROTTLE_H
#define WORKER_THROTTLE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

#include "worker/component.h"
#include "worker/retry.h"

struct worker;

/*
 * Owner: throttle.c. The starts that Redis has given to this worker, if its queue has a rate. Fetcher and starter ask
 * for more when no other reason keeps a message from starting. The functions below also keep max_in_flight (seats.h).
 */
struct throttle {
	int64_t loaded_ms;			/* of `figures`; -1: there are none yet */
	struct queue_throttle_text figures;	/* of the configuration of this worker; only with a rate */
	int starts;			/* given, and not used yet; throttle_starts() */
	bool kept;			/* or one is kept for this worker, which asks again for it */
	int64_t appointment;		/* names either */
	int64_t asked_us;		/* CLOCK_MONOTONIC: of the last question. Redis gave them then, or later */
	int64_t until_us;		/* CLOCK_MONOTONIC: no message starts with them later */
	/* From the clock of Redis to CLOCK_MONOTONIC at a prompt answer; when one confirmed it, 0: none yet */
	int64_t way_us, way_at_us;
	/* the same of the last answer of which nothing shows that it was prompt */
	int64_t doubtful_us, doubtful_at_us;
	int64_t at_ms;			/* CLOCK_MONOTONIC: asks for nothing before; 0: at once */
	bool asking;
	bool gives_back;		/* asking: only gives starts back */
	bool waited;			/* a start was refused since the last one was given */
	bool none_waits;		/* the last answer: ingress is empty. The fetcher has not seen it yet */
	struct retry retry;
};

void throttle_init(struct worker *w);
void throttle_lost(struct worker *w);
void throttle_adopted(struct worker *w);
void throttle_tick(struct worker *w, int64_t now_ms);
int64_t throttle_deadline_ms(const struct worker *w, int64_t now_ms);
/* all seats are taken: the worker may wait in Redis, and then Redis reads nothing else from it */
void throttle_await(struct worker *w, int64_t now_ms);
bool throttle_blocks(const struct worker *w);			/* it waits there */
/* the worker hands back all messages but one, which waits for a seat */
bool throttle_keeps_one(const struct worker *w);
/* so many messages may be fetched, to start now or one after the other; INT_MAX: as many as it wants */
int throttle_fetches(const struct worker *w);
int throttle_seats(const struct worker *w);			/* and no more than so many, which have seats */
/* so many messages may start now; INT_MAX: the queue has no limit */
int throttle_starts(const struct worker *w);
/* CLOCK_MONOTONIC: it may ask then, or the next start is due; INT64_MAX: after an answer, or at once */
int64_t throttle_next_ms(const struct worker *w, int64_t now_ms);
/* asks for `wanted` starts, unless it is too early. from_ingress: for no more than messages wait there */
void throttle_ask(struct worker *w, int wanted, bool from_ingress, int64_t now_ms);
void throttle_started(struct worker *w);			/* a message has started */
void throttle_rests(struct worker *w);				/* the worker waits for a message, not for a start */
bool throttle_found_none(struct worker *w);			/* once after each answer that ingress is empty */
answer_taker throttle_answer;

#endif
