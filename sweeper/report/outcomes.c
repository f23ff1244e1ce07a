/*
 * Asks every few seconds how many attempts succeeded and failed, so that health judges a queue soon after its messages
 * begin to fail, whatever its interval is. All queues share one write, of one command each. The counters are totals of
 * all hosts (common/queue/stats.h). They only say when to look: the look itself reads the figures of each minute of the
 * window, so a wrong memory here costs one look, and no alarm.
 */
#include "sweeper/report/outcomes.h"

#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/report/gauge.h"
#include "sweeper/report/health.h"

#define EVERY_MS 10000

/* The state in a queue. Redis may go back in time, or may be another one: a total below the last one begins anew. */
struct outcomes {
	bool known;
	/* totals when health judged last, or at the first answer; at the last answer */
	struct queue_outcomes base, now;
};

static struct outcomes *outcomes_of(const struct sweeper_queue *q)
{
	return task_state(q, &outcomes_task);
}

bool outcomes_alarm(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct conf_thresholds *t = gauge_thresholds(s, q);
	const struct health *h = health_of(q);
	const struct outcomes *o = outcomes_of(q);
	int64_t failed = o->now.failed - o->base.failed;

	return o->known && health_rule_is_worse(&h->checks[HEALTH_FAILURES],
	    health_rule_failure_rate(failed, failed + o->now.done - o->base.done, t->failure_min),
	    &h->figures[HEALTH_FAILURES].limit);
}

void outcomes_judged(const struct sweeper_queue *q)
{
	outcomes_of(q)->base = outcomes_of(q)->now;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)q;
	return s->conf->health.enabled && s->conf->health.interval_ms > EVERY_MS;
}

static bool ask_outcomes(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	(void)budget;
	(void)now_ms;
	queue_outcomes(&s->redis, &q->keys, QUEUE_TOTALS);
	return true;
}

/* The look at the queue reports an error of this key, so it is not reported here, too. */
static enum task_end take_outcomes(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct outcomes *o = outcomes_of(q);
	struct redis_reply reply;
	struct queue_outcomes now;

	(void)now_ms;
	if (connection_answer(s, &reply) == -1 || !queue_outcomes_parse(&now, &reply)) {
		o->known = false;
		return TASK_DONE;
	}
	if (!o->known || now.done < o->now.done || now.failed < o->now.failed)
		o->base = now;
	o->now = now;
	o->known = true;
	return TASK_DONE;
}

const struct task outcomes_task = { .name = "outcomes", .interval_ms = EVERY_MS, .budget = 1, .leads = true,
	.wanted = is_wanted, .ask = ask_outcomes,
	.take = take_outcomes, .steady = true, .state_size = sizeof(struct outcomes) };
