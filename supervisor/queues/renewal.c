/*
 * Replaces the workers of a queue whose handler says READY, after a reload or a restart. A worker that works goes on
 * until the handler of its successor is ready. If that fails, the successor leaves, and the old workers go on, with
 * the configuration that they have. One worker is replaced after the other, so that the host needs the memory of one
 * further handler for each queue, and a handler that does not load is tried by one successor.
 *
 * Each turn compares what is wanted, workers of the newest generation, with what is there. So a change meanwhile needs
 * no rule of its own: a successor of an earlier generation leaves, and a worker that does not work has nothing to
 * protect, and leaves at once. A number has one worker that serves, and one that loads or leaves, and never a third.
 */
#include <stdio.h>
#include <string.h>

#include "common/handler/handler.h"
#include "common/log/log.h"
#include "supervisor/queues/queues.h"

/* A client waits for a successor so much longer than start_timeout: it has to connect, and to start the process. */
#define LATE_MS 30000

static const struct slot *slot_of(const struct queues *qs, const struct process *p)
{
	return &qs->board->slots[processes_slot(qs->processes, p)];
}

static bool is_outdated(const struct queues *qs, const struct process *p)
{
	return p->state == PROCESS_SERVING && atomic_load(&slot_of(qs, p)->handler_generation) !=
	    qs->items[p->role.queue].handler_generation;
}

/*
 * The worker works, as far as the scoreboard knows. Its own handler that is READY says more than a breaker that a start
 * opened, of another worker. A worker whose handler has ended, or loads again, works no more than its successor.
 */
static bool works(const struct queues *qs, const struct process *p)
{
	const struct queue_breaker *breaker = &qs->board->queues[p->role.queue].workers.breaker;
	bool open = atomic_load(&breaker->step) != 0;

	if (atomic_load(&slot_of(qs, p)->load) == SLOT_NEVER_LOADS)
		return !open;
	return atomic_load(&slot_of(qs, p)->ready) != 0 &&
	    (!open || handler_cause_is_of_start(atomic_load(&breaker->cause)));
}

/* Its successor can say when it works. */
static bool is_protected(const struct queues *qs, const struct process *p)
{
	return qs->items[p->role.queue].conf->ready && works(qs, p);
}

/* The next worker of the queue in this state; p NULL: the first one. */
static const struct process *next_in(const struct queues *qs, int queue, enum process_state state,
    const struct process *p)
{
	while ((p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL)
		if (p->state == state && p->role.queue == queue)
			return p;
	return NULL;
}

static const struct process *predecessor_of(const struct queues *qs, const struct process *successor)
{
	for (const struct process *p = NULL; (p = next_in(qs, successor->role.queue, PROCESS_SERVING, p)) != NULL;)
		if (p->role.index == successor->role.index)
			return p;
	return NULL;
}

/* ---- the end of a try ---- */

static void keep_old(struct queues *qs, const struct process *p, const char *why)
{
	char name[PROCESS_NAME_SIZE];

	queues_set_not_ready(qs, p->role.queue, why, atomic_load(&slot_of(qs, p)->handler_started_ms));
	log_error("handler_not_ready", log_str("queue", p->role.queue_name), log_str("worker",
	    process_name(&p->role, name)), log_str("reason", why),
	    log_str("advice", "the workers with the old handler go on: correct the new one, then quredis restart"));
}

static void describe(const struct queues *qs, const struct process *p, char out[RENEWAL_WHY_SIZE])
{
	const struct slot *s = slot_of(qs, p);
	struct slot_text_seen words = slot_text_read(&s->failure);

	handler_cause_text(atomic_load(&s->load_cause), qs->items[p->role.queue].conf->handler, out);
	if (words.number != -1 && words.text[0] != '\0')
		snprintf(out + strlen(out), RENEWAL_WHY_SIZE - strlen(out), ": %s", words.text);
}

static void send_away(struct queues *qs, const struct process *p, int64_t now_ms)
{
	int slot = processes_slot(qs->processes, p);

	queues_dismiss(qs, slot, now_ms);
	processes_order(qs->processes, slot, ORDER_FINISH, now_ms);
}

static void take_over(struct queues *qs, const struct process *p, const struct process *old, int64_t now_ms)
{
	if (old != NULL)
		queues_dismiss(qs, processes_slot(qs->processes, old), now_ms);
	queues_promote(qs, processes_slot(qs->processes, p), old == NULL);
}

static void judge_successor(struct queues *qs, const struct process *p, int64_t now_ms)
{
	const struct queue_workers *q = &qs->items[p->role.queue];
	const struct process *old = predecessor_of(qs, p);
	const struct slot *s = slot_of(qs, p);
	char why[RENEWAL_WHY_SIZE];

	if (p->role.generation != q->handler_generation || p->role.index >= queues_wanted(q)) {
		send_away(qs, p, now_ms);
	} else if (atomic_load(&s->ready) != 0 || old == NULL || !is_protected(qs, old)) {
		take_over(qs, p, old, now_ms);
	} else if (atomic_load(&s->load) == SLOT_NOT_LOADED) {
		describe(qs, p, why);
		keep_old(qs, p, why);
		send_away(qs, p, now_ms);
	}
}

/* A worker whose handler did not load yet says nothing about the handler: another one is tried. */
void renewal_ended(struct queues *qs, const struct process *p)
{
	const struct queue_workers *q = &qs->items[p->role.queue];
	const struct slot *s = slot_of(qs, p);
	char why[RENEWAL_WHY_SIZE] = "its worker died while the handler loaded";

	if (p->state != PROCESS_LOADING || p->role.generation != q->handler_generation ||
	    processes_is_finishing(qs->processes, processes_slot(qs->processes, p)))
		return;
	if (atomic_load(&s->load) == SLOT_NOT_LOADED)
		describe(qs, p, why);
	else if (atomic_load(&s->loading) == 0)
		return;
	keep_old(qs, p, why);
}

/* ---- a turn ---- */

static void dismiss_unprotected(struct queues *qs, int queue, int64_t now_ms)
{
	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL;)
		if (is_outdated(qs, p) && !is_protected(qs, p))
			queues_dismiss(qs, processes_slot(qs->processes, p), now_ms);
}

int renewal_outdated(const struct queues *qs, int queue)
{
	int n = 0;

	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL;)
		n += is_outdated(qs, p);
	return n;
}

/* The newest handler is READY in a worker that serves, which started it after that time. */
static bool is_loaded_after(const struct queues *qs, int queue, int64_t started_ms)
{
	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL;) {
		const struct slot *s = slot_of(qs, p);

		if (!is_outdated(qs, p) && atomic_load(&s->ready) != 0 &&
		    atomic_load(&s->handler_started_ms) > started_ms)
			return true;
	}
	return false;
}

bool renewal_is_loaded(const struct queues *qs, int queue)
{
	return is_loaded_after(qs, queue, INT64_MIN);
}

void renewal_step(struct queues *qs, int queue, int64_t now_ms)
{
	const struct queue_workers *q = &qs->items[queue];
	bool all, loaded;

	if (q->membership != MEMBER_CONFIGURED)
		return;
	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_LOADING, p)) != NULL;)
		judge_successor(qs, p, now_ms);
	if (!q->not_ready)
		dismiss_unprotected(qs, queue, now_ms);
	all = renewal_outdated(qs, queue) == 0;
	loaded = renewal_is_loaded(qs, queue);
	if (all && queues_know_not_ready(qs, queue))
		queues_widen_not_ready(qs, queue);
	if (all || loaded)
		queues_adopt_handler(qs, queue, loaded || !q->conf->ready);
	/* A worker that started it before that try is no reason for another one, which would fail again and again. An
	 * open breaker has newer evidence. */
	if (queues_know_not_ready(qs, queue) && (is_loaded_after(qs, queue, q->tried_ms) ||
	    (all && (loaded || atomic_load(&qs->board->queues[queue].workers.breaker.step) != 0))))
		queues_set_not_ready(qs, queue, NULL, 0);
}

static bool has_two(const struct queues *qs, const struct process *worker)
{
	int n = 0;

	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		n += p->role.index == worker->role.index && strcmp(p->role.queue_name, worker->role.queue_name) == 0;
	return n >= 2;
}

bool renewal_loads(const struct queues *qs, int queue)
{
	return next_in(qs, queue, PROCESS_LOADING, NULL) != NULL;
}

int renewal_successor(const struct queues *qs, int queue)
{
	const struct queue_workers *q = &qs->items[queue];

	if (q->not_ready || renewal_loads(qs, queue))
		return -1;
	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL;)
		if (is_outdated(qs, p) && p->role.index < queues_wanted(q) && !has_two(qs, p))
			return p->role.index;
	return -1;
}

int64_t renewal_limit_ms(const struct queues *qs, int queue)
{
	int starts = renewal_outdated(qs, queue);

	return (starts > 0 ? starts : 1) * (qs->items[queue].conf->start_timeout_ms + LATE_MS);
}

bool renewal_is_under_way(const struct queues *qs, int queue)
{
	return !qs->items[queue].not_ready && renewal_outdated(qs, queue) > 0;
}

bool renewal_is_awaited(const struct queues *qs, int queue)
{
	const struct queue_workers *q = &qs->items[queue];

	return q->membership == MEMBER_CONFIGURED && q->conf->ready && !q->not_ready && queues_wanted(q) > 0 &&
	    !renewal_is_loaded(qs, queue);
}

bool renewal_has_failed(const struct queues *qs, int queue, char why[RENEWAL_WHY_SIZE])
{
	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL;) {
		const struct slot *s = slot_of(qs, p);

		if (!is_outdated(qs, p) && atomic_load(&s->load) == SLOT_NOT_LOADED && atomic_load(&s->loading) == 0) {
			describe(qs, p, why);
			return true;
		}
	}
	return false;
}

/* A worker that serves loads the newest handler. */
static bool is_tried(const struct queues *qs, int queue)
{
	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL;)
		if (!is_outdated(qs, p) && atomic_load(&slot_of(qs, p)->loading) != 0)
			return true;
	return false;
}

/* A worker is forked before it begins to load, and before it writes to its slot: what it has not tried yet may still
 * fail. */
bool renewal_is_undecided(const struct queues *qs, int queue)
{
	bool any = false;

	for (const struct process *p = NULL; (p = next_in(qs, queue, PROCESS_SERVING, p)) != NULL; any = true) {
		uint32_t load = atomic_load(&slot_of(qs, p)->load);

		if (!is_outdated(qs, p) && load != SLOT_LOADED && load != SLOT_NOT_LOADED)
			return true;
	}
	return !any || is_tried(qs, queue);
}

bool renewal_tries_in_vain(const struct queues *qs, int queue)
{
	char why[RENEWAL_WHY_SIZE];

	return qs->items[queue].not_ready || (renewal_is_awaited(qs, queue) && !is_tried(qs, queue) &&
	    renewal_has_failed(qs, queue, why));
}

const char *renewal_waits_for(const struct queues *qs, int queue)
{
	const struct process *successor = next_in(qs, queue, PROCESS_LOADING, NULL);
	const char *what = successor == NULL ? NULL : slot_waits_for(atomic_load(&slot_of(qs, successor)->hold));

	if (!renewal_is_under_way(qs, queue))
		return NULL;
	if (successor == NULL && renewal_successor(qs, queue) == -1)
		return "the end of a worker that leaves";
	return what == NULL ? "the start of its worker" : what;
}
