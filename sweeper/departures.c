/*
 * Warns of a queue that left the configuration, or has other keys now, while messages wait in it: the operator may not know about
 * them. The next sweeper does not know the queue, so this one warns, even if it is about to exit.
 */
#include "sweeper/gauge.h"
#include "sweeper/sweeper.h"

#include "common/log.h"

static bool is_mine_to_tell(struct swept *q)
{
	uint32_t left = QUEUE_LEFT;

	return q->conf != NULL && q->board != NULL && atomic_load(&q->board->departure) == QUEUE_LEFT &&
	       atomic_compare_exchange_strong(&q->board->departure, &left, QUEUE_LEFT_TOLD);
}

/* Also warns if the lists could not be read: they may hold messages. A size of -1 (not known) gives no field in the log. */
static void log_waiting(struct sweeper *s, struct swept *q)
{
	struct gauge g;
	int rc = gauge_sizes(s, q, &g);

	if (rc == 0 && g.ingress.size + g.delayed + g.transit.size + g.escape.size == 0)
		return;
	log_warning("queue_left_waiting", log_str("queue", q->keys.name), log_int("ingress", g.ingress.size),
	    log_int("delayed", g.delayed), log_int("transit", g.transit.size), log_int("escape", g.escape.size),
	    log_str("error", rc == -1 ? s->error : NULL),
	    log_str("advice", "this host no longer fetches or rescues them, nor archives dead letters: configure the queue again or move the messages"));
}

static bool run_departures(struct sweeper *s, int budget, int64_t now_ms)
{
	struct swept *q;

	(void)budget;
	(void)now_ms;
	TAILQ_FOREACH(q, &s->queues, entry)
		if (sweeper_goes_on(s) && is_mine_to_tell(q)) {
			log_waiting(s, q);
			connection_drain(s);
		}
	return false;
}

const struct task departures_task = { .name = "departures", .budget = 1, .finishing = true, .run = run_departures };
