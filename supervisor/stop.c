/*
 * Stopping, in order: workers finish, then hand back; what died meanwhile is confirmed; the sweeper; the
 * embedded Redis last. Every phase has an end. Who does not keep to it is killed by watch.c.
 */
#include <unistd.h>

#include "supervisor/stop.h"

#include "common/log.h"
#include "supervisor/child.h"
#include "supervisor/master.h"
#include "supervisor/staff.h"

#define CONFIRM_MS 5000
#define CONFIRM_AWAY_MS 1000
#define KEEPER_MS 75000		/* it gives Redis a minute to save */

static void enter(struct master *m, enum stop_phase phase, int64_t now_ms)
{
	m->stop.phase = phase;
	m->stop.since_ms = now_ms;
}

static void order_kind(struct master *m, enum proc_kind kind, enum order order, int64_t now_ms)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == kind)
			child_order(m, slot, order, now_ms);
}

static bool any(const struct master *m, enum proc_kind kind)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == kind)
			return true;
	return false;
}

static void hand_back(struct master *m, int64_t now_ms)
{
	enter(m, STOP_HANDING_BACK, now_ms);
	order_kind(m, PROC_WORKER, ORDER_HAND_BACK, now_ms);
}

void stop_begin(struct master *m, bool fast, const char *reason, int64_t now_ms)
{
	if (m->stop.phase >= STOP_HANDING_BACK || (m->stop.phase == STOP_FINISHING && !fast))
		return;
	log_info("stopping", log_str("reason", reason), log_str("how", fast ? "fast" : "drain"),
	    log_int("workers", staff_count(m)));
	if (m->stop.phase == STOP_NOT)
		notify_stopping(&m->notify);
	notify_status(&m->notify, "stopping: %d workers", staff_count(m));
	if (fast) {
		hand_back(m, now_ms);
		return;
	}
	enter(m, STOP_FINISHING, now_ms);
	order_kind(m, PROC_WORKER, ORDER_FINISH, now_ms);
}

/* The keeper ends when nobody holds the pipe any more: we are the last. */
static void leave_keeper(struct master *m, int64_t now_ms)
{
	enter(m, STOP_KEEPER, now_ms);
	if (m->keeper_fd[1] != -1)
		close(m->keeper_fd[1]);
	m->keeper_fd[1] = -1;
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].kind == PROC_KEEPER)
			m->procs[slot].due_ms = now_ms + KEEPER_MS;
}

/* A sweeper without Redis can confirm nothing. */
static int64_t confirm_ms(const struct master *m)
{
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == PROC_SWEEPER &&
		    slot_state(&m->board->slots[slot]) != SLOT_CONNECTING)
			return CONFIRM_MS;
	return CONFIRM_AWAY_MS;
}

static bool is_over(const struct master *m, int64_t now_ms)
{
	switch (m->stop.phase) {
	case STOP_FINISHING:
	case STOP_HANDING_BACK:
		return !any(m, PROC_WORKER);
	case STOP_CONFIRMING:
		return (m->deaths.n == 0 && !m->deaths.cleaning) || now_ms - m->stop.since_ms >= confirm_ms(m);
	case STOP_SWEEPER:
		return !any(m, PROC_SWEEPER);
	case STOP_KEEPER:
		return !any(m, PROC_KEEPER);
	default:
		return false;
	}
}

static void go_on(struct master *m, int64_t now_ms)
{
	switch (m->stop.phase) {
	case STOP_FINISHING:
	case STOP_HANDING_BACK:
		enter(m, STOP_CONFIRMING, now_ms);
		break;
	case STOP_CONFIRMING:
		enter(m, STOP_SWEEPER, now_ms);
		order_kind(m, PROC_SWEEPER, ORDER_FINISH, now_ms);
		break;
	case STOP_SWEEPER:
		leave_keeper(m, now_ms);
		break;
	default:
		enter(m, STOP_GONE, now_ms);
		break;
	}
}

void stop_step(struct master *m, int64_t now_ms)
{
	if (m->stop.phase == STOP_FINISHING && any(m, PROC_WORKER)) {
		int64_t end_ms = m->stop.since_ms + m->conf->supervisor.drain_timeout_ms;

		if (now_ms >= end_ms) {
			log_warning("drain_timeout", log_int("workers", staff_count(m)));
			hand_back(m, now_ms);
		} else {
			master_wake_at(m, end_ms);
		}
	}
	while (is_over(m, now_ms))
		go_on(m, now_ms);
	if (m->stop.phase == STOP_CONFIRMING)
		master_wake_at(m, m->stop.since_ms + confirm_ms(m));
}
