#ifndef WORKER_FETCHER_H
#define WORKER_FETCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/redis/redis.h"

#include "worker/retry.h"

struct worker;

/* Owner: fetcher.c. Until when the worker fetches nothing, and the second connection that ends a blocking fetch. */
struct fetcher {
	struct retry retry;		/* after an error; while Redis is at maxmemory, also between checks of ingress */
	int64_t ahead_at_ms;		/* with messages in flight, no fetch before: the last one found too few to fill the window */
	int64_t oom_until_ms;		/* until then, fetch by the script that Redis allows at maxmemory */
	int64_t asked_us;		/* when the fetch under way was sent */
	int64_t fetched_us;		/* when messages arrived last; 0: never */
	bool busy;			/* the last fetch brought a message at once: the next need not block, and RPOPLPUSH costs Redis less */
	int64_t received_us[QUEUE_TRAYS];	/* when the newest message of each tray arrived; 0: never */
	bool memory_freed;		/* unused memory was freed since fetched_us */
	bool asking_paused;		/* no message starts before Redis answers whether the queue is paused */
	int64_t paused_until_us;	/* the queue is paused: no fetch before, and the next message asks again; 0: not paused */
	bool probing;			/* the breaker is open, and the message in flight is its probe */
	struct redis unblock;		/* second connection: ends a blocked fetch at a stop */
	enum { UNBLOCK_IDLE, UNBLOCK_OPENING, UNBLOCK_SENT, UNBLOCK_DONE } unblocking;
};

void fetcher_init(struct fetcher *f, const struct redis_target *target, const char *client_name);	/* keeps both */
void fetcher_free(struct fetcher *f);
void fetcher_lost(struct fetcher *f);			/* the connection is closed: no answer comes */
void fetcher_pause_ahead(struct fetcher *f, int64_t until_ms);	/* with messages in flight, no fetch before until_ms; 0: at once */
void fetcher_not_before(struct fetcher *f, int64_t until_ms);	/* no fetch before until_ms (CLOCK_MONOTONIC); a longer wait stays */
void fetcher_retry_now(struct fetcher *f);		/* no back-off before the next fetch */
void fetcher_probe_failed(struct fetcher *f);		/* the next fetch waits for the next probe of the breaker */
void fetcher_received(struct worker *w, int tray, size_t len);	/* counts a message that arrived in a tray */
/*
 * How many messages the next fetch asks for; 0 or less: none are wanted. With messages in flight, the worker requests more only if it will start them soon,
 * or if the handler takes them at once: it fills the window of a persistent handler however long a message takes.
 */
int fetcher_count_wanted(const struct worker *w);
void fetcher_tick(struct worker *w, int64_t now_ms);		/* fetches, unless admission.c knows a hold */
void fetcher_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void fetcher_paused_answer(struct worker *w, const struct redis_reply *reply);
void fetcher_unblock_io(struct worker *w, int64_t now_ms);

#endif
