/*
 * The sweeper process: its loop, its orders, and how it ends. What it does are tasks (task.h), each in its own file.
 */
#include <poll.h>
#include <stdlib.h>

#include <jansson.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/process.h"
#include "common/queue_nodes.h"
#include "sweeper/interrupt.h"

#define FINISH_MS 5000		/* what known deaths are given after the order to finish */
#define LOOK_MS 5000		/* the longest sleep: heartbeats go on */
#define ERRANDS_POLLED 64	/* more are looked at in their turn */
#define CLEAR_MS 2000
#define BUSY_MS 100		/* the same while something waits for its back-off */

void sweeper_beat(const struct sweeper *s)
{
	atomic_store(&s->slot->heartbeat_ms, clock_monotonic_ms());
}

bool sweeper_goes_on(struct sweeper *s)
{
	sweeper_beat(s);
	return s->redis.state == REDIS_READY && !interrupt_asked();
}

/* ---- tasks ---- */

static bool run_tasks(struct sweeper *s)
{
	bool more = tasks_run(s);

	if (s->redis.state == REDIS_CLOSED)
		connection_lost(s, clock_monotonic_ms());
	return more && s->up;
}

/* Something waits, for its back-off or for us: sleep only a little. */
static bool has_work(const struct sweeper *s)
{
	const struct swept *q;

	if (!TAILQ_EMPTY(&s->deaths) || s->clearing)
		return true;
	TAILQ_FOREACH(q, &s->queues, entry)
		if (q->recovery != RECOVERED || !TAILQ_EMPTY(&q->rescues))
			return true;
	return false;
}

/* ---- orders ---- */

static void look_at_order(struct sweeper *s, int64_t now_ms)
{
	uint32_t epoch = atomic_load(&s->child->board->log_epoch);

	if (epoch != s->log_epoch)
		log_reopen();
	s->log_epoch = epoch;
	if (s->finish_by_ms == 0 && atomic_load(&s->child->board->orders[s->child->slot]) >= ORDER_FINISH)
		s->finish_by_ms = now_ms + FINISH_MS;
	if (interrupt_asked())
		s->master_gone = true;
}

static bool finished(const struct sweeper *s, int64_t now_ms)
{
	if (s->master_gone)
		return true;
	return s->finish_by_ms != 0 && (!s->up || TAILQ_EMPTY(&s->deaths) || now_ms >= s->finish_by_ms);
}

/* ---- the loop ---- */

static void show_state(const struct sweeper *s)
{
	slot_set_state(s->slot, s->finish_by_ms != 0 ? SLOT_STOPPING : s->up ? SLOT_IDLE : SLOT_CONNECTING);
}

/* True: there is more to do at once. */
static bool turn(struct sweeper *s)
{
	int64_t now_ms = clock_monotonic_ms();

	sweeper_beat(s);
	deaths_receive(s);
	look_at_order(s, now_ms);
	show_state(s);
	if (s->master_gone)
		return false;
	metrics_tell(s, now_ms);
	s->clearing = errand_clear();
	if (s->up)
		return run_tasks(s);
	return s->finish_by_ms == 0 && now_ms >= s->connect_at_ms && connection_open(s, now_ms) == 0;
}

static int64_t wake_at(const struct sweeper *s, int64_t now_ms)
{
	if (!s->up)
		return s->connect_at_ms < now_ms + LOOK_MS ? s->connect_at_ms : now_ms + LOOK_MS;
	return tasks_wake_ms(s, now_ms + (has_work(s) ? BUSY_MS : LOOK_MS));
}

static void wait_for_events(struct sweeper *s)
{
	int64_t now_ms = clock_monotonic_ms(), left = wake_at(s, now_ms) - now_ms;
	struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	struct pollfd p[2 + ERRANDS_POLLED] = { { .fd = s->child->master_fd, .events = POLLIN } };
	nfds_t redis = 1, n, errands;
	int ready;

	if (left <= 0)
		ts = (struct timespec){0};
	if (!s->up || !redis_pollfd(&s->redis, &p[redis]))
		redis = 0;
	n = 1 + (redis != 0);
	errands = tasks_pollfds(s, &p[n], ERRANDS_POLLED);
	ready = ppoll(p, n + errands, &ts, s->redis.poll_mask);
	if (ready == -1)
		clock_poll_failed();
	if (ready > 0)
		tasks_polled(s, &p[n], errands);
	if (ready > 0 && redis != 0 && p[redis].revents != 0 &&
	    redis_pump(&s->redis, clock_monotonic_ms()) == -1)
		connection_lost(s, clock_monotonic_ms());
}

static void sweeper_init(struct sweeper *s, const struct child *child, sigset_t *while_polling)
{
	s->child = child;
	s->conf = child->conf;
	s->slot = &child->board->slots[child->slot];
	slot_next_generation(s->slot);	/* what is marked as another's of this slot is nobody's */
	s->log_epoch = atomic_load(&child->board->log_epoch);
	s->task_due_ms = alloc_zero(TASKS, sizeof(*s->task_due_ms));
	TAILQ_INIT(&s->deaths);
	interrupt_catch(child->master_pid, while_polling);
	if (connection_init(s) == -1) {
		log_error("redis_url", log_str("error", s->error));	/* the configuration was checked: cannot be */
		exit(1);
	}
	s->redis.poll_mask = while_polling;
	clock_init(s);
	metrics_init(s);
	swept_init_all(s);
}

static void sweeper_free(struct sweeper *s)
{
	swept_free_all(s);
	purge_check_stop(s);
	free(s->transit_told);
	deaths_free(s);
	dead_boots_free(s);
	registry_free(s);
	vacancies_free(&s->vacancies);
	registry_page_drop(&s->vacancies.page);
	metrics_free(s);
	connection_free(s);
	free(s->task_due_ms);
	free(s);
	process_kill_children_wait(NULL, NULL, CLEAR_MS);	/* what killed errands left to us */
}

/* All workers are gone: what they did last is written down, and the periodic work left to others. */
static void settle_up(struct sweeper *s)
{
	if (s->up)
		tally_task.run(s, 1, clock_monotonic_ms());
	if (s->up)
		lead_give_up(s);
	if (s->up)
		clock_keep(s);
	if (s->up)
		node_drop(s);
}

_Noreturn void sweeper_run(const struct child *child)
{
	struct sweeper *s = alloc_zero(1, sizeof(*s));
	sigset_t while_polling;

	json_set_alloc_funcs(alloc_bytes, free);	/* it would leave out of an object what it has no memory for */
	sweeper_init(s, child, &while_polling);
	do {
		if (!turn(s) && !finished(s, clock_monotonic_ms()))
			wait_for_events(s);
	} while (!finished(s, clock_monotonic_ms()));
	slot_set_state(s->slot, SLOT_STOPPING);
	if (!s->master_gone)
		settle_up(s);
	sweeper_free(s);
	exit(CHILD_EXIT_DONE);
}
