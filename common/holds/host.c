/*
 * Measures the figures of a queue on this host: the only place that does, for the status of the master, and for the
 * report of the node and both pages of metrics of the sweeper. A figure of the memory costs a file of /proc for each
 * process, so the report of the node adds those.
 */
#include "common/holds/holds.h"

static int64_t left_ms(int64_t at_ms, int64_t now_ms)
{
	return at_ms < now_ms ? 0 : at_ms - now_ms;
}

struct facts holds_host_facts(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms)
{
	const struct hold_workers *w = &slots->of_queue[q - b->queues];
	const struct queue_breaker *breaker = &q->workers.breaker;
	struct facts f = facts_unknown();

	for (int i = FACT_STARTING; i <= FACT_STOPPING; i++)
		f.n[i] = w->in_state[SLOT_STARTING + i - FACT_STARTING];
	f.n[FACT_WANTED] = atomic_load(&q->master.wanted);
	f.n[FACT_RESTARTS] = (int64_t)atomic_load(&q->master.restarts);
	if (conf != NULL && conf->max_in_flight > 0)
		f.n[FACT_SEATS_AWAITED] = w->awaiting_seat;
	f.n[FACT_BREAKER] = atomic_load(&breaker->step) > 0;
	f.n[FACT_HANDLER_NOT_READY] = holds_not_ready(q) != NULL;
	/* no hold keeps the workers from trying the handler */
	if (f.n[FACT_BREAKER] > 0 && judged->hold != HOLD_NONE && !judged->shut)
		f.n[FACT_NEXT_ATTEMPT] = left_ms(atomic_load(&breaker->until_ms), now_ms);
	if ((judged->hold == HOLD_REFUSED || judged->hold == HOLD_NO_REDIS) && w->next != NULL && w->connected == 0)
		f.n[FACT_NEXT_CONNECT] = left_ms(atomic_load(&w->next->redis_retry_ms), now_ms);
	return f;
}
