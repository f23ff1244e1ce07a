/*
 * The sweeper process: one loop over a table of tasks, each bounded, most urgent first. What a task does
 * is in its own file; here is when it runs, and how the process ends. Later tasks are lines of the table.
 */
#include <poll.h>
#include <stdlib.h>

#include <jansson.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/nitems.h"
#include "common/process.h"
#include "common/queue_nodes.h"
#include "sweeper/interrupt.h"

#define FINISH_MS 5000		/* what known deaths are given after the order to finish */
#define LOOK_MS 5000		/* the longest sleep: heartbeats go on */
#define ERRANDS_POLLED 64	/* more are looked at in their turn */
#define CLEAR_MS 2000
#define BUSY_MS 100		/* the same while something waits for its back-off */

/* interval 0: each turn, it knows itself whether there is anything. per_lease: so many times a lease, of both what is sooner. Budget: units a
 * queue and turn, of look in all. */
static const struct task {
	const char *name;
	int64_t interval_ms;
	int per_lease;
	int budget;
	bool (*run)(struct sweeper *s, int budget, int64_t now_ms);
	bool finishing;		/* also after the order to finish */
} tasks[] = {
	{ "deaths", 0, 0, 64, deaths_task, true },
	{ "rescue", 0, 0, 4, rescue_task, true },
	{ "departures", 0, 0, 1, departures_task, true },
	{ "recover", 0, 0, 1, recover_task, false },
	{ "poll", 1000, 0, 1, poll_task, false },
	{ "due", 0, 0, 100, due_task, false },
	{ "pulse", 0, 4, 1, pulse_task, false },
	{ "dead_boots", 10000, 0, 1, dead_boots_task, false },
	{ "look", 0, 0, 32, look_task, false },
	{ "lead", 1000, 8, 1, lead_task, false },
	{ "registry", 1000, 0, 1, registry_task, false },
	{ "secret", 10000, 0, 1, secret_task, false },
	{ "tally", 5000, 0, 1, tally_task, false },
	{ "stamps", 0, 0, 20, stamps_task, false },
	{ "ttl", 0, 0, 20, ttl_task, false },
	{ "purge", 0, 0, 10, purge_task, false },
	{ "transit", 1000, 0, 1, transit_task, false },
	{ "vacancies", 1000, 0, 1, vacancies_task, false },
	{ "aside", 1000, 0, 1, aside_task, false },
	{ "orphans", 0, 0, 4, orphans_task, false },
	{ "history", 0, 0, 10, history_task, false },
	{ "metrics", 0, 0, 8, metrics_task, false },
	{ "forward", 0, 0, 4, forward_task, false },
	{ "letters", 0, 0, 4, letters_task, false },
	{ "node", QUEUE_NODE_EVERY_MS, 0, 1, node_task, false },
	{ "clock", 1000, 0, 1, clock_task, false },
	{ "server", 2500, 0, 1, server_task, false },
};

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

static int64_t interval_of(const struct sweeper *s, const struct task *t)
{
	int64_t part = t->per_lease > 0 ? s->conf->supervisor.lease_ms / t->per_lease : INT64_MAX;

	return t->per_lease == 0 || (t->interval_ms > 0 && t->interval_ms < part) ? t->interval_ms : part;
}

static bool run_task(struct sweeper *s, size_t i, int64_t now_ms)
{
	const struct task *t = &tasks[i];
	bool more;

	if (now_ms < s->task_due_ms[i] || (s->finish_by_ms != 0 && !t->finishing))
		return false;
	more = t->run(s, t->budget, now_ms);
	connection_drain(s);
	s->task_due_ms[i] = now_ms + interval_of(s, t);
	return more;
}

static bool run_tasks(struct sweeper *s)
{
	bool more = false;

	for (size_t i = 0; i < nitems(tasks) && sweeper_goes_on(s); i++)
		more = run_task(s, i, clock_monotonic_ms()) || more;
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
	int64_t (*const wakes[])(const struct sweeper *s, const struct swept *q) = { stamps_wake_ms, ttl_wake_ms, purge_wake_ms, letters_wake_ms, forward_wake_ms };
	int64_t at = now_ms + (has_work(s) ? BUSY_MS : LOOK_MS);
	const struct swept *q;

	if (!s->up)
		return s->connect_at_ms < now_ms + LOOK_MS ? s->connect_at_ms : now_ms + LOOK_MS;
	for (size_t i = 0; i < nitems(tasks); i++)
		if (interval_of(s, &tasks[i]) > 0 && s->task_due_ms[i] < at)
			at = s->task_due_ms[i];
	TAILQ_FOREACH(q, &s->queues, entry)
		for (size_t i = 0; i < nitems(wakes); i++) {
			int64_t wake_ms = wakes[i](s, q);

			at = wake_ms < at ? wake_ms : at;
		}
	return at;
}

/* After the master's, with room for Redis: what errands say. Returns how many there are. */
static nfds_t poll_errands(const struct sweeper *s, struct pollfd *p)
{
	const struct swept *q;
	nfds_t n = 0;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (n < ERRANDS_POLLED && errand_pollfd(&q->bounds.errand, &p[n]))
			n++;
	return n;
}

static void wait_for_events(struct sweeper *s)
{
	int64_t now_ms = clock_monotonic_ms(), left = wake_at(s, now_ms) - now_ms;
	struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	struct pollfd p[2 + ERRANDS_POLLED] = { { .fd = s->child->master_fd, .events = POLLIN } };
	nfds_t redis = 1, n;
	int ready;

	if (left <= 0)
		ts = (struct timespec){0};
	if (!s->up || !redis_pollfd(&s->redis, &p[redis]))
		redis = 0;
	n = 1 + (redis != 0);
	n += poll_errands(s, &p[n]);
	ready = ppoll(p, n, &ts, s->redis.poll_mask);
	if (ready == -1)
		clock_poll_failed();
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
	s->task_due_ms = alloc_zero(nitems(tasks), sizeof(*s->task_due_ms));
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
		tally_task(s, 1, clock_monotonic_ms());
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
