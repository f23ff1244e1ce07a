/*
 * The eye on children: one whose loop does not turn (two looks, so that a machine that stood still has a chance to go
 * on) gets ABRT, then KILL; one that did not go in time gets KILL, and so does one whose lease runs out under a handler
 * that must not outlive it. A death by our hand is a death like any other; only for the last nobody is blamed.
 */
#include <signal.h>

#include "supervisor/watch.h"

#include "common/log.h"
#include "supervisor/child.h"
#include "supervisor/master.h"

#define ALLOWANCE_MS 10000
#define ALLOWANCE_LONG_MS 120000	/* a worker that connects may be resolving a name, which cannot be interrupted */
#define CORE_MS 5000			/* for a core to be written */
#define AGAIN_MS 5000
#define FENCES_LOOKS 16			/* a lease; half of what a worker keeps for it (worker/fence.c) */

/* Whether a child with these figures makes no progress any more. allowance_ms: beyond its deadline. */
static bool is_late(int64_t heartbeat_ms, int64_t deadline_ms, int64_t allowance_ms, int64_t now_ms)
{
	int64_t from = heartbeat_ms > deadline_ms ? heartbeat_ms : deadline_ms;

	return now_ms - from > allowance_ms;
}

static int64_t allowance(const struct proc *p, const struct slot *s)
{
	enum slot_state state = slot_state(s);

	if (p->kind == PROC_SWEEPER)	/* the sweeper announces a call that it cannot interrupt as its deadline: sweeper/connection.c */
		return ALLOWANCE_MS;
	return state == SLOT_CONNECTING || state == SLOT_STARTING ? ALLOWANCE_LONG_MS : ALLOWANCE_MS;
}

static void report(const struct master *m, const struct proc *p, const char *event, int64_t age_ms)
{
	char name[CHILD_NAME_SIZE];

	log_error(event, log_str("queue", p->kind == PROC_WORKER ? m->crews[p->crew].name : NULL),
	    log_str("worker", child_name(m, p, name)), log_int("child", p->pid), log_int("heartbeat_age_ms", age_ms));
}

static void watch_heartbeat(struct master *m, int slot, int64_t now_ms)
{
	const struct slot *s = &m->board->slots[slot];
	struct proc *p = &m->procs[slot];
	int64_t heartbeat = atomic_load(&s->heartbeat_ms);

	if (!is_late(heartbeat, atomic_load(&s->deadline_ms), allowance(p, s), now_ms)) {
		p->stuck_heartbeat_ms = 0;
		return;
	}
	if (p->stuck_heartbeat_ms != heartbeat) {
		p->stuck_heartbeat_ms = heartbeat;
		return;
	}
	report(m, p, "worker_stuck", now_ms - heartbeat);
	kill(p->pid, SIGABRT);
	kill(p->pid, SIGCONT);		/* a stopped child gets the signal only when it continues, and then dies before it does anything else */
	if (p->due_ms == 0 || p->due_ms > now_ms + CORE_MS)
		p->due_ms = now_ms + CORE_MS;
	p->stuck_heartbeat_ms = 0;
}

static void watch_due(struct master *m, int slot, int64_t now_ms)
{
	struct proc *p = &m->procs[slot];

	report(m, p, "worker_overdue", now_ms - atomic_load(&m->board->slots[slot].heartbeat_ms));
	child_kill(m, slot);
	p->due_ms = now_ms + AGAIN_MS;
}

void watch_children(struct master *m, int64_t now_ms)
{
	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid == 0)
			continue;
		if (p->due_ms != 0 && now_ms >= p->due_ms)
			watch_due(m, slot, now_ms);
		else if (p->kind != PROC_KEEPER)
			watch_heartbeat(m, slot, now_ms);
	}
}

static void fence(struct master *m, int slot, int64_t now_ms)
{
	struct proc *p = &m->procs[slot];

	report(m, p, "worker_fenced", now_ms - atomic_load(&m->board->slots[slot].heartbeat_ms));
	p->fenced = true;
	child_kill(m, slot);
}

void watch_fences(struct master *m, int64_t now_ms, int64_t boottime_ms)
{
	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];
		int64_t at_ms = atomic_load(&m->board->slots[slot].fence_ms);
		const struct conf_queue *conf = p->pid > 0 && p->kind == PROC_WORKER ? m->crews[p->crew].conf : NULL;

		if (p->pid == 0 || p->fenced || (at_ms == 0 && (conf == NULL || conf->fence != CONF_FENCE_KILL)))
			continue;
		if (at_ms != 0 && boottime_ms >= at_ms)
			fence(m, slot, now_ms);
		master_wake_at(m, now_ms + m->conf->supervisor.lease_ms / FENCES_LOOKS);
		if (at_ms > boottime_ms)
			master_wake_at(m, now_ms + at_ms - boottime_ms);
	}
}
