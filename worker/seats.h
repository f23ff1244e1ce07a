#ifndef WORKER_SEATS_H
#define WORKER_SEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"

#include "worker/component.h"
#include "worker/retry.h"

struct worker;

/*
 * Owner: seats.c. The seats that this worker has, if its queue has max_in_flight: each message that runs needs one.
 * throttle.c calls it; the other components only know throttle.h.
 */
struct seats {
	uint64_t first;			/* no generation of this process is lower */
	struct queue_seats_limit limit;	/* as this host loaded it; max 0: not known yet */
	int64_t n;			/* Redis has given so many, and cannot have given them to another worker */
	int64_t confirmed_us;		/* CLOCK_MONOTONIC: when Redis said so last; 0: not on this connection */
	int64_t adopted_ms;		/* CLOCK_MONOTONIC: since when this server is certainly the same */
	struct redis_identity server;	/* then */
	int64_t lost_ms;		/* CLOCK_MONOTONIC: when the last connection was lost */
	int64_t other_ms;		/* CLOCK_MONOTONIC: until then another server was used; 0: none was */
	int64_t idle_us;		/* CLOCK_MONOTONIC: since when more than one runs in are held; 0: none are */
	int64_t at_ms;			/* CLOCK_MONOTONIC: asks for more not before; 0: at once */
	int asking;			/* requests without an answer */
	int64_t wanted;			/* what the last one asked for */
	bool anew;			/* the server was asked for its identity since the last request */
	bool quiet;			/* the last answer: Redis gives none yet, since it may have gone back in time */
	/* others may have got its seats: its lease ended while messages ran, or more are taken than there are */
	bool above;
	bool refused;			/* the last answer: all are taken, and this worker has none */
	bool keeps_one;			/* the last answer: a message that waits here would wait long */
	bool waited;			/* fewer came than were wanted since the last time that all came */
	bool none_waits;		/* the last answer: ingress is empty. The fetcher has not seen it yet */
	bool blocking;			/* waits in Redis for one that becomes free */
	struct retry retry;
};

void seats_init(struct worker *w);
void seats_lost(struct worker *w);
void seats_adopted(struct worker *w);
void seats_tick(struct worker *w, int64_t now_ms);
/* so many messages may start now; INT_MAX: the queue has no max_in_flight */
int seats_free(const struct worker *w);
bool seats_let_fetch(const struct worker *w);	/* it has one for them, or needs none */
int seats_fetches(const struct worker *w);	/* then it fetches no more than so many */
bool seats_keep_one(const struct worker *w);	/* it hands back all messages but one, which waits for a seat */
/* CLOCK_MONOTONIC: it may ask then; INT64_MAX: after an answer, or at once */
int64_t seats_next_ms(const struct worker *w, int64_t now_ms);
int64_t seats_deadline_ms(const struct worker *w);
/* Asks for seats for `wanted` messages more, unless it is too early. from_ingress: for no more than wait there */
void seats_ask(struct worker *w, int wanted, bool from_ingress, int64_t now_ms);
void seats_give_back(struct worker *w, int64_t now_ms);		/* those in which no message runs */
void seats_await(struct worker *w, int64_t now_ms);	/* in Redis, if it may, for one that becomes free */
bool seats_found_none(struct seats *s);			/* once after each answer that ingress is empty */
answer_taker seats_answer, seats_woken;

#endif
