/*
 * Runs health.on_change when the status of a queue is not the one that this command last succeeded for. The totals of
 * the queue in Redis have that status, for as long as the queue is used, so each change is notified once, whichever
 * host leads and however long none did; twice if the sweeper ends between the command and that write.
 */
#include "sweeper/report/health.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/base.h"
#include "sweeper/core/core.h"

#define LOOK_MS 1000		/* health has judged meanwhile, or another command ended */
#define AGAIN_MS 30000		/* after a command that failed, for the same status */
/* Of the sweeper: with more no command starts, however many queues change. One that failed runs again only alone. */
#define CHILDREN_MOST 4

/* Of one queue. */
struct notice {
	struct subprocess subprocess;	/* the command */
	enum queue_health_level told;	/* the status that it was run for */
	int64_t not_before_ms;		/* CLOCK_MONOTONIC: for this status again */
};

extern const struct task on_change_task;

static struct notice *notice_of(const struct sweeper_queue *q)
{
	return task_state(q, &on_change_task);
}

static void note_failure(const struct sweeper_queue *q, const char *error, int64_t now_ms)
{
	notice_of(q)->not_before_ms = now_ms + AGAIN_MS;
	log_warning("on_change_failed", log_str("queue", q->keys.name),
	    log_str("command", q->conf->health.on_change[0]), log_str("status", queue_health_names[notice_of(q)->told]),
	    log_str("error", error), log_int("again_s", AGAIN_MS / 1000));
}

static void start_command(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct notice *n = notice_of(q);
	const struct health *h = health_of(q);
	char *document = health_document(s, q);
	struct command_facts facts = {0};
	const char *why;

	command_fact(&facts, "QUREDIS_STATUS=%s", queue_health_names[h->status]);
	command_fact(&facts, "QUREDIS_STATUS_BEFORE=%s", queue_health_names[h->notified]);
	n->told = h->status;
	why = command_start(&n->subprocess, s, q, &(struct command_run){ "on_change", q->conf->health.on_change,
	    document, strlen(document), &facts }, now_ms);
	if (why != NULL)
		note_failure(q, why, now_ms);
	free(document);
}

static enum task_end end_command(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct notice *n = notice_of(q);
	enum command_end end;
	const char *why;

	if (!command_ended(&n->subprocess, &end, &why, now_ms))
		return TASK_DONE;
	if (end == COMMAND_SUCCEEDED)
		return health_notified(s, q, n->told) == -1 ? TASK_FAILED : TASK_MORE;
	note_failure(q, why, now_ms);
	return TASK_MORE;
}

/* The status may have changed while the command ran: what counts is whether it is the one that was notified. */
static enum task_end run_on_change(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	const struct notice *n = notice_of(q);
	const struct health *h = health_of(q);

	(void)budget;
	if (subprocess_runs(&n->subprocess))
		return end_command(s, q, now_ms);
	if (h->status != h->notified && (h->status != n->told || now_ms >= n->not_before_ms) &&
	    subprocess_under_way() < (h->status == n->told ? 1 : CHILDREN_MOST))
		start_command(s, q, now_ms);
	return TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return s->conf->health.enabled && q->conf->health.on_change != NULL && health_of(q)->since_ms != 0;
}

/* Another sweeper leads the queue, and notifies. */
static bool give_up(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	(void)s;
	(void)now_ms;
	subprocess_free(&notice_of(q)->subprocess);
	return true;
}

static void free_state(struct sweeper_queue *q)
{
	subprocess_free(&notice_of(q)->subprocess);
}

static const struct subprocess *subprocess_of(const struct sweeper_queue *q)
{
	return &notice_of(q)->subprocess;
}

const struct task on_change_task = { .name = "on_change", .interval_ms = LOOK_MS, .budget = 1, .unsealed = true,
	.leads = true, .configured = true, .wanted = is_wanted, .run_queue = run_on_change, .stop = give_up,
	.state_size = sizeof(struct notice), .free = free_state, .subprocess = subprocess_of };
