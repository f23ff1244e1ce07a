/*
 * Executes the operations that commands have given to the sweeper (admin/operations/), each in a process of its own:
 * one may wait ten minutes for its canary, search lists of any length, and remember millions of messages, and the
 * rescue of dead workers must not wait for that. Nothing is lost if such a process is killed, as with a command that is
 * killed: the operation notes each step in Redis, and the next process continues it, here or on the next leader.
 *
 * The task due sees that the queue has operations, and wakes this task.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include <bsd/string.h>

#include "admin/operations/operations.h"
#include "common/base/base.h"
#include "sweeper/core/core.h"
#include "sweeper/dead_letters/dead_letters.h"

#define AT_ONCE 4		/* in a queue */
#define LOOK_MS 250		/* while one is under way, or has to begin */
#define FAILED_MS 5000		/* after an error; a process that works for so long has overcome it */
#define KILLED_MS 1000

extern const struct task operations_task;

struct running {
	struct subprocess process;
	char id[QUEUE_OPERATION_ID_SIZE];	/* "": free */
};

struct operations {
	struct running running[AT_ONCE];
	char error[256];		/* why a process failed; "": it is overcome */
	int64_t next_at_ms;		/* CLOCK_MONOTONIC: no process begins before */
	bool there;			/* the queue has operations, as the task due last saw */
};

static struct operations *operations_of(const struct sweeper_queue *q)
{
	return task_state(q, &operations_task);
}

void operations_seen(struct sweeper_queue *q, bool there)
{
	operations_of(q)->there = there;
	if ((there || task_fails(q, &operations_task)) && task_at_ms(q, &operations_task) >= TASK_WHEN_WOKEN_MS)
		task_wake_at(q, &operations_task, 0);
}

/* ---- processes ---- */

static int work(void *arg, int out)
{
	return execute(arg, out);
}

static struct running *free_place(struct operations *o)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (o->running[i].id[0] == '\0')
			return &o->running[i];
	return NULL;
}

static bool is_running(const struct operations *o, const char *id)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (strcmp(o->running[i].id, id) == 0)
			return true;
	return false;
}

/* The limit of its time is as good as none: Redis forgets an operation after so long without a step. */
static void start(struct sweeper *s, struct sweeper_queue *q, const char *id, int64_t now_ms)
{
	struct operations *o = operations_of(q);
	struct running *r = free_place(o);
	struct execution e = { .id = id, .conf = s->conf, .queue = q->conf, .keys = &q->keys, .target = &s->target };

	if (r == NULL || is_running(o, id))
		return;
	if (subprocess_start(&r->process, work, &e, QUEUE_OPERATION_KEEP_MS, now_ms) == -1) {
		snprintf(o->error, sizeof(o->error), "fork failed: %s", strerror(errno));
		return;
	}
	strlcpy(r->id, id, sizeof(r->id));
	log_info("operation_started", log_str("queue", q->keys.name), log_str("operation", id),
	    log_int("child", r->process.pid));
}

/* TERM of let_go() kills a process that does not catch it yet: that is no error. */
static void end(struct operations *o, struct running *r, int status, int64_t now_ms)
{
	const struct buffer *said = &r->process.said;
	bool killed = WIFSIGNALED(status) && !(r->process.asked && WTERMSIG(status) == SIGTERM);

	if (WIFEXITED(status) && WEXITSTATUS(status) == EXECUTED)
		o->error[0] = '\0';
	else if (WIFEXITED(status) && WEXITSTATUS(status) == EXECUTION_FAILED)
		snprintf(o->error, sizeof(o->error), "%.*s", (int)said->len, said->len == 0 ? "" : said->data);
	else if (killed)
		snprintf(o->error, sizeof(o->error), "signal %d killed the process of operation %s", WTERMSIG(status),
		    r->id);
	r->id[0] = '\0';
	if (o->error[0] != '\0')
		o->next_at_ms = now_ms + (killed ? KILLED_MS : FAILED_MS);
}

static bool is_under_way(const struct operations *o)
{
	for (size_t i = 0; i < AT_ONCE; i++)
		if (subprocess_runs(&o->running[i].process))
			return true;
	return false;
}

static void reap(struct sweeper_queue *q, int64_t now_ms)
{
	struct operations *o = operations_of(q);
	int status;

	for (size_t i = 0; i < AT_ONCE; i++) {
		struct running *r = &o->running[i];

		if (subprocess_poll(&r->process, &status, now_ms)) {
			log_info("operation_ended", log_str("queue", q->keys.name), log_str("operation", r->id),
			    log_int("exit", WIFEXITED(status) ? WEXITSTATUS(status) : -1));
			end(o, r, status, now_ms);
		}
	}
}

/* ---- the task ---- */

/* Returns how many are wanted; -1: error */
static int start_wanted(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	char id[QUEUE_OPERATION_ID_SIZE];
	struct redis_reply reply;
	const char *wanted;
	int n = 0;

	queue_operations_list(&s->redis, &q->keys, OPERATION_WANTED);
	if (connection_answer(s, &reply) == -1)
		return -1;
	for (size_t at = 0; queue_operations_listed(&reply, &at, id, &wanted);)
		if (strcmp(wanted, "run") == 0) {
			start(s, q, id, now_ms);
			n++;
		}
	return n;
}

/* Runs often while there is something to do. An error is shown until a process has succeeded or worked for a while, or
 * none is wanted any more. */
static enum task_end run_operations(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct operations *o = operations_of(q);
	bool waits = now_ms < o->next_at_ms, any;
	int wanted;

	(void)budget;
	reap(q, now_ms);
	any = is_under_way(o);
	wanted = waits ? 1 : start_wanted(s, q, now_ms);
	if (wanted == -1)
		return TASK_FAILED;
	if (any || wanted > 0)
		task_wake_at(q, &operations_task, now_ms + LOOK_MS);
	if (wanted == 0 || (any && now_ms >= o->next_at_ms + FAILED_MS))
		o->error[0] = '\0';
	if (o->error[0] == '\0')
		return TASK_DONE;
	connection_set_error(s, QUEUE_ERROR_OTHER, o->error);
	return TASK_FAILED;
}

/* A queue without operations needs no leader for them, unless an error is still shown, which the next look ends. */
static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return (operations_of(q)->there || task_fails(q, &operations_task)) && q->conf->dead_letter.enabled;
}

/* The next leader continues. True: none is under way any more */
static bool let_go(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct operations *o = operations_of(q);

	(void)s;
	for (size_t i = 0; i < AT_ONCE; i++)
		subprocess_ask_to_end(&o->running[i].process);
	reap(q, now_ms);
	return !is_under_way(o);
}

static void finish_in_queue(struct sweeper *s, struct sweeper_queue *q, void *now_ms)
{
	let_go(s, q, *(int64_t *)now_ms);
}

/* A sweeper that exits kills its processes, and the next leader can continue an operation of a killed process only
 * after its hold: so after the order to finish the sweeper waits until they have ended. */
static void finish(struct sweeper *s, int64_t now_ms)
{
	if (core_is_finishing(s))
		sweeper_queues_each(s, finish_in_queue, &now_ms);
}

static void look_for_process(struct sweeper *s, struct sweeper_queue *q, void *any)
{
	(void)s;
	*(bool *)any = *(bool *)any || is_under_way(operations_of(q));
}

static bool is_pending(struct sweeper *s)
{
	bool any = false;

	if (core_is_finishing(s))
		sweeper_queues_each(s, look_for_process, &any);
	return any;
}

static void free_operations(struct sweeper_queue *q)
{
	struct operations *o = operations_of(q);

	for (size_t i = 0; i < AT_ONCE; i++)
		subprocess_free(&o->running[i].process);
}

const struct task operations_task = {
	.name = "operations",
	.interval_ms = TASK_WHEN_WOKEN_MS,
	.budget = 1,
	.leads = true,
	.configured = true,
	.steady = true,
	.wanted = is_wanted,
	.run_queue = run_operations,
	.stop = let_go,
	.each_turn = finish,
	.is_pending = is_pending,
	.state_size = sizeof(struct operations),
	.free = free_operations,
};
