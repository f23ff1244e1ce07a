/*
 * Warns of a queue that left the configuration, or has other keys now, while messages wait in it: the operator may not
 * know about them. The next sweeper does not know the queue, so this one warns, even if it is about to exit.
 */
#include "sweeper/report/gauge.h"
#include "sweeper/core/core.h"

#include "common/log/log.h"

/* True for the first of this master's sweepers that calls it: that one logs. */
static bool claim_log(struct sweeper_queue *q)
{
	uint32_t not_logged = 0;

	return atomic_compare_exchange_strong(&q->board->sweeper.left_logged, &not_logged, 1);
}

/* Warns also if the lists could not be read, since they may hold messages. A size of -1 (not known) is left out of the
 * line. */
static void log_waiting(struct sweeper *s, struct sweeper_queue *q)
{
	struct gauge g;
	int rc = gauge_sizes(s, q, &g);
	int64_t ingress = g.facts.n[FACT_INGRESS_SIZE], delayed = g.facts.n[FACT_DELAYED_SIZE];
	int64_t transit = g.facts.n[FACT_TRANSIT_SIZE], escape = g.facts.n[FACT_ESCAPE_SIZE];

	if (rc == 0 && ingress + delayed + transit + escape == 0)
		return;
	log_warning("queue_left_waiting", log_str("queue", q->keys.name), log_int("ingress", ingress),
	    log_int("delayed", delayed), log_int("transit", transit), log_int("escape", escape),
	    log_str("error", rc == -1 ? s->connection.error : NULL),
	    log_str("advice", "this host no longer fetches or rescues them, nor archives dead letters: configure the "
	    "queue again or move the messages"));
}

static enum task_end run_departures(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)budget;
	(void)now_ms;
	if (claim_log(q))
		log_waiting(s, q);
	return TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->conf != NULL && q->board != NULL && atomic_load(&q->board->master.left) != 0 &&
	    atomic_load(&q->board->sweeper.left_logged) == 0;
}

const struct task departures_task = { .name = "departures", .budget = 1, .finishing = true, .wanted = is_wanted,
    .run_queue = run_departures };
