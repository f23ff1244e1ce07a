/*
 * The worker process: one loop around one poll. Each turn reads the order, keeps the connection, settles messages whose
 * handlers have ended, starts messages from the trays, and requests more: in that order, so that the acknowledgement of
 * one message and the request for the next leave in one write.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define LOOK_MS 5000		/* the longest sleep: heartbeats go on */
#define STANDSTILL_MS 1000	/* a turn that begins so late is more than a busy machine */
#define CATCH_UP_MS 500		/* for a handler that waited for the worker: until its output is read, and it has answered */
#define MAPPED_MIN (1024 * 1024)	/* bytes; memory for a larger message is mapped */
#define HEAP_FREE_MAX (4 * 1024 * 1024)	/* free bytes that the end of the heap keeps: buffers of two messages that are not mapped */

/* Signals only end the poll. */
static void on_signal(int sig)
{
	(void)sig;
}

static void catch_signals(sigset_t *while_polling)
{
	struct sigaction sa = { .sa_handler = on_signal };

	sigemptyset(&sa.sa_mask);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGCHLD, &sa, NULL);
	sigprocmask(SIG_SETMASK, NULL, while_polling);
	sigdelset(while_polling, SIGTERM);
	sigdelset(while_polling, SIGCHLD);
}

int64_t worker_look_at_clock(struct worker *w)
{
	w->now_us = clock_monotonic_us();
	return w->now_us;
}

/* ---- the loop ---- */

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t next_deadline_ms(struct worker *w, int64_t now_ms)
{
	int64_t at = now_ms + LOOK_MS;

	at = least(at, session_deadline_ms(w));
	at = least(at, starter_deadline_ms(w, now_ms));
	at = least(at, mover_deadline_ms(w, now_ms));
	at = least(at, admission_deadline_ms(w));
	at = least(at, notes_deadline_ms(w, now_ms));
	at = least(at, evidence_deadline_ms(w, now_ms));
	at = least(at, cancel_deadline_ms(w));
	return least(at, exit_deadline_ms(&w->exit));
}

struct polled {
	struct pollfd fds[4 + RUNNER_POLLFDS];
	nfds_t n;
	nfds_t redis;		/* its index */
	nfds_t runner;		/* index of its first */
};

static void collect(const struct worker *w, struct polled *p)
{
	p->n = 0;
	if (!w->exit.master_gone)
		p->fds[p->n++] = (struct pollfd){ .fd = w->env->child->master_fd, .events = POLLIN };
	p->redis = p->n;
	if (redis_pollfd(&w->session.redis, &p->fds[p->n]))
		p->n++;
	if (redis_pollfd(&w->fetcher.unblock, &p->fds[p->n]))
		p->n++;
	if (fence_pollfd(w, &p->fds[p->n]))
		p->n++;
	p->runner = p->n;
	p->n += w->starter.runner->pollfds(w, &p->fds[p->n]);
}

static void wait_for_events(struct worker *w, const sigset_t *mask, int64_t now_ms)
{
	int64_t left = next_deadline_ms(w, now_ms) - now_ms;
	struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	struct polled p;
	int n;

	if (left <= 0)
		ts = (struct timespec){0};
	w->turn_by_ms = now_ms + (left > 0 ? left : 0);
	collect(w, &p);
	n = ppoll(p.fds, p.n, &ts, mask);
	if (n == -1)
		clock_poll_failed();
	if (n <= 0) {
		w->starter.runner->io(w, NULL, 0, now_ms);
		return;
	}
	if (!w->exit.master_gone && (p.fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
		exit_master_gone(&w->exit);	/* the master never writes, so input means that it has ended */
	session_polled(&w->session, w->session.redis.state != REDIS_CLOSED && p.fds[p.redis].revents != 0);
	w->starter.runner->io(w, &p.fds[p.runner], p.n - p.runner, clock_monotonic_ms());
}

static void run_turn(struct worker *w, int64_t now_ms)
{
	exit_look_at_order(w, now_ms);
	session_io(w, now_ms);	/* answers */
	w->starter.runner->end(w, now_ms);
	session_tick(w, now_ms);
	evidence_tick(w, now_ms);
	notes_tick(w, now_ms);
	cancel_tick(w, now_ms);
	starter_tick(w, now_ms);
	fence_tick(w, now_ms);
	mover_tick(w, now_ms);
	fetcher_tick(w, now_ms);
	fetcher_unblock_io(w, now_ms);
	w->starter.runner->flush(w);
	exit_leave(w, now_ms);
	session_flush(w, now_ms);	/* all requests of this turn leave in one write */
	admission_show(w);
	atomic_store(&w->env->slot->heartbeat_ms, w->now_us / 1000);
}

/*
 * The process or the whole machine stood still. Meanwhile handlers could not be heard, and may have waited until the worker reads their output. So that time
 * counts for none of their deadlines, and the worker reads before it judges them. Leases and fences go on: other hosts did not stand still.
 */
static void forgive_standstill(struct worker *w, int64_t now_ms)
{
	int64_t late_ms = now_ms - w->turn_by_ms;

	if (w->turn_by_ms != 0 && late_ms >= STANDSTILL_MS) {
		log_warning("worker_stood_still", log_int("ms", late_ms));
		w->starter.runner->forgive(w, late_ms + CATCH_UP_MS);
	}
	w->turn_by_ms = now_ms;
}

static void worker_init(struct worker *w, const struct env *env)
{
	/*
	 * Map large messages, so that free() returns their memory: by default glibc raises the threshold and keeps them on its heap. A
	 * mapping costs a page fault for each page, which makes a message of 400 kB twice as expensive, so smaller ones use the
	 * heap, and fetcher.c returns what the heap has kept when no message comes.
	 */
	alloc_set_thresholds(MAPPED_MIN, HEAP_FREE_MAX);
	w->env = env;
	log_bind(env->conf->name, env->name);
	pacing_init(&w->pacing, env->conf);
	evidence_init(&w->evidence);
	too_large_init(&w->too_large);
	tray_init(&w->trays, &env->keys);
	session_init(w);
	fetcher_init(&w->fetcher, &w->session.target, w->session.client_name);
	cancel_init(w);
	fence_init(w);
	starter_init(w);
}

static void worker_free(struct worker *w)
{
	w->starter.runner->free(w);
	fence_free(w);
	cancel_free(&w->cancels);
	undeliverable_free(&w->undeliverable);
	tray_free_all(&w->trays);
	fetcher_free(&w->fetcher);
	session_free(w);
	free(w);
}

_Noreturn void worker_run(const struct child *child)
{
	struct worker *w = alloc_zero(1, sizeof(*w));
	struct env *env = env_new(child);
	sigset_t while_polling;
	bool clean;

	worker_init(w, env);
	catch_signals(&while_polling);
	while (!w->exit.left) {
		int64_t now_ms;

		now_ms = worker_look_at_clock(w) / 1000;
		log_follow(atomic_load(&w->env->child->board->master.log_epoch));
		forgive_standstill(w, now_ms);
		run_turn(w, now_ms);
		if (w->exit.left || exit_gives_up(w, now_ms))
			break;
		if (!w->starter.runner->go_on(w))
			wait_for_events(w, &while_polling, now_ms);
	}
	slot_set_state(w->env->slot, SLOT_STOPPING);
	clean = w->exit.clean;
	worker_free(w);
	env_free(env);
	exit(clean ? CHILD_EXIT_DONE : CHILD_EXIT_UNSETTLED);
}
