/*
 * Handles the end of a child in the order of docs/design.md: read its status without reaping it, kill the process group
 * of its handler, clear the number of the group, reap the child. As long as the child is a zombie, no other process can
 * get these numbers.
 */
#include "supervisor/reap.h"

#include <sys/types.h>
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "common/base/base.h"
#include "common/log/log.h"
#include "supervisor/master.h"

static double chance(void)
{
	return (double)arc4random() / (double)UINT32_MAX;
}

static bool has_ended(idtype_t type, pid_t pid, siginfo_t *info)
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

/* ---- consequences of its end ---- */

static void log_end(const struct process *p, enum log_level level, const char *event, const siginfo_t *info,
    int64_t now_ms)
{
	struct log_field how = info->si_code == CLD_EXITED ? log_int("exit", info->si_status)
							   : log_str("signal", process_signal_name(info->si_status));
	bool worker = p->role.kind == PROCESS_WORKER;
	char name[PROCESS_NAME_SIZE];

	log_event(level, event, log_str("queue", worker ? p->role.queue_name : NULL),
	    log_str("worker", worker ? process_name(&p->role, name) : NULL), log_int("child", p->pid), how,
	    log_int("lived_ms", now_ms - p->spawned_ms));
}

static bool is_clean(const siginfo_t *info)
{
	return info->si_code == CLD_EXITED && info->si_status == CHILD_EXIT_DONE;
}

/* A worker may exit with 0 without an order, but not within POLICY_ALIVE_MS of its start. */
static bool counts_as_death(const struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	const struct process *p = &m->processes.items[slot];

	if (p->state == PROCESS_LEAVING || m->stop.phase != STOP_NOT)
		return false;
	return !is_clean(info) || (!processes_is_finishing(&m->processes, slot) &&
	    now_ms - p->spawned_ms < POLICY_ALIVE_MS);
}

/*
 * The death charges no message if the worker had the order to stop, even if it was killed before it had ended; if it
 * reports that it left messages unsettled; or if its lease expired. A worker that stood still may have been stopped by
 * anybody, or by its machine: that is an outage.
 */
static enum blame blame_of(const struct master *m, int slot, const siginfo_t *info)
{
	bool unsettled = info->si_code == CLD_EXITED && info->si_status == CHILD_EXIT_UNSETTLED;

	if (processes_is_finishing(&m->processes, slot) || m->processes.items[slot].fenced || unsettled)
		return BLAME_NOBODY;
	return m->processes.items[slot].stuck ? BLAME_OUTAGE : BLAME_WORKER;
}

static void bury_worker(struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	bool clean = is_clean(info);

	log_end(&m->processes.items[slot], clean ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING,
	    clean ? "worker_exited" : "worker_died", info, now_ms);
	if (clean) {
		deaths_clean_exit(&m->deaths, slot);
	} else {
		orphans_expect(&m->orphans, now_ms);
		deaths_add(&m->deaths, slot, blame_of(m, slot, info), now_ms);
	}
	queues_note_end(&m->queues, m->processes.items[slot].role.queue, info->si_status, info->si_code != CLD_EXITED,
	    now_ms);
	renewal_ended(&m->queues, &m->processes.items[slot]);
	queues_worker_ended(&m->queues, slot, counts_as_death(m, slot, info, now_ms), now_ms, chance());
	scoreboard_end_trial(m->board, slot);	/* if it had a message on trial, another worker may begin one now */
}

static void bury_sweeper(struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	const struct process *p = &m->processes.items[slot];
	bool clean = is_clean(info) && processes_is_finishing(&m->processes, slot);

	log_end(p, clean ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, clean ? "sweeper_exited" : "sweeper_died", info, now_ms);
	deaths_answer(&m->deaths, slot);	/* reads the last answers that it sent */
	deaths_sweeper_gone(&m->deaths, slot);
	if (clean)
		return;
	if (p->state == PROCESS_SERVING)
		policy_death(&m->staffing.sweeper, p->spawned_ms, now_ms, chance());
	orphans_expect(&m->orphans, now_ms);
}

static void bury_keeper(struct master *m, int slot, pid_t redis, const siginfo_t *info, int64_t now_ms)
{
	const struct process *p = &m->processes.items[slot];
	bool clean = is_clean(info) && m->stop.phase == STOP_KEEPER;

	log_end(p, clean ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, clean ? "keeper_exited" : "keeper_died", info, now_ms);
	if (clean)
		return;
	policy_death(&m->staffing.keeper, p->spawned_ms, now_ms, chance());
	if (redis > 1 && kill(redis, SIGTERM) == 0)
		orphans_keep_redis(&m->orphans, redis);
}

static void bury(struct master *m, int slot, const siginfo_t *info, int64_t now_ms)
{
	const struct process *p = &m->processes.items[slot];
	/* of the keeper: its redis-server */
	pid_t handler = (pid_t)atomic_load(&m->board->slots[slot].handler_pgid);

	processes_kill_handler(&m->processes, slot);
	reap(p->pid);
	if (p->role.kind == PROCESS_WORKER)
		bury_worker(m, slot, info, now_ms);
	else if (p->role.kind == PROCESS_SWEEPER)
		bury_sweeper(m, slot, info, now_ms);
	else
		bury_keeper(m, slot, handler, info, now_ms);
	processes_release(&m->processes, slot);
}

/* ---- the search for ended processes ---- */

/* Reaps orphans, and processes that were children before the master started. A child that ended a moment ago may be
 * among them. */
static void reap_adopted(struct master *m, int64_t now_ms)
{
	const struct process *p;
	siginfo_t info;

	while (has_ended(P_ALL, 0, &info)) {
		p = processes_by_pid(&m->processes, info.si_pid);
		if (p != NULL) {
			bury(m, processes_slot(&m->processes, p), &info, now_ms);
			continue;
		}
		orphans_reaped(&m->orphans, info.si_pid);
		reap(info.si_pid);
	}
}

/* Reaps the master's own children first: the number of a handler's process group is valid only until its members are
 * reaped. */
void reap_children(struct master *m, int64_t now_ms)
{
	siginfo_t info;

	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_ANY)) != NULL;)
		if (has_ended(P_PID, p->pid, &info))
			bury(m, processes_slot(&m->processes, p), &info, now_ms);
	reap_adopted(m, now_ms);
}

int64_t reap_orphans(struct master *m, int64_t now_ms)
{
	if (!m->orphans.pending)
		return INT64_MAX;
	reap_adopted(m, now_ms);
	return orphans_kill(&m->orphans, now_ms);
}
