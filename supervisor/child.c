/*
 * Making children and giving them orders: mechanism. The only file that calls worker_run() and
 * sweeper_run(). When to fork is crew.c's, when to order is crew.c's, reload.c's and stop.c's.
 */
#include <sys/prctl.h>
#include <sys/socket.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cgroup.h"
#include "common/child.h"
#include "common/log.h"
#include "common/process.h"
#include "supervisor/child.h"
#include "supervisor/keeper.h"
#include "supervisor/master.h"
#include "supervisor/signals.h"
#include "supervisor/title.h"

#define FORK_DELAY_MS 1000
#define FORK_DELAY_MAX_MS 30000
#define OVERDUE_MS 10000	/* what a child may need on top of what it was given */

/* In the sweeper only: what queue_index_of() answers from. */
static struct master *of_sweeper;

const char *child_name(const struct master *m, const struct proc *p, char out[CHILD_NAME_SIZE])
{
	if (p->kind == PROC_WORKER)
		snprintf(out, CHILD_NAME_SIZE, "%s/%d", m->crews[p->crew].name, p->index);
	else
		snprintf(out, CHILD_NAME_SIZE, "%s", p->kind == PROC_SWEEPER ? "sweeper" : "keeper");
	return out;
}

int child_slot_of(const struct master *m, pid_t pid)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid == pid && pid > 0)
			return slot;
	return -1;
}

/* ---- in the child ---- */

static void close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

/* What stays: the log, the lock, the read end of life_fd, the write end of keeper_fd. */
static void close_masters(struct master *m)
{
	close_fd(&m->signal_fd);
	close_fd(&m->life_fd[1]);
	close_fd(&m->keeper_fd[0]);
	control_close_in_child(&m->control);
	notify_close(&m->notify);
	pid_file_close(&m->pid_file);
	for (int slot = 0; slot < m->top; slot++)
		close_fd(&m->procs[slot].fd);
}

static int queue_index_of(const char *name)
{
	struct crew *c = crew_find(of_sweeper, name);

	return c == NULL ? -1 : (int)(c - of_sweeper->crews);
}

static struct child describe(struct master *m, int slot, pid_t master_pid)
{
	return (struct child){
		.conf = m->conf,
		.board = m->board,
		.slot = slot,
		.queue_index = -1,
		.master_fd = m->life_fd[0],
		.boot = m->boot,
		.lock_identity = m->lock.identity,
		.master_pid = master_pid,
	};
}

static _Noreturn void run_worker(struct master *m, int slot, struct child *child)
{
	struct crew *c = &m->crews[m->procs[slot].crew];

	child->queue = c->conf;
	child->queue_index = m->procs[slot].crew;
	child->index = m->procs[slot].index;
	child->handler_generation = c->handler_generation;
	worker_run(child);
}

static _Noreturn void run_sweeper(struct master *m, struct child *child, int socket)
{
	close_fd(&m->life_fd[0]);	/* its own socket says the same */
	child->lock_key = m->lock.key;
	child->handler_users = &m->lock.users;
	of_sweeper = m;
	child->master_fd = socket;
	child->queue_index_of = queue_index_of;
	sweeper_run(child);
}

static _Noreturn void run_keeper(struct master *m, int slot, int read_end)
{
	/* Neither holds up those who wait for the lock, nor keeps itself alive. */
	close_fd(&m->lock.fd);
	close_fd(&m->life_fd[0]);
	close_fd(&m->keeper_fd[1]);
	keeper_run(m->conf, m->board, slot, read_end);
}

/* Marks the child's own children, so that the next start can find them if master and workers are killed. The keeper needs no mark: its redis-server ends by itself. */
static void mark_family(struct master *m, const struct proc *p)
{
	char token[LEFTOVERS_TOKEN_SIZE];

	if (p->kind == PROC_KEEPER) {
		close_fd(&m->cgroup_fd);
		return;
	}
	leftovers_token(m->lock.key, m->boot, token);
	setenv(LEFTOVERS_TOKEN_NAME, token, 1);
	if (m->cgroup_fd != -1 && cgroup_enter(m->cgroup_fd) == -1)
		log_warning("cgroup_not_entered", log_str("reason", strerror(errno)));
	close_fd(&m->cgroup_fd);
	if (p->kind != PROC_SWEEPER)
		explicit_bzero(m->lock.key, sizeof(m->lock.key));
}

/* A core shows why a child hung. But with a core a handler of the same user could read a password from the child's memory. */
static void allow_core(const struct master *m)
{
	if (m->conf->redis.password == NULL)
		prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

static _Noreturn void run(struct master *m, int slot, pid_t master_pid, int socket)
{
	struct proc *p = &m->procs[slot];
	char name[CHILD_NAME_SIZE], title[CHILD_NAME_SIZE + 16];
	struct child child;
	int keeper_read = -1;

	signals_child();
	if (p->kind == PROC_KEEPER) {
		keeper_read = m->keeper_fd[0];
		m->keeper_fd[0] = -1;
	} else {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		if (getppid() != master_pid)
			_exit(CHILD_EXIT_DONE);		/* it died before it could be told to tell us */
		process_become_subreaper();
	}
	allow_core(m);
	close_masters(m);
	atomic_store(&m->board->slots[slot].pid, getpid());
	snprintf(title, sizeof(title), "%s%s", p->kind == PROC_WORKER ? "worker " : "", child_name(m, p, name));
	title_set("%s", title);
	log_process(title);
	mark_family(m, p);
	seal_share(&m->board->secrets);
	child = describe(m, slot, master_pid);
	if (p->kind == PROC_WORKER)
		run_worker(m, slot, &child);
	if (p->kind == PROC_SWEEPER)
		run_sweeper(m, &child, socket);
	run_keeper(m, slot, keeper_read);
}

/* ---- in the master ---- */

/* The first free one; the sweeper's usual place, 0, is not taken by others. */
static int free_slot(struct master *m, enum proc_kind kind)
{
	for (int slot = kind == PROC_SWEEPER ? 0 : 1; slot < SCOREBOARD_SLOTS; slot++)
		if (m->procs[slot].pid == 0) {
			while (m->top <= slot)
				m->procs[m->top++] = (struct proc){ .fd = -1 };
			return slot;
		}
	errno = ENOSPC;
	return -1;
}

static int refused(struct master *m, const struct proc *p, int64_t now_ms)
{
	int64_t delay = FORK_DELAY_MS << (m->fork_failures < 5 ? m->fork_failures : 5);
	char name[CHILD_NAME_SIZE];

	if (delay > FORK_DELAY_MAX_MS)
		delay = FORK_DELAY_MAX_MS;
	m->fork_failures++;
	m->fork_after_ms = now_ms + delay;
	log_error("spawn_failed", log_str("worker", child_name(m, p, name)), log_str("reason", strerror(errno)),
	    log_int("retry_ms", delay));
	return -1;
}

/* It has its order before it lives: what is quiet fetches nothing from the first turn. */
static enum order first_order(const struct master *m, const struct proc *p)
{
	return p->kind == PROC_WORKER && (m->quiet || m->crews[p->crew].quiet) ? ORDER_QUIET : ORDER_RUN;
}

static int spawn(struct master *m, const struct proc *as, int child_end, int64_t now_ms)
{
	int slot = free_slot(m, as->kind);
	pid_t master_pid = getpid(), pid;
	struct proc *p;

	if (slot == -1)
		return refused(m, as, now_ms);
	p = &m->procs[slot];
	*p = *as;
	p->epoch = m->epoch;
	p->spawned_ms = now_ms;
	p->first_generation = slot_generation(&m->board->slots[slot]) + 1;
	slot_clear(&m->board->slots[slot]);
	slot_set_state(&m->board->slots[slot], SLOT_STARTING);
	atomic_store(&m->board->slots[slot].heartbeat_ms, now_ms);
	atomic_store(&m->board->slots[slot].queue, as->kind == PROC_WORKER ? as->crew + 1 : 0);
	atomic_store(&m->board->orders[slot], first_order(m, p));
	if (p->kind == PROC_SWEEPER)
		atomic_store(&m->board->sweeper, slot);
	pid = fork();
	if (pid == 0)
		run(m, slot, master_pid, child_end);
	if (pid == -1) {
		slot_set_state(&m->board->slots[slot], SLOT_FREE);
		*p = (struct proc){ .fd = -1 };
		return refused(m, as, now_ms);
	}
	p->pid = pid;
	m->fork_failures = 0;
	return slot;
}

int child_spawn_worker(struct master *m, int crew, int index, int64_t now_ms)
{
	struct crew *c = &m->crews[crew];
	char name[CHILD_NAME_SIZE];
	struct proc as = { .kind = PROC_WORKER, .crew = crew, .index = index, .fd = -1 };
	int slot;

	as.kill_grace_ms = c->conf->kill_grace_ms;
	slot = spawn(m, &as, -1, now_ms);
	if (slot == -1)
		return -1;
	c->staff++;
	log_info("worker_started", log_str("queue", c->name), log_str("worker", child_name(m, &m->procs[slot], name)),
	    log_int("child", m->procs[slot].pid), log_int("slot", slot));
	return slot;
}

int child_spawn_sweeper(struct master *m, int64_t now_ms)
{
	struct proc as = { .kind = PROC_SWEEPER, .fd = -1 };
	int pair[2], slot;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == -1)
		return refused(m, &as, now_ms);
	as.fd = pair[0];
	slot = spawn(m, &as, pair[1], now_ms);
	close(pair[1]);
	if (slot == -1) {
		close(pair[0]);
		return -1;
	}
	log_info("sweeper_started", log_int("child", m->procs[slot].pid), log_int("slot", slot));
	return slot;
}

int child_spawn_keeper(struct master *m, int64_t now_ms)
{
	int slot = spawn(m, &(struct proc){ .kind = PROC_KEEPER, .fd = -1 }, -1, now_ms);

	if (slot != -1)
		log_info("keeper_started", log_int("child", m->procs[slot].pid), log_int("slot", slot));
	return slot;
}

void child_order(struct master *m, int slot, enum order order, int64_t now_ms)
{
	_Atomic uint32_t *now = &m->board->orders[slot];
	struct proc *p = &m->procs[slot];

	if (order == atomic_load(now) || (atomic_load(now) >= ORDER_FINISH && order < atomic_load(now)))
		return;
	atomic_store(now, order);
	if (order == ORDER_HAND_BACK)
		p->due_ms = now_ms + p->kill_grace_ms + OVERDUE_MS;
	else if (order == ORDER_FINISH && p->kind == PROC_SWEEPER)
		p->due_ms = now_ms + OVERDUE_MS;
	kill(p->pid, SIGTERM);
}

void child_kill_handler(struct master *m, int slot)
{
	pid_t pgid = (pid_t)atomic_load(&m->board->slots[slot].handler_pgid);

	/* A damaged number must hit nobody else: 1 would be everybody. */
	if (m->procs[slot].kind == PROC_WORKER && pgid > 1 && pgid != getpgrp())
		kill(-pgid, SIGKILL);
	atomic_store(&m->board->slots[slot].handler_pgid, 0);
}

void child_kill(struct master *m, int slot)
{
	kill(m->procs[slot].pid, SIGKILL);
	child_kill_handler(m, slot);
}

void child_release(struct master *m, int slot)
{
	close_fd(&m->procs[slot].fd);
	m->procs[slot] = (struct proc){ .fd = -1 };
	slot_clear(&m->board->slots[slot]);
	atomic_store(&m->board->orders[slot], ORDER_RUN);
}
