/*
 * A queue's start: are its keys ours to use, may we do all we must, what did the supervisor before us
 * leave in work. Once that is back in ingress the gate opens, whatever other queues do.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/queue_rehearsal.h"
#include "common/queue_watch.h"

bool recover_is_ours(const struct sweeper *s, const struct queue_worker *w)
{
	struct incarnation i;

	return strcmp(w->lock, s->child->lock_identity) == 0 && incarnation_parse(&i, w->incarnation) == 0 &&
	       i.boot != s->child->boot;
}

/* ---- keys ---- */

static int check_types(struct sweeper *s, struct swept *q)
{
	struct queue_type wanted[QUEUE_TYPES];
	struct redis_reply reply;
	char error[256];

	queue_types_wanted(&q->keys, wanted);
	queue_types(&s->redis, &q->keys);
	for (size_t i = 0; i < queue_types_asked(&q->keys); i++) {
		if (connection_answer(s, &reply) == -1)
			return -1;
		if (reply.type != REDIS_STATUS || strcmp(reply.str, "none") == 0 || strcmp(reply.str, wanted[i].type) == 0)
			continue;
		snprintf(error, sizeof(error), "WRONGTYPE key %s is a %s, expected a %s", wanted[i].key, reply.str,
		    wanted[i].type);
		trouble_say(s, TROUBLE_WRONG_TYPE, error);
		return -1;
	}
	return 0;
}

static int recover_keys(struct sweeper *s, struct swept *q)
{
	return check_types(s, q) == -1 || registry_enter(s, q, false) == -1 ? -1 : 0;
}

/* ---- rights ---- */

/*
 * Not of a right: at maxmemory the rehearsal cannot run (what counts then was written to run), and where a
 * fetch command is gone a worker takes another. "No such key": a supervisor of the same name rehearsed at the same moment.
 */
static bool says_nothing(const struct sweeper *s)
{
	return s->error_kind == TROUBLE_STORM || strcasestr(s->error, "unknown command") != NULL ||
	       strcasestr(s->error, "unknown redis command") != NULL || strcasestr(s->error, "no such key") != NULL;
}

static enum queue_rehearsal rehearsal_of(const struct sweeper *s, const struct swept *q)
{
	return queue_rehearsal_of(&q->keys, conf_queue_ages(s->conf, q->conf));
}

static int take_step(struct sweeper *s, struct swept *q, size_t i)
{
	char reason[sizeof(s->error)], error[sizeof(s->error)];
	struct redis_reply reply;

	if (connection_answer(s, &reply) == 0) {
		if (!q->conf->dead_letter.enabled || !queue_rehearsal_lacks_record(i, rehearsal_of(s, q), &reply))
			return 0;
		trouble_say(s, TROUBLE_NO_PERMISSION, "the record cannot be written (XADD)");
	} else if (s->redis.state == REDIS_CLOSED || says_nothing(s)) {
		return 0;
	}
	strlcpy(reason, s->error, sizeof(reason));
	snprintf(error, sizeof(error), "%s: %.200s", queue_rehearsal_step(i, rehearsal_of(s, q)), reason);
	trouble_say(s, s->error_kind, error);
	return -1;
}

/* The first step that failed is told: the others may only follow from it. */
static int recover_rights(struct sweeper *s, struct swept *q)
{
	size_t n = queue_rehearse(&s->redis, &q->keys, s->conf->supervisor.node, rehearsal_of(s, q));

	for (size_t i = 0; i < n; i++)
		if (take_step(s, q, i) == -1 || s->redis.state == REDIS_CLOSED)
			return -1;
	return 0;
}

/* ---- owners ---- */

/* Those who were marked before, and emptied, only if something came late: there may be thousands of them. */
static int add_owners(struct sweeper *s, struct swept *q, const struct queue_worker *workers, size_t n)
{
	const char **dead = alloc_zero(n + 1, sizeof(*dead));
	size_t ndead = 0;
	int rc = 0;

	dead_boots_note(s, workers, n);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (!recover_is_ours(s, &workers[i]))
			continue;
		rc = dead_boots_end(s, workers[i].incarnation);
		if (workers[i].died_at_ms != 0)
			dead[ndead++] = workers[i].incarnation;
		else if (rc == 0)
			rescue_add_owner(q, &workers[i], "lock", BLAME_OUTAGE, true);
	}
	if (rc == 0)
		rc = late_look(s, q, dead, ndead, true);
	free(dead);
	return rc;
}

static void add_bare(struct swept *q, bool fence, bool gate)
{
	if (!q->conf->shared)
		rescue_add(q, NULL, "bare", BLAME_WORKER, gate)->fence = fence;
}

void recover_changed(struct swept *q)
{
	if (q->conf == NULL)
		return;
	q->rehearse = true;
	if (q->recovery == RECOVERED)
		add_bare(q, true, false);
}

static int recover_owners(struct sweeper *s, struct swept *q)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;
	int rc;

	if (swept_workers(s, q, &reply, &workers, &n) == -1)
		return -1;
	rc = add_owners(s, q, workers, n);
	queue_workers_free(workers, n);
	if (rc == 0)
		add_bare(q, atomic_load(&q->board->recovered) == RECOVERED_NOTHING, true);
	return rc;
}

/* ---- the task ---- */

static bool gate_waits(const struct swept *q)
{
	const struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (r->gate)
			return true;
	return false;
}

static int recover_lists(struct sweeper *s, struct swept *q)
{
	int64_t n, paused;

	queue_poll(&s->redis, &q->keys);
	if (connection_integer(s, &n) == -1 || connection_integer(s, &paused) == -1)
		return -1;
	due_set_delayed(q, n > 0);
	swept_set_paused(s, q, paused != 0);
	return 0;
}

static void recovered(struct sweeper *s, struct swept *q)
{
	atomic_store(&q->board->recovered, RECOVERED_ALL);
	log_info("queue_recovered", log_str("queue", q->keys.name), log_int("rescued", (int64_t)q->rescued),
	    log_int("escaped", (int64_t)q->escaped));
	swept_gate(s, q);
}

/* True: it has come a stage further. */
static bool recover_queue(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	static int (*const stages[])(struct sweeper *, struct swept *) = {
		[RECOVER_KEYS] = recover_keys,
		[RECOVER_RIGHTS] = recover_rights,
		[RECOVER_OWNERS] = recover_owners,
		[RECOVER_LISTS] = recover_lists,
	};
	static const char *const at[] = { "keys", "rights", "recovery", "recovery" };
	enum recovery stage = q->recovery == RECOVERED ? RECOVER_RIGHTS : q->recovery;

	if (stage == RECOVER_LISTS && gate_waits(q))
		return false;		/* for rescue.c */
	if (stages[stage](s, q) == -1) {
		connection_drain(s);
		trouble_note(s, q, task_trouble(q, TASK_recover), at[stage], now_ms);
		return false;
	}
	trouble_over(s, q, task_trouble(q, TASK_recover));
	if (stage == RECOVER_RIGHTS)
		q->rehearse = false;
	if (q->recovery == RECOVERED)
		return false;
	q->recovery++;
	if (q->recovery == RECOVERED)
		recovered(s, q);
	return true;
}

static bool run_recover(struct sweeper *s, int budget, int64_t now_ms)
{
	bool more = false;
	struct swept *q;

	(void)budget;
	TAILQ_FOREACH(q, &s->queues, entry) {
		if ((q->recovery == RECOVERED && !q->rehearse) || trouble_waits(task_trouble(q, TASK_recover), now_ms))
			continue;
		if (!sweeper_goes_on(s))
			return false;
		more = recover_queue(s, q, now_ms) || more;
	}
	return more;
}

const struct task recover_task = { .name = "recover", .budget = 1, .run = run_recover, .in_queues = true };
