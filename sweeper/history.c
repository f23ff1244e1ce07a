/* The history of what is done, where a queue keeps one: the oldest leave when their time is over. A page a second and queue. */
#include "sweeper/sweeper.h"

#include "common/clock.h"
#include "common/queue_history.h"

#define EVERY_MS 1000
#define EVERY_MOST_MS 10000
#define PAGE 100

static int64_t max_age(const struct sweeper *s, const struct swept *q)
{
	int64_t most = q->conf->done.keep > 0 ? q->conf->done.max_age_ms : INT64_MAX;
	bool purged = s->conf->purge.enabled && !s->conf->purge.dry_run;

	return purged && q->conf->purge.max_done_age_ms < most ? q->conf->purge.max_done_age_ms : most;
}

/* What was added before the clock was seen to be set counts from then. */
static bool is_known(const struct sweeper *s, int64_t age_ms, int64_t *before_ms)
{
	struct age_clock clock;

	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		return false;
	*before_ms = clock.now_ms - age_ms;
	return *before_ms > clock.stepped_ms;
}

static int trim(struct sweeper *s, struct swept *q, int64_t before_ms, int budget)
{
	int64_t n = PAGE;

	while (n == PAGE && budget-- > 0 && sweeper_goes_on(s)) {
		queue_history_trim(&s->redis, &q->keys, before_ms, PAGE);
		if (connection_integer(s, &n) == -1)
			return -1;
	}
	return n == PAGE;
}

static void sweep(struct sweeper *s, struct swept *q, int64_t age_ms, int budget, int64_t now_ms)
{
	int64_t before_ms, every = age_ms / 4 < EVERY_MS ? EVERY_MS : age_ms / 4 > EVERY_MOST_MS ? EVERY_MOST_MS : age_ms / 4;
	int rc = is_known(s, age_ms, &before_ms) ? trim(s, q, before_ms, budget) : 0;

	q->history_at_ms = now_ms + (rc == 1 ? 0 : every);
	if (rc == 0) {
		trouble_over(s, q, &q->history_trouble);
	} else if (rc == -1) {
		trouble_note(s, q, &q->history_trouble, "history", now_ms);
		q->history_at_ms = q->history_trouble.retry_at_ms;
	}
}

bool history_task(struct sweeper *s, int budget, int64_t now_ms)
{
	bool more = false;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		int64_t age_ms = q->conf == NULL ? INT64_MAX : max_age(s, q);

		if (age_ms == INT64_MAX || !lead_is_ours(q) || now_ms < q->history_at_ms || !sweeper_goes_on(s))
			continue;
		sweep(s, q, age_ms, budget, now_ms);
		connection_drain(s);
		more = more || q->history_at_ms <= now_ms;
	}
	return more;
}
