/*
 * The sweeper process: its loop, the orders of the master, and its end. Its work is in the tasks of the table (task.h).
 */
#include <sys/wait.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <jansson.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/subprocess.h"

/* after the order to finish: for the rescue of known deaths, and for operations that let go */
#define FINISH_MS 5000
#define LOOK_MS 5000		/* the longest sleep, so that heartbeats continue */
#define SUBPROCESSES_POLLED 64	/* the others are checked once a turn */
#define CLEAR_MS 2000
#define BUSY_MS 100		/* the longest sleep while a task has pending work */

static pid_t master_pid;

/* ---- signals: TERM tells the sweeper to read its order, and to check that the master lives. It is delivered only
 * while the sweeper polls. ---- */

static void on_term(int sig)
{
	(void)sig;
}

void core_catch_term(pid_t master, sigset_t *while_polling)
{
	struct sigaction sa = { .sa_handler = on_term };

	master_pid = master;
	sigemptyset(&sa.sa_mask);
	sigaction(SIGTERM, &sa, NULL);
	sigprocmask(SIG_SETMASK, NULL, while_polling);
	sigdelset(while_polling, SIGTERM);
}

bool core_lost_master(void)
{
	return getppid() != master_pid;
}

/* ---- for tasks ---- */

void sweeper_beat(const struct sweeper *s)
{
	atomic_store(&s->slot->heartbeat_ms, clock_monotonic_ms());
}

bool core_is_finishing(const struct sweeper *s)
{
	return atomic_load(&s->child->board->master.orders[s->child->slot]) >= ORDER_FINISH;
}

/* This function does not set finish_by_ms: the sweeper exits only after a turn that began after the order, and so has
 * received every report of the master. */
bool sweeper_goes_on(struct sweeper *s)
{
	const struct task *t = s->tasks.running;

	sweeper_beat(s);
	return s->redis.state == REDIS_READY && !core_lost_master() &&
	    (t == NULL || t->finishing || !core_is_finishing(s));
}

bool sweeper_is_active(const struct sweeper *s)
{
	return atomic_load(&s->child->board->master.active_sweeper) == s->child->slot;
}

static int64_t our_mark(const struct sweeper *s)
{
	return (int64_t)(slot_generation(s->slot) << 16) + s->child->slot + 1;
}

static bool is_alive(const struct sweeper *s, int64_t mark)
{
	int64_t index = (mark & 0xffff) - 1;
	const struct slot *holder;

	if (index < 0 || index >= SCOREBOARD_SLOTS)
		return false;
	holder = &s->child->board->slots[index];
	return slot_state(holder) != SLOT_FREE && slot_generation(holder) == (uint64_t)mark >> 16;
}

bool core_hold(const struct sweeper *s, _Atomic int64_t *holder)
{
	int64_t mark = atomic_load(holder);

	return (mark == 0 || !is_alive(s, mark)) && atomic_compare_exchange_strong(holder, &mark, our_mark(s));
}

bool sweeper_measures_queues(const struct sweeper *s)
{
	return s->conf->health.enabled || s->conf->metrics.statsd != NULL || s->conf->metrics.textfile != NULL;
}

void sweeper_lost_master(struct sweeper *s)
{
	s->loop.master_gone = true;
}

/* The search closes its socket only when it ends, so the wait is short. 0 also if it was reaped before. */
static int await_search(pid_t pid)
{
	int status = 0;

	while (waitpid(pid, &status, 0) == -1 && errno == EINTR)
		;
	return status;
}

/*
 * Only the master can make another one, beside another sweeper: this process has no rights to give. Whatever it was
 * doing is safe, as if it had been killed.
 */
_Noreturn void core_lost_search(const struct child *child)
{
	int status = await_search(child->search_pid);
	struct log_field how = WIFSIGNALED(status) ? log_str("signal", process_signal_name(WTERMSIG(status)))
	    : log_int("exit", WEXITSTATUS(status));

	log_error("search_lost", log_int("child", child->search_pid), how,
	    log_str("advice", "the master starts the sweeper again, which starts its search"));
	_exit(CHILD_EXIT_NO_SEARCH);
}

/* ---- tasks ---- */

static bool run_tasks(struct sweeper *s)
{
	bool more = tasks_run(s);

	if (s->redis.state == REDIS_CLOSED)
		connection_lost(s, clock_monotonic_ms());
	return more && s->connection.up;
}

/* ---- orders ---- */

static void look_at_order(struct sweeper *s, int64_t now_ms)
{
	log_follow(atomic_load(&s->child->board->master.log_epoch));
	if (s->loop.finish_by_ms == 0 && core_is_finishing(s))
		s->loop.finish_by_ms = now_ms + FINISH_MS;
	if (core_lost_master())
		s->loop.master_gone = true;
}

static bool finished(struct sweeper *s, int64_t now_ms)
{
	if (s->loop.master_gone)
		return true;
	return s->loop.finish_by_ms != 0 &&
	    (!s->connection.up || !tasks_are_pending(s) || now_ms >= s->loop.finish_by_ms);
}

/* ---- the loop ---- */

/* True: there is more to do at once. */
static bool run_turn(struct sweeper *s)
{
	int64_t now_ms = clock_monotonic_ms();

	sweeper_beat(s);
	tasks_each_turn(s, now_ms);
	look_at_order(s, now_ms);
	slot_set_state(s->slot, s->loop.finish_by_ms != 0 ? SLOT_STOPPING : s->connection.up ? SLOT_IDLE
	    : SLOT_CONNECTING);
	if (s->loop.master_gone)
		return false;
	s->loop.clearing = subprocess_kill_adopted();
	if (s->connection.up)
		return run_tasks(s);
	return s->loop.finish_by_ms == 0 && connection_is_due(s, now_ms) && connection_start(s, now_ms) == 0;
}

static int64_t wake_at(struct sweeper *s, int64_t now_ms)
{
	if (!s->connection.up)
		return s->connection.open_at_ms < now_ms + REDIS_NEWS_MS ? s->connection.open_at_ms
		    : now_ms + REDIS_NEWS_MS;
	return tasks_wake_ms(s, now_ms + (tasks_are_pending(s) || s->loop.clearing ? BUSY_MS : LOOK_MS));
}

static void wait_for_events(struct sweeper *s)
{
	int64_t now_ms = clock_monotonic_ms(), left = wake_at(s, now_ms) - now_ms;
	struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	struct pollfd p[3 + SUBPROCESSES_POLLED] = { { .fd = s->child->master_fd, .events = POLLIN } };
	nfds_t redis = 2, n, subprocesses;
	int ready;

	if (left <= 0)
		ts = (struct timespec){0};
	p[1] = (struct pollfd){ .fd = s->child->search_pid != 0 ? s->child->search_fd : -1, .events = POLLIN };
	if (!s->connection.up || !redis_pollfd(&s->redis, &p[redis]))
		redis = 0;
	n = 2 + (redis != 0);
	subprocesses = tasks_pollfds(s, &p[n], SUBPROCESSES_POLLED);
	ready = ppoll(p, n + subprocesses, &ts, s->redis.poll_mask);
	if (ready == -1)
		clock_poll_failed();
	if (ready > 0 && p[1].revents != 0)
		core_lost_search(s->child);	/* it has nothing to say until it is asked */
	if (ready > 0)
		tasks_polled(s, &p[n], subprocesses);
	if (ready > 0 && redis != 0 && p[redis].revents != 0 &&
	    redis_pump(&s->redis, clock_monotonic_ms()) == -1)
		connection_lost(s, clock_monotonic_ms());
}

static void init_sweeper(struct sweeper *s, const struct child *child, sigset_t *while_polling)
{
	s->child = child;
	s->conf = child->conf;
	s->slot = &child->board->slots[child->slot];
	slot_next_generation(s->slot);	/* so marks of earlier processes in this slot do not count (archiver.c) */
	subprocess_spare(child->search_pid);
	core_catch_term(child->master_pid, while_polling);
	if (connection_init(s) == -1) {
		/* cannot happen: the configuration was checked */
		log_error("redis_url", log_str("error", s->connection.error));
		exit(1);
	}
	s->redis.poll_mask = while_polling;
	clock_init(s);
	sweeper_queues_init(s);
}

static void free_all(struct sweeper *s)
{
	if (s->child->search_pid != 0)
		close(s->child->search_fd);	/* ends that process */
	sweeper_queues_free(s);
	tasks_free(s);
	connection_free(s);
	free(s);
	/* orphans of killed subprocesses, which the sweeper adopted */
	process_kill_children_wait(NULL, NULL, CLEAR_MS);
}

_Noreturn void core_run(const struct child *child, const struct task *const *tasks, size_t ntasks)
{
	struct sweeper *s = alloc_zero(1, sizeof(*s));
	sigset_t while_polling;

	/* abort without memory: jansson itself would leave a member out of an object */
	json_set_alloc_funcs(alloc_bytes, free);
	tasks_init(s, tasks, ntasks);
	init_sweeper(s, child, &while_polling);
	do {
		if (!run_turn(s) && !finished(s, clock_monotonic_ms()))
			wait_for_events(s);
	} while (!finished(s, clock_monotonic_ms()));
	slot_set_state(s->slot, SLOT_STOPPING);
	if (!s->loop.master_gone && s->connection.up)
		tasks_settle(s);
	free_all(s);
	exit(CHILD_EXIT_DONE);
}
