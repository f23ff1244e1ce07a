#ifndef WORKER_FETCHER_H
#define WORKER_FETCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: fetcher.c. The last fetch, and the second connection that ends a blocking fetch. */
struct fetcher {
	int64_t oom_until_ms;		/* until then, fetch by the script that Redis allows at maxmemory */
	int64_t asked_us;		/* when the fetch under way was sent */
	int64_t fetched_us;		/* when messages arrived last; 0: never */
	/* the last fetch brought a message at once: the next need not block, and RPOPLPUSH costs Redis less */
	bool busy;
	uint64_t probe_after;		/* serial of the last message before the last probe of the breaker */
	bool memory_freed;		/* unused memory was freed since fetched_us */
	bool asking_paused;		/* no message starts before Redis answers whether the queue is paused */
	/* the queue is paused: no fetch before, and the next message asks again; 0: not paused */
	int64_t paused_until_us;
	struct redis unblock;		/* second connection: ends a blocked fetch at a stop */
	enum { UNBLOCK_IDLE, UNBLOCK_OPENING, UNBLOCK_SENT, UNBLOCK_DONE } unblocking;
};

void fetcher_init(struct worker *w);
void fetcher_free(struct worker *w);
void fetcher_lost(struct worker *w);
void fetcher_adopted(struct worker *w);
void fetcher_received(struct worker *w, struct item *item);	/* counts a message that arrived */
/* fetches, unless admission.c knows a hold; ends a fetch that must not block any more */
void fetcher_tick(struct worker *w, int64_t now_ms);
void fetcher_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
void fetcher_paused_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);

#endif
