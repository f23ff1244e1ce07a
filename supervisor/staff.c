/*
 * Who is missing and who is too many, once a turn. How a child is made is child.c's; whether it may be
 * made already is policy.c's.
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "supervisor/child.h"
#include "supervisor/master.h"
#include "supervisor/staff.h"

#define REPLACE_MS 10000	/* then who leaves goes, replaced or not */
#define SWEEPERS_MAX 4		/* at once; then the oldest goes, whoever it waits for */

int staff_sweeper(const struct master *m)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == PROC_SWEEPER && !m->procs[slot].leaving)
			return slot;
	return -1;
}

int staff_keeper(const struct master *m)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == PROC_KEEPER)
			return slot;
	return -1;
}

int staff_count(const struct master *m)
{
	int n = 0;

	for (int i = 0; i < m->ncrews; i++)
		n += m->crews[i].staff + m->crews[i].leaving;
	return n;
}

bool staff_is_complete(const struct master *m)
{
	for (int i = 0; i < m->ncrews; i++)
		if (m->crews[i].staff < crew_wanted(&m->crews[i]))
			return false;
	return staff_sweeper(m) != -1 && (!m->conf->redis.embedded || staff_keeper(m) != -1);
}

/* 1: may be spawned now; 0: not yet, the loop turns again when it may. */
static size_t allowed(struct master *m, const struct policy *p, int alive, int wanted, int64_t now_ms)
{
	size_t n;

	if (alive >= wanted)
		return 0;
	if (now_ms < m->fork_after_ms) {
		master_wake_at(m, m->fork_after_ms);
		return 0;
	}
	n = policy_allowed(p, (size_t)alive, (size_t)wanted, now_ms);
	if (n == 0 && p->next_spawn_ms > now_ms)
		master_wake_at(m, p->next_spawn_ms);
	return n;
}

static void fill_keeper(struct master *m, int64_t now_ms)
{
	int alive = staff_keeper(m) == -1 ? 0 : 1;

	policy_tick(&m->keeper_policy, (size_t)alive, now_ms);
	if (!m->conf->redis.embedded || m->orphan_redis != 0 || allowed(m, &m->keeper_policy, alive, 1, now_ms) == 0)
		return;
	if (child_spawn_keeper(m, now_ms) != -1)
		policy_spawned(&m->keeper_policy, now_ms);
}

static void fill_sweeper(struct master *m, int64_t now_ms)
{
	int alive = staff_sweeper(m) == -1 ? 0 : 1;

	policy_tick(&m->sweeper_policy, (size_t)alive, now_ms);
	if (allowed(m, &m->sweeper_policy, alive, 1, now_ms) > 0 && child_spawn_sweeper(m, now_ms) != -1)
		policy_spawned(&m->sweeper_policy, now_ms);
}

static int free_index(const struct master *m, int crew, int wanted)
{
	for (int index = 0; index < wanted; index++) {
		bool taken = false;

		for (int slot = 0; slot < m->top && !taken; slot++) {
			const struct proc *p = &m->procs[slot];

			taken = p->pid > 0 && p->kind == PROC_WORKER && p->crew == crew && p->index == index && !p->leaving;
		}
		if (!taken)
			return index;
	}
	return -1;
}

static void hire(struct master *m, int crew, int64_t now_ms)
{
	struct crew *c = &m->crews[crew];
	int wanted = crew_wanted(c);

	for (size_t n = allowed(m, &c->policy, c->staff, wanted, now_ms); n > 0; n--) {
		int index = free_index(m, crew, wanted);

		if (index == -1 || child_spawn_worker(m, crew, index, now_ms) == -1)
			return;
		policy_spawned(&c->policy, now_ms);
		if (c->owed > 0) {
			c->owed--;
			c->restarts++;
			atomic_fetch_add(&m->board->queues[crew].restarts, 1);
		}
	}
	if (c->staff < wanted)
		allowed(m, &c->policy, c->staff, wanted, now_ms);	/* for when the next is due */
}

/* Those beyond the number wanted, which have the highest indexes. */
static void dismiss_surplus(struct master *m, int crew, int64_t now_ms)
{
	int wanted = crew_wanted(&m->crews[crew]);

	if (m->crews[crew].staff <= wanted)
		return;
	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid > 0 && p->kind == PROC_WORKER && p->crew == crew && p->index >= wanted && !p->leaving)
			crew_dismiss(m, slot, now_ms);
	}
}

static bool is_worker_of_before(const struct proc *p, const struct proc *sweeper)
{
	return p->pid > 0 && p->kind == PROC_WORKER && p->leaving && p->epoch <= sweeper->epoch;
}

/* A sweeper stays for workers whose queues or keys its successor does not know. */
static bool is_needed(const struct master *m, int slot)
{
	if (staff_sweeper(m) == -1 || deaths_waiting_for(m, slot))
		return true;
	for (int i = 0; i < m->top; i++)
		if (is_worker_of_before(&m->procs[i], &m->procs[slot]))
			return true;
	return false;
}

static bool may_go(const struct master *m, int slot, int64_t now_ms)
{
	const struct proc *p = &m->procs[slot];
	const struct crew *c = &m->crews[p->crew];

	if (p->kind == PROC_SWEEPER)
		return !is_needed(m, slot);
	return c->staff >= crew_wanted(c) || now_ms - p->leaving_ms >= REPLACE_MS;
}

static void limit_sweepers(struct master *m, int64_t now_ms)
{
	int n = 0, oldest = -1;

	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid == 0 || p->kind != PROC_SWEEPER || atomic_load(&m->board->orders[slot]) >= ORDER_FINISH)
			continue;
		n++;
		if (p->leaving && (oldest == -1 || p->epoch < m->procs[oldest].epoch))
			oldest = slot;
	}
	if (n > SWEEPERS_MAX && oldest != -1)
		child_order(m, oldest, ORDER_FINISH, now_ms);
}

static void release_leavers(struct master *m, int64_t now_ms)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].leaving && may_go(m, slot, now_ms))
			child_order(m, slot, ORDER_FINISH, now_ms);
}

/* A sweeper that is forked in this turn knows it from its first report on. */
static void tell_wanted(struct master *m)
{
	for (int crew = 0; crew < m->ncrews; crew++)
		atomic_store(&m->board->queues[crew].wanted, (uint32_t)crew_wanted(&m->crews[crew]));
}

void staff_step(struct master *m, int64_t now_ms)
{
	tell_wanted(m);
	if (m->stop.phase <= STOP_HANDING_BACK || (m->stop.phase == STOP_CONFIRMING && m->deaths.n > 0)) {
		fill_keeper(m, now_ms);
		fill_sweeper(m, now_ms);
	}
	if (m->stop.phase != STOP_NOT)
		return;
	for (int crew = 0; crew < m->ncrews; crew++) {
		dismiss_surplus(m, crew, now_ms);
		hire(m, crew, now_ms);
	}
	release_leavers(m, now_ms);
	limit_sweepers(m, now_ms);
}
