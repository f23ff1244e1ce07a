/*
 * The table of children. Each change of a process's state goes through set_state(), which aborts on an illegal one: a
 * master that miscounts its children would fork too many of them, or signal a stranger.
 */
#include "supervisor/children/processes.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include <bsd/string.h>

#define OVERDUE_MS 10000	/* a child that must end may take longer than its time by this */

static const struct process free_process = { .role = { .queue = -1, .socket = -1 } };

void processes_init(struct processes *ps, struct scoreboard *board)
{
	ps->board = board;
	ps->top = 0;
}

const char *process_name(const struct process_role *role, char out[PROCESS_NAME_SIZE])
{
	if (role->kind == PROCESS_WORKER)
		snprintf(out, PROCESS_NAME_SIZE, "%s/%d", role->queue_name, role->index);
	else
		snprintf(out, PROCESS_NAME_SIZE, "%s", role->kind == PROCESS_SWEEPER ? "sweeper" : "keeper");
	return out;
}

/* ---- looking ---- */

const struct process *processes_next(const struct processes *ps, const struct process *p, enum process_kind kind)
{
	for (p = p == NULL ? ps->items : p + 1; p < ps->items + ps->top; p++)
		if (process_lives(p) && (kind == PROCESS_ANY || p->role.kind == kind))
			return p;
	return NULL;
}

int processes_slot(const struct processes *ps, const struct process *p)
{
	return (int)(p - ps->items);
}

const struct process *processes_by_pid(const struct processes *ps, pid_t pid)
{
	for (const struct process *p = NULL; (p = processes_next(ps, p, PROCESS_ANY)) != NULL;)
		if (p->pid == pid)
			return p;
	return NULL;
}

const struct process *processes_sweeper(const struct processes *ps)
{
	for (const struct process *p = NULL; (p = processes_next(ps, p, PROCESS_SWEEPER)) != NULL;)
		if (p->state == PROCESS_SERVING)
			return p;
	return NULL;
}

bool processes_any(const struct processes *ps, enum process_kind kind)
{
	return processes_next(ps, NULL, kind) != NULL;
}

bool processes_is_finishing(const struct processes *ps, int slot)
{
	return atomic_load(&ps->board->master.orders[slot]) >= ORDER_FINISH;
}

/* ---- states ---- */

static void set_state(struct process *p, enum process_state to)
{
	static const bool legal[][PROCESS_LEAVING + 1] = {
		[PROCESS_FREE] = { [PROCESS_STARTING] = true },
		[PROCESS_STARTING] = { [PROCESS_LOADING] = true, [PROCESS_SERVING] = true, [PROCESS_FREE] = true },
		[PROCESS_LOADING] = { [PROCESS_SERVING] = true, [PROCESS_LEAVING] = true, [PROCESS_FREE] = true },
		[PROCESS_SERVING] = { [PROCESS_LEAVING] = true, [PROCESS_FREE] = true },
		[PROCESS_LEAVING] = { [PROCESS_FREE] = true },
	};

	assert(legal[p->state][to]);
	p->state = to;
	assert(process_lives(p) == (p->pid > 0));
}

/* Returns the first free place. Place 0 is kept for a sweeper. */
static int find_free(struct processes *ps, enum process_kind kind)
{
	for (int slot = kind == PROCESS_SWEEPER ? 0 : 1; slot < SCOREBOARD_SLOTS; slot++) {
		while (ps->top <= slot)
			ps->items[ps->top++] = free_process;
		if (ps->items[slot].state == PROCESS_FREE)
			return slot;
	}
	errno = ENOSPC;
	return -1;
}

int processes_start(struct processes *ps, const struct process_role *role, enum order order, int64_t now_ms)
{
	int slot = find_free(ps, role->kind);
	struct process *p;
	struct slot *s;

	if (slot == -1)
		return -1;
	p = &ps->items[slot];
	s = &ps->board->slots[slot];
	p->role = *role;
	p->spawned_ms = now_ms;
	p->first_generation = slot_generation(s) + 1;
	slot_clear(s);
	slot_set_state(s, SLOT_STARTING);
	atomic_store(&s->heartbeat_ms, now_ms);
	atomic_store(&s->handler_generation, role->generation);
	atomic_store(&ps->board->master.queue_of[slot], role->kind == PROCESS_WORKER ? role->queue + 1 : 0);
	atomic_store(&ps->board->master.leaving[slot], role->successor);
	atomic_store(&ps->board->master.orders[slot], order);
	if (role->kind == PROCESS_SWEEPER)
		atomic_store(&ps->board->master.active_sweeper, slot);
	set_state(p, PROCESS_STARTING);
	return slot;
}

void processes_forked(struct processes *ps, int slot, pid_t pid)
{
	ps->items[slot].pid = pid;
	set_state(&ps->items[slot], ps->items[slot].role.successor ? PROCESS_LOADING : PROCESS_SERVING);
}

void processes_promote(struct processes *ps, int slot)
{
	atomic_store(&ps->board->master.leaving[slot], 0);
	set_state(&ps->items[slot], PROCESS_SERVING);
}

/* Clears the place, and its slot except for the generation. The caller closes the socket. */
static void vacate(struct processes *ps, int slot)
{
	ps->items[slot].pid = 0;
	set_state(&ps->items[slot], PROCESS_FREE);
	ps->items[slot] = free_process;
	slot_clear(&ps->board->slots[slot]);
	atomic_store(&ps->board->master.queue_of[slot], 0);
	atomic_store(&ps->board->master.leaving[slot], 0);
	atomic_store(&ps->board->master.orders[slot], ORDER_RUN);
}

void processes_not_forked(struct processes *ps, int slot)
{
	assert(ps->items[slot].state == PROCESS_STARTING);
	vacate(ps, slot);
}

void processes_leave(struct processes *ps, int slot, int64_t now_ms)
{
	ps->items[slot].leaving_ms = now_ms;
	atomic_store(&ps->board->master.leaving[slot], 1);
	set_state(&ps->items[slot], PROCESS_LEAVING);
}

void processes_close_socket(struct processes *ps, int slot)
{
	int *fd = &ps->items[slot].role.socket;

	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

void processes_release(struct processes *ps, int slot)
{
	assert(process_lives(&ps->items[slot]));
	processes_close_socket(ps, slot);
	vacate(ps, slot);
}

/* ---- orders and signals ---- */

static bool is_raised(enum order from, enum order to)
{
	return to > from || (from == ORDER_QUIET && to == ORDER_RUN);
}

void processes_order(struct processes *ps, int slot, enum order order, int64_t now_ms)
{
	struct process *p = &ps->items[slot];

	assert(process_lives(p));
	if (!is_raised((enum order)atomic_load(&ps->board->master.orders[slot]), order))
		return;
	atomic_store(&ps->board->master.orders[slot], order);
	if (order == ORDER_HAND_BACK)
		p->kill_at_ms = now_ms + p->role.kill_grace_ms + OVERDUE_MS;
	else if (order == ORDER_FINISH && p->role.kind == PROCESS_SWEEPER)
		p->kill_at_ms = now_ms + OVERDUE_MS;
	kill(p->pid, SIGTERM);
}

void processes_wake(const struct processes *ps, int slot)
{
	assert(process_lives(&ps->items[slot]));
	kill(ps->items[slot].pid, SIGTERM);
}

void processes_order_all(struct processes *ps, enum process_kind kind, enum order order, int64_t now_ms)
{
	for (const struct process *p = NULL; (p = processes_next(ps, p, kind)) != NULL;)
		processes_order(ps, processes_slot(ps, p), order, now_ms);
}

void processes_signal_all(const struct processes *ps, int sig)
{
	for (const struct process *p = NULL; (p = processes_next(ps, p, PROCESS_ANY)) != NULL;)
		kill(p->pid, sig);
}

void processes_kill_handler(struct processes *ps, int slot)
{
	pid_t pgid = (pid_t)atomic_load(&ps->board->slots[slot].handler_pgid);

	/* A damaged number must not hit another process; 1 would hit all of them. */
	if (ps->items[slot].role.kind == PROCESS_WORKER && pgid > 1 && pgid != getpgrp())
		kill(-pgid, SIGKILL);
	atomic_store(&ps->board->slots[slot].handler_pgid, 0);
}

void processes_kill(struct processes *ps, int slot)
{
	assert(process_lives(&ps->items[slot]));
	kill(ps->items[slot].pid, SIGKILL);
	processes_kill_handler(ps, slot);
}

void processes_kill_at(struct processes *ps, int slot, int64_t at_ms)
{
	assert(process_lives(&ps->items[slot]));
	ps->items[slot].kill_at_ms = at_ms;
}

void processes_fence(struct processes *ps, int slot)
{
	assert(!ps->items[slot].fenced);
	ps->items[slot].fenced = true;
	processes_kill(ps, slot);
}

void processes_stuck(struct processes *ps, int slot)
{
	ps->items[slot].stuck = true;
}

void processes_suspect(struct processes *ps, int slot, int64_t heartbeat_ms)
{
	ps->items[slot].stuck_heartbeat_ms = heartbeat_ms;
}
