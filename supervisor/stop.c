/*
 * A stop, in this order: workers finish, then hand back; the sweeper confirms the deaths that the master has reported;
 * the sweeper ends; the embedded Redis ends last. watch.c kills a child that exceeds its time.
 */
#include "supervisor/stop.h"

#include <assert.h>

#include "common/log/log.h"
#include "supervisor/master.h"

#define CONFIRM_MS 5000
#define CONFIRM_AWAY_MS 1000
#define KEEPER_MS 75000		/* the keeper gives Redis a minute to save */

/* The only function that changes the phase. */
static void enter_phase(struct master *m, enum stop_phase phase, int64_t now_ms)
{
	static const bool legal[][STOP_GONE + 1] = {
		[STOP_NOT] = { [STOP_FINISHING] = true, [STOP_HANDING_BACK] = true },
		[STOP_FINISHING] = { [STOP_HANDING_BACK] = true, [STOP_CONFIRMING] = true },
		[STOP_HANDING_BACK] = { [STOP_CONFIRMING] = true },
		[STOP_CONFIRMING] = { [STOP_SWEEPER] = true },
		[STOP_SWEEPER] = { [STOP_KEEPER] = true },
		[STOP_KEEPER] = { [STOP_GONE] = true },
		[STOP_GONE] = { false },
	};

	assert(legal[m->stop.phase][phase]);
	m->stop.phase = phase;
	atomic_store(&m->board->master.stopping, 1);
	m->stop.since_ms = now_ms;
}

static void hand_back(struct master *m, int64_t now_ms)
{
	enter_phase(m, STOP_HANDING_BACK, now_ms);
	processes_order_all(&m->processes, PROCESS_WORKER, ORDER_HAND_BACK, now_ms);
}

/* The keeper that waits until its Redis can write its file; NULL: none does. */
static const struct process *waiting_keeper(const struct master *m)
{
	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_KEEPER)) != NULL;)
		if (atomic_load(&m->board->slots[processes_slot(&m->processes, p)].unsaved) != 0)
			return p;
	return NULL;
}

/* A fast order gives up what Redis could not write, if it comes after the keeper has said so. */
static void give_up_unsaved(struct master *m, const char *reason, int64_t now_ms)
{
	const struct process *p = waiting_keeper(m);

	if (m->stop.phase != STOP_KEEPER || p == NULL)
		return;
	log_warning("stop_gives_up", log_str("reason", reason), log_int("child", p->pid));
	processes_order(&m->processes, processes_slot(&m->processes, p), ORDER_HAND_BACK, now_ms);
	processes_kill_at(&m->processes, processes_slot(&m->processes, p), now_ms + KEEPER_MS);
}

void stop_begin(struct master *m, bool fast, const char *reason, int64_t now_ms)
{
	int workers = queues_count_workers(&m->queues);

	if (fast)
		give_up_unsaved(m, reason, now_ms);
	if (m->stop.phase >= STOP_HANDING_BACK || (m->stop.phase == STOP_FINISHING && !fast))
		return;
	log_info("stopping", log_str("reason", reason), log_str("how", fast ? "fast" : "drain"),
	    log_int("workers", workers));
	if (m->stop.phase == STOP_NOT)
		notify_stopping(&m->notify);
	notify_status(&m->notify, "stopping: %d workers", workers);
	if (fast) {
		hand_back(m, now_ms);
		return;
	}
	enter_phase(m, STOP_FINISHING, now_ms);
	processes_order_all(&m->processes, PROCESS_WORKER, ORDER_FINISH, now_ms);
}

void stop_interrupt(struct master *m, int64_t now_ms)
{
	m->stop.interrupts++;
	stop_begin(m, m->stop.interrupts > 1, "SIGINT", now_ms);
}

static void end_keeper(struct master *m, int64_t now_ms)
{
	enter_phase(m, STOP_KEEPER, now_ms);
	spawner_leave_keeper(&m->spawner);
	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_KEEPER)) != NULL;)
		processes_kill_at(&m->processes, processes_slot(&m->processes, p), now_ms + KEEPER_MS);
}

/* Returns how long to wait for the sweeper: without Redis it can confirm nothing. */
static int64_t confirm_ms(const struct master *m)
{
	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_SWEEPER)) != NULL;)
		if (slot_state(&m->board->slots[processes_slot(&m->processes, p)]) != SLOT_CONNECTING)
			return CONFIRM_MS;
	return CONFIRM_AWAY_MS;
}

static bool is_over(const struct master *m, int64_t now_ms)
{
	switch (m->stop.phase) {
	case STOP_FINISHING:
	case STOP_HANDING_BACK:
		return !processes_any(&m->processes, PROCESS_WORKER);
	case STOP_CONFIRMING:
		return deaths_are_settled(&m->deaths) || now_ms - m->stop.since_ms >= confirm_ms(m);
	case STOP_SWEEPER:
		return !processes_any(&m->processes, PROCESS_SWEEPER);
	case STOP_KEEPER:
		return !processes_any(&m->processes, PROCESS_KEEPER);
	default:
		return false;
	}
}

static void go_on(struct master *m, int64_t now_ms)
{
	switch (m->stop.phase) {
	case STOP_FINISHING:
	case STOP_HANDING_BACK:
		enter_phase(m, STOP_CONFIRMING, now_ms);
		break;
	case STOP_CONFIRMING:
		enter_phase(m, STOP_SWEEPER, now_ms);
		processes_order_all(&m->processes, PROCESS_SWEEPER, ORDER_FINISH, now_ms);
		break;
	case STOP_SWEEPER:
		end_keeper(m, now_ms);
		break;
	default:
		enter_phase(m, STOP_GONE, now_ms);
		break;
	}
}

/* The keeper has its time from its last heartbeat on while it waits for room: only one that stands still is killed. */
static void spare_keeper(struct master *m)
{
	const struct process *p = waiting_keeper(m);
	int slot;

	if (m->stop.phase != STOP_KEEPER || p == NULL)
		return;
	slot = processes_slot(&m->processes, p);
	processes_kill_at(&m->processes, slot, atomic_load(&m->board->slots[slot].heartbeat_ms) + KEEPER_MS);
	notify_status(&m->notify, "stopping: Redis cannot write its file, make room in %s", m->config.conf->redis.dir);
}

int64_t stop_step(struct master *m, int64_t now_ms)
{
	int64_t due_ms = INT64_MAX;

	if (m->stop.phase == STOP_FINISHING && processes_any(&m->processes, PROCESS_WORKER)) {
		due_ms = m->stop.since_ms + m->config.conf->supervisor.drain_timeout_ms;
		if (now_ms >= due_ms) {
			log_warning("drain_timeout", log_int("workers", queues_count_workers(&m->queues)));
			hand_back(m, now_ms);
			due_ms = INT64_MAX;
		}
	}
	while (is_over(m, now_ms))
		go_on(m, now_ms);
	spare_keeper(m);
	return m->stop.phase == STOP_CONFIRMING ? m->stop.since_ms + confirm_ms(m) : due_ms;
}
