/*
 * Of the sweepers of many hosts one does a queue's periodic work: the one that has its lease. Two at once do
 * no harm, since every step is a script that checks what it moves; they would only do it twice. A
 * queue without such work has no lease. What the work is, is each task's own.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sweeper/sweeper.h"

#include "common/clock.h"
#include "common/queue_watch.h"

struct lead {
	int64_t until_ms;		/* CLOCK_BOOTTIME: the end of our lease; 0: we have none */
	int64_t ask_at_ms;		/* CLOCK_MONOTONIC */
	bool asked;			/* an answer is under way */
	bool ours;			/* the last answer; as logged */
};

static struct lead *lead_of(const struct swept *q)
{
	return task_state(q, TASK_lead);
}

bool lead_wanted(const struct sweeper *s, const struct swept *q)
{
	const struct conf_queue *conf = q->conf;

	if (conf == NULL || q->recovery != RECOVERED)
		return false;
	return conf->ttl_ms > 0 || conf->done.keep > 0 || conf->dead_letter.ttl_ms > 0 || conf->dead_letter.max_entries > 0 ||
	       conf->dead_letter.archive != NULL || conf->dead_letter.forward_to != NULL || s->conf->purge.enabled ||
	       metrics_wanted(s->conf);
}

bool lead_is_ours(const struct swept *q)
{
	return clock_boottime_ms() < lead_of(q)->until_ms;
}

bool lead_was_ours(const struct swept *q)
{
	return lead_of(q)->ours;
}

void lead_name(const struct sweeper *s, char out[LEAD_NAME_SIZE])
{
	snprintf(out, LEAD_NAME_SIZE, "%s.%016" PRIx64, s->conf->supervisor.node, s->child->boot);
}

static void ask(struct sweeper *s, struct swept *q, int64_t lease_ms)
{
	char name[LEAD_NAME_SIZE];

	lead_name(s, name);
	queue_lead(&s->redis, &q->keys, name, lease_ms);
}

static void answered(struct sweeper *s, struct swept *q, int64_t sent_ms, int64_t now_ms)
{
	int64_t ours;

	if (connection_integer(s, &ours) == -1) {
		if (s->redis.state != REDIS_CLOSED)
			trouble_note(s, q, task_trouble(q, TASK_lead), "lead", now_ms);
		return;
	}
	trouble_over(s, q, task_trouble(q, TASK_lead));
	lead_of(q)->until_ms = ours == 1 ? sent_ms + s->conf->supervisor.lease_ms : 0;
	if (lead_of(q)->ours != (ours == 1))
		log_info(ours == 1 ? "lead_taken" : "lead_lost", log_str("queue", q->keys.name));
	lead_of(q)->ours = ours == 1;
	swept_publish(s, q);
}

void lead_doubt(struct sweeper *s)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		lead_of(q)->until_ms = lead_of(q)->ask_at_ms = 0;
}

/* After a reload the successor does it, by the new configuration and under the same name. */
static void leave_it(struct sweeper *s)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		lead_of(q)->until_ms = 0;
}

static bool run_lead(struct sweeper *s, int budget, int64_t now_ms)
{
	int64_t sent_ms = clock_boottime_ms();
	struct swept *q;

	(void)budget;
	if (atomic_load(&s->child->board->sweeper) != s->child->slot) {
		leave_it(s);
		return false;
	}
	TAILQ_FOREACH(q, &s->queues, entry) {
		lead_of(q)->asked = lead_wanted(s, q) && now_ms >= lead_of(q)->ask_at_ms && !trouble_waits(task_trouble(q, TASK_lead), now_ms);
		if (!lead_of(q)->asked)
			continue;
		ask(s, q, s->conf->supervisor.lease_ms);
		lead_of(q)->ask_at_ms = now_ms + s->conf->supervisor.lease_ms / 4;
	}
	TAILQ_FOREACH(q, &s->queues, entry)
		if (lead_of(q)->asked && s->redis.state != REDIS_CLOSED)
			answered(s, q, sent_ms, now_ms);
	return false;
}

const struct task lead_task = { .name = "lead", .interval_ms = 1000, .per_lease = 8, .budget = 1, .run = run_lead, .in_queues = true, .state_size = sizeof(struct lead) };

/* At a stop: the next host need not wait. Nobody is, if this does not get there. */
void lead_give_up(struct sweeper *s)
{
	struct redis_reply reply;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (s->redis.state == REDIS_READY && lead_is_ours(q))
			ask(s, q, 0);
	while (s->redis.state == REDIS_READY && s->redis.pending > 0)
		connection_answer(s, &reply);
}
