/*
 * Burying: what a dead child was, what it still holds, what its death means. The order is docs/design.md's: peek,
 * kill the handler's group, clear it, reap; what it left behind is deaths.c's.
 */
#include <sys/types.h>
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "common/log.h"
#include "common/process.h"
#include "supervisor/child.h"
#include "supervisor/master.h"
#include "supervisor/reap.h"

static double chance(void)
{
	return (double)arc4random() / (double)UINT32_MAX;
}

static bool is_peeked(idtype_t type, pid_t pid, siginfo_t *info)
{
	int r;

	*info = (siginfo_t){0};
	do
		r = waitid(type, (id_t)pid, info, WEXITED | WNOHANG | WNOWAIT);
	while (r == -1 && errno == EINTR);
	return r == 0 && info->si_pid != 0;
}

static void reap(pid_t pid)
{
	while (waitpid(pid, NULL, WNOHANG) == -1 && errno == EINTR)
		;
}

static void log_end(enum log_level level, const char *event, const char *queue, const char *worker,
    const struct proc *p, const siginfo_t *info, int64_t now_ms)
{
	bool exited = info->si_code == CLD_EXITED;
	struct log_field how = exited ? log_int("exit", info->si_status)
				      : log_str("signal", process_signal_name(info->si_status));

	log_event(level, event, log_str("queue", queue), log_str("worker", worker), log_int("child", p->pid), how,
	    log_int("lived_ms", now_ms - p->spawned_ms));
}

static bool is_clean(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED && info->si_status == CHILD_EXIT_DONE;
}

static bool was_ordered(const struct master *m, int slot)
{
	return atomic_load(&m->board->orders[slot]) >= ORDER_FINISH;
}

/* One that ends well without having been told to may do so, but not all the time. */
static bool counts_as_death(const struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	const struct proc *p = &m->procs[slot];

	if (p->leaving || m->stop.phase != STOP_NOT)
		return false;
	return !is_clean(info) || (!was_ordered(m, slot) && now_ms - p->spawned_ms < POLICY_ALIVE_MS);
}

/* If the dead worker had a message on trial, another worker may begin a trial now. */
static void end_trial(struct master *m, int slot)
{
	int32_t its = slot + 1;

	atomic_compare_exchange_strong(&m->board->trial, &its, 0);
}

/* Nobody is charged if the worker was ordered to stop, even if it was killed before it had ended; if it reports that it left work unsettled; or if its lease ran out. */
static enum blame blame_of(const struct master *m, int slot, const siginfo_t *info)
{
	bool unsettled = info->si_code == CLD_EXITED && info->si_status == CHILD_EXIT_UNSETTLED;

	return was_ordered(m, slot) || m->procs[slot].fenced || unsettled ? BLAME_NOBODY : BLAME_WORKER;
}

static void bury_worker(struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	struct proc *p = &m->procs[slot];
	struct crew *c = &m->crews[p->crew];
	char name[CHILD_NAME_SIZE];
	bool clean = is_clean(info);

	log_end(clean ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, clean ? "worker_exited" : "worker_died", c->name,
	    child_name(m, p, name), p, info, now_ms);
	crew_see_success(m, c);
	if (counts_as_death(m, slot, info, now_ms))
		policy_death(&c->policy, p->spawned_ms, now_ms, chance());
	if (clean)
		deaths_clean_exit(m, slot);
	else
		deaths_add(m, slot, blame_of(m, slot, info), now_ms);
	if (p->leaving) {
		c->leaving--;
	} else {
		c->staff--;
		c->owed++;
	}
	end_trial(m, slot);
	atomic_store(&m->board->queues[p->crew].worker_trouble, TROUBLE_NONE);	/* if another worker has one, it says so again at its next try */
	slot_fold(&m->board->slots[slot], &m->board->queues[p->crew]);
}

static void bury_sweeper(struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	struct proc *p = &m->procs[slot];
	bool clean = is_clean(info) && was_ordered(m, slot);

	log_end(clean ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, clean ? "sweeper_exited" : "sweeper_died", NULL, NULL, p,
	    info, now_ms);
	deaths_answer(m, slot);		/* what it said last */
	deaths_sweeper_gone(m, slot);
	if (clean)
		return;
	if (!p->leaving)
		policy_death(&m->sweeper_policy, p->spawned_ms, now_ms, chance());
	deaths_left_behind(m, now_ms);
}

static void bury_keeper(struct master *m, const struct proc *p, pid_t redis, const siginfo_t *info, int64_t now_ms)
{
	bool clean = is_clean(info) && m->stop.phase == STOP_KEEPER;

	log_end(clean ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, clean ? "keeper_exited" : "keeper_died", NULL, NULL, p,
	    info, now_ms);
	if (clean)
		return;
	policy_death(&m->keeper_policy, p->spawned_ms, now_ms, chance());
	if (redis > 1 && kill(redis, SIGTERM) == 0)
		m->orphan_redis = redis;
}

static void bury(struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	struct proc *p = &m->procs[slot];
	pid_t left = (pid_t)atomic_load(&m->board->slots[slot].handler_pgid);

	child_kill_handler(m, slot);
	reap(p->pid);
	if (p->kind == PROC_WORKER)
		bury_worker(m, slot, info, now_ms);
	else if (p->kind == PROC_SWEEPER)
		bury_sweeper(m, slot, info, now_ms);
	else
		bury_keeper(m, p, left, info, now_ms);
	child_release(m, slot);
}

static bool note(pid_t pid, void *master)
{
	struct master *m = master;

	if (m->ninherited < MASTER_INHERITED)
		m->inherited[m->ninherited++] = pid;
	return true;
}

void reap_note_inherited(struct master *m)
{
	process_kill_children(note, m);		/* kills nobody: each is spared */
}

static void forget(struct master *m, pid_t pid)
{
	for (int i = 0; i < m->ninherited; i++)
		if (m->inherited[i] == pid)
			m->inherited[i--] = m->inherited[--m->ninherited];
	if (pid == m->orphan_redis)
		m->orphan_redis = 0;
}

bool reap_is_spared(pid_t pid, void *master)
{
	const struct master *m = master;

	for (int i = 0; i < m->ninherited; i++)
		if (m->inherited[i] == pid)
			return true;
	return pid == m->orphan_redis || child_slot_of(m, pid) != -1;
}

void reap_adopted(struct master *m, int64_t now_ms)
{
	siginfo_t info;
	int slot;

	while (is_peeked(P_ALL, 0, &info)) {
		slot = child_slot_of(m, info.si_pid);
		if (slot != -1) {
			bury(m, slot, &info, now_ms);
			continue;
		}
		forget(m, info.si_pid);
		reap(info.si_pid);
	}
}

/* Our own first: a group's number is good only as long as its members are not reaped. */
void reap_children(struct master *m, int64_t now_ms)
{
	siginfo_t info;

	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && is_peeked(P_PID, m->procs[slot].pid, &info))
			bury(m, slot, &info, now_ms);
	reap_adopted(m, now_ms);
}
