/*
 * Watches the children. A child whose loop stands still at two looks gets ABRT, then KILL. The second look gives the
 * children time to go on after the whole machine stood still. A child that did not end in time gets KILL, and so does a
 * worker whose lease is about to expire while a handler runs that must not outlive it. A death by the master's signal
 * counts like any other, except that this last one charges no message.
 */
#include "supervisor/children/watch.h"

#include <signal.h>

#include "common/log/log.h"

#define ALLOWANCE_MS 10000
#define CORE_MS 5000			/* time for the kernel to write a core */
#define AGAIN_MS 5000
/* looks in the time of a lease: two in the margin that a worker keeps for its own kill (worker/fence.c) */
#define FENCES_LOOKS 16

/* True: a child with these figures makes no progress any more. */
static bool is_late(int64_t heartbeat_ms, int64_t deadline_ms, int64_t now_ms)
{
	int64_t from = heartbeat_ms > deadline_ms ? heartbeat_ms : deadline_ms;

	return now_ms - from > ALLOWANCE_MS;
}

static void log_kill(const struct processes *ps, const struct process *p, const char *event, int64_t now_ms)
{
	int64_t heartbeat_ms = atomic_load(&ps->board->slots[processes_slot(ps, p)].heartbeat_ms);
	char name[PROCESS_NAME_SIZE];

	log_error(event, log_str("queue", p->role.kind == PROCESS_WORKER ? p->role.queue_name : NULL),
	    log_str("worker", process_name(&p->role, name)), log_int("child", p->pid),
	    log_int("heartbeat_age_ms", now_ms - heartbeat_ms));
}

static void watch_heartbeat(struct processes *ps, const struct process *p, int64_t now_ms)
{
	int slot = processes_slot(ps, p);
	const struct slot *s = &ps->board->slots[slot];
	int64_t heartbeat_ms = atomic_load(&s->heartbeat_ms);

	if (!is_late(heartbeat_ms, atomic_load(&s->deadline_ms), now_ms)) {
		processes_suspect(ps, slot, 0);
		return;
	}
	if (p->stuck_heartbeat_ms != heartbeat_ms) {
		processes_suspect(ps, slot, heartbeat_ms);
		return;
	}
	log_kill(ps, p, "worker_stuck", now_ms);
	processes_stuck(ps, slot);
	kill(p->pid, SIGABRT);
	/* a stopped child gets the signal only when it continues, and then dies before it does anything else */
	kill(p->pid, SIGCONT);
	if (p->kill_at_ms == 0 || p->kill_at_ms > now_ms + CORE_MS)
		processes_kill_at(ps, slot, now_ms + CORE_MS);
	processes_suspect(ps, slot, 0);
}

void watch_children(struct processes *ps, int64_t now_ms)
{
	for (const struct process *p = NULL; (p = processes_next(ps, p, PROCESS_ANY)) != NULL;) {
		if (p->kill_at_ms != 0 && now_ms >= p->kill_at_ms) {
			log_kill(ps, p, "worker_overdue", now_ms);
			processes_kill(ps, processes_slot(ps, p));
			processes_kill_at(ps, processes_slot(ps, p), now_ms + AGAIN_MS);
		} else if (p->role.kind != PROCESS_KEEPER) {
			watch_heartbeat(ps, p, now_ms);
		}
	}
}

int64_t watch_fences(struct processes *ps, int64_t lease_ms, int64_t now_ms, int64_t boottime_ms)
{
	int64_t due_ms = INT64_MAX;

	for (const struct process *p = NULL; (p = processes_next(ps, p, PROCESS_WORKER)) != NULL;) {
		int64_t at_ms = atomic_load(&ps->board->slots[processes_slot(ps, p)].fence_ms);

		if (p->fenced || (at_ms == 0 && !p->role.fence_kills))
			continue;
		if (at_ms != 0 && boottime_ms >= at_ms) {
			log_kill(ps, p, "worker_fenced", now_ms);
			processes_fence(ps, processes_slot(ps, p));
		}
		if (now_ms + lease_ms / FENCES_LOOKS < due_ms)
			due_ms = now_ms + lease_ms / FENCES_LOOKS;
		if (at_ms > boottime_ms && now_ms + at_ms - boottime_ms < due_ms)
			due_ms = now_ms + at_ms - boottime_ms;
	}
	return due_ms;
}
