/*
 * The recovery of a queue at the start of a sweeper. Workers may not fetch before it is over, for two reasons: newer
 * messages must not overtake messages in the trays of a dead predecessor, and in a queue with wrong keys or rights
 * messages would lose attempts. The core repeats each stage with a back-off until it succeeds:
 *
 *	KEYS	the keys have the types that quredis gives them; the queue is entered in the registry
 *	RIGHTS	a rehearsal runs each script once on scratch keys, so that a missing right shows before a message
 *		depends on it
 *	OWNERS	rescues begin for all owners that held our lock before: their supervisor is dead for certain, and what
 *		its handlers left running is killed first. The bare list is returned, too
 *	LISTS	waits until these rescues are over, reads the pause flag, and lets the gate open
 *
 * A successor after a reload recovers again, but the gate stays as it is: its predecessor opened it. If a pulse shows
 * that another server answers, or the same one in an earlier state, the task repeats RIGHTS and the rescue of the bare
 * list while the queue stays open (recover_changed()).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/rescue/recover.h"

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/age/age.h"
#include "sweeper/registry/registry.h"
#include "sweeper/rescue/dead_supervisors.h"
#include "sweeper/rescue/rescue.h"

#define LOOK_MS 100		/* while rescues are under way that the gate waits for */

extern const struct task recover_task;

/* The stages of a recovery. RIGHTS is repeated alone if the server may be another. */
enum stage { RECOVER_KEYS, RECOVER_RIGHTS, RECOVER_OWNERS, RECOVER_LISTS };

/* The state of the task recover in a queue. */
struct recovery {
	enum stage stage;
	bool rehearse;			/* the server may be another since the rights were rehearsed */
};

static struct recovery *recovery_of(const struct sweeper_queue *q)
{
	return task_state(q, &recover_task);
}

bool recover_is_ours(const struct sweeper *s, const struct queue_worker *w)
{
	struct incarnation i;

	return strcmp(w->lock, s->child->lock_identity) == 0 && incarnation_parse(&i, w->incarnation) == 0 &&
	       i.boot != s->child->boot;
}

/* ---- keys ---- */

/* Reads all answers; reports the first key of another type. */
static int check_types(struct sweeper *s, struct sweeper_queue *q)
{
	struct queue_types wanted = {0};
	struct redis_reply reply;
	char error[256] = "";
	int rc = 0;

	queue_types_add_gates(&wanted, &q->keys);
	queue_types_ask(&s->redis, &wanted);
	for (size_t i = 0; i < wanted.n && rc == 0; i++) {
		rc = connection_answer(s, &reply);
		if (rc == 0 && error[0] == '\0' && queue_type_is_wrong(&wanted.of[i], &reply))
			snprintf(error, sizeof(error), "WRONGTYPE key %s is a %s, expected a %s", wanted.of[i].key,
			    reply.str, wanted.of[i].type);
	}
	queue_types_free(&wanted);
	if (rc == 0 && error[0] != '\0') {
		connection_set_error(s, QUEUE_ERROR_WRONG_TYPE, error);
		return -1;
	}
	return rc;
}

static int recover_keys(struct sweeper *s, struct sweeper_queue *q)
{
	return check_types(s, q) == -1 || registry_enter(s, q, false) == -1 ? -1 : 0;
}

/* ---- rights ---- */

/*
 * True: the error does not show a missing right. At maxmemory the rehearsal cannot run, but the scripts that matter
 * then are allowed. If the server refuses BRPOPLPUSH, a worker uses BLMOVE. "No such key": a supervisor with the same
 * node name rehearsed at the same moment.
 */
static bool says_nothing(const struct sweeper *s)
{
	return s->connection.error_kind == QUEUE_ERROR_TRANSIENT || queue_fetch_has_substitute(s->connection.error) ||
	       strcasestr(s->connection.error, "no such key") != NULL;
}

static unsigned rehearsal_of(const struct sweeper *s, const struct sweeper_queue *q)
{
	return queue_rehearsal_of(&q->keys, s->conf, q->conf);
}

static int take_step(struct sweeper *s, struct sweeper_queue *q, size_t i)
{
	char reason[sizeof(s->connection.error)], error[sizeof(s->connection.error)];
	struct redis_reply reply;

	if (connection_answer(s, &reply) == 0 || s->redis.state == REDIS_CLOSED || says_nothing(s))
		return 0;
	if (!q->conf->dead_letter.enabled && queue_rehearsal_is_of_record(i, rehearsal_of(s, q)))
		return 0;
	strlcpy(reason, s->connection.error, sizeof(reason));
	snprintf(error, sizeof(error), "%s: %.200s", queue_rehearsal_step(i, rehearsal_of(s, q)), reason);
	connection_set_error(s, s->connection.error_kind, error);
	return -1;
}

/* Reports the first step that failed: the others may only follow from it. */
static int recover_rights(struct sweeper *s, struct sweeper_queue *q)
{
	size_t n = queue_rehearse(&s->redis, &q->keys, s->conf->supervisor.node, rehearsal_of(s, q));

	for (size_t i = 0; i < n; i++)
		if (take_step(s, q, i) == -1 || s->redis.state == REDIS_CLOSED)
			return -1;
	return 0;
}

/* ---- owners ---- */

/*
 * Begins the rescues. Owners that were marked dead before are rescued again only if a message arrived late: there may
 * be thousands of them.
 */
static int add_owners(struct sweeper *s, struct sweeper_queue *q, const struct redis_reply *reply,
    const struct queue_worker *workers, size_t n, void *unused)
{
	const char **dead = alloc_zero(n + 1, sizeof(*dead));
	size_t ndead = 0;
	int rc = 0;

	(void)reply;
	(void)unused;
	dead_supervisors_note(s, workers, n);
	for (size_t i = 0; i < n && rc == 0; i++) {
		if (!recover_is_ours(s, &workers[i]))
			continue;
		rc = dead_supervisors_end(s, workers[i].incarnation);
		if (workers[i].died_at_ms != 0)
			dead[ndead++] = workers[i].incarnation;
		else if (rc == 0)
			rescue_add_owner(q, &workers[i], "lock", BLAME_OUTAGE, true);
	}
	if (rc == 0)
		rc = rescue_add_late(s, q, dead, ndead, true);
	free(dead);
	return rc;
}

static void add_bare(struct sweeper_queue *q, bool fence, bool gate)
{
	if (!q->conf->shared)
		rescue_add_bare(q, "bare", BLAME_WORKER, fence, gate);
}

void recover_changed(struct sweeper_queue *q)
{
	if (q->conf == NULL)
		return;
	recovery_of(q)->rehearse = true;
	if (!q->recovered)
		return;
	task_wake_at(q, &recover_task, 0);
	add_bare(q, true, false);
}

static int recover_owners(struct sweeper *s, struct sweeper_queue *q)
{
	int rc = sweeper_queue_use_workers(s, q, add_owners, NULL);

	if (rc == 0)
		add_bare(q, atomic_load(&q->board->sweeper.recovered) == RECOVERED_NOTHING, true);
	return rc;
}

/* ---- the task ---- */

/* A key of another type counts as absent here: the task due, which asks for the same, shows the error. */
static int take_count(struct sweeper *s, int64_t *n)
{
	if (connection_integer(s, n) == 0)
		return 0;
	*n = 0;
	return s->redis.state == REDIS_CLOSED || s->connection.error_kind != QUEUE_ERROR_WRONG_TYPE ? -1 : 0;
}

static int recover_lists(struct sweeper *s, struct sweeper_queue *q)
{
	int64_t n, paused, pushed;

	queue_poll(&s->redis, &q->keys);
	if (take_count(s, &n) == -1 || take_count(s, &paused) == -1 || take_count(s, &pushed) == -1)
		return -1;
	if (n > 0 || paused > 0)
		due_wake(q);		/* asks who paused it, and until when: until then the gate stays as it is */
	if (pushed > 0)
		pushed_wake(q);
	if (paused == 0)
		sweeper_queue_set_paused(s, q, false);
	return 0;
}

static void end_recovery(struct sweeper *s, struct sweeper_queue *q)
{
	atomic_store(&q->board->sweeper.recovered, RECOVERED_ALL);
	log_info("queue_recovered", log_str("queue", q->keys.name),
	    log_int("rescued", (int64_t)rescues_of(q)->returned), log_int("escaped", (int64_t)rescues_of(q)->escaped));
	sweeper_queue_set_recovered(s, q);
}

static enum stage stage_of(const struct sweeper_queue *q)
{
	return q->recovered ? RECOVER_RIGHTS : recovery_of(q)->stage;
}

/* Returns the name of the stage that failed, for the log. */
static const char *stage_name(const struct sweeper_queue *q)
{
	static const char *const names[] = { "keys", "rights", "recovery", "recovery" };

	return names[stage_of(q)];
}

/* Passes one stage. */
static enum task_end run_recover(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	static int (*const stages[])(struct sweeper *, struct sweeper_queue *) = {
		[RECOVER_KEYS] = recover_keys,
		[RECOVER_RIGHTS] = recover_rights,
		[RECOVER_OWNERS] = recover_owners,
		[RECOVER_LISTS] = recover_lists,
	};
	enum stage stage = stage_of(q);

	(void)budget;
	(void)now_ms;
	if (stage == RECOVER_LISTS && rescue_gates(q))
		return TASK_DONE;
	if (stages[stage](s, q) == -1)
		return TASK_FAILED;
	if (stage == RECOVER_RIGHTS)
		recovery_of(q)->rehearse = false;
	if (!q->recovered && stage == RECOVER_LISTS)
		end_recovery(s, q);
	else if (!q->recovered)
		recovery_of(q)->stage++;
	return q->recovered ? TASK_DONE : TASK_MORE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return !q->recovered || recovery_of(q)->rehearse;
}

/* True: the rescues that the gate waits for are over. */
static bool is_urgent(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms)
{
	(void)s;
	(void)now_ms;
	return !q->recovered && recovery_of(q)->stage == RECOVER_LISTS && !rescue_gates(q);
}

const struct task recover_task = { .name = "recover", .interval_ms = LOOK_MS, .budget = 1, .wanted = is_wanted,
	.urgent = is_urgent, .run_queue = run_recover,
	.step = stage_name, .state_size = sizeof(struct recovery) };
