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
/* for a handler that waited for the worker: until its output is read, and it has answered */
#define CATCH_UP_MS 500
#define MAPPED_MIN (1024 * 1024)	/* bytes; memory for a larger message is mapped */
/* free bytes that the end of the heap keeps: buffers of two messages that are not mapped */
#define HEAP_FREE_MAX (4 * 1024 * 1024)

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

/* ---- the components ---- */

static void init_session(struct worker *w);

static void init_trays(struct worker *w)
{
	tray_init(&w->trays, &w->env->keys);
}

static void free_trays(struct worker *w)
{
	tray_free_all(&w->trays);
}

static void init_pacing(struct worker *w)
{
	pacing_init(&w->pacing, w->env->conf);
}

static void init_runner(struct worker *w)
{
	w->starter.runner = w->env->conf->mode == CONF_MODE_PERSISTENT ? &runner_persistent : &runner_exec;
	w->starter.runner->init(w);
}

static void free_runner(struct worker *w)
{
	w->starter.runner->free(w);
}

/*
 * In this order they work in a turn: messages whose handlers have ended are settled, messages start from the trays, and
 * then more are requested, so that the acknowledgement of one message and the request for the next leave in one write.
 */
static const struct component components[] = {
	{ "tray", .init = init_trays, .free = free_trays },
	{ "pacing", .init = init_pacing },
	{ "session", .init = init_session, .tick = session_tick, .deadline_ms = session_deadline_ms,
	    .free = session_free },
	{ "evidence", .init = evidence_init, .tick = evidence_tick, .named = evidence_lost, .lost = evidence_lost,
	  .deadline_ms = evidence_deadline_ms },
	{ "notes", .tick = notes_tick, .lost = notes_lost, .deadline_ms = notes_deadline_ms },
	{ "cancel", .init = cancel_init, .tick = cancel_tick, .lost = cancel_lost, .deadline_ms = cancel_deadline_ms,
	    .free = cancel_free },
	{ "throttle", .init = throttle_init, .tick = throttle_tick, .adopted = throttle_adopted, .lost = throttle_lost,
	    .deadline_ms = throttle_deadline_ms },
	{ "expiry", .lost = expiry_lost },
	{ "starter", .init = init_runner, .tick = starter_tick, .deadline_ms = starter_deadline_ms,
	    .free = free_runner },
	{ "fence", .init = fence_init, .tick = fence_tick, .free = fence_free },
	{ "mover", .tick = mover_tick, .adopted = mover_retry_now, .deadline_ms = mover_deadline_ms,
	    .free = mover_free },
	{ "undeliverable", .adopted = undeliverable_adopted, .lost = undeliverable_lost, .free = undeliverable_free },
	{ "too_large", .init = too_large_init, .named = too_large_named, .confirmed = too_large_confirmed,
	  .refuses_arriving = too_large_arriving },
	{ "fetcher", .init = fetcher_init, .tick = fetcher_tick, .adopted = fetcher_adopted, .lost = fetcher_lost,
	    .free = fetcher_free },
	{ "admission", .deadline_ms = admission_deadline_ms },
	{ "exit", .tick = exit_leave, .lost = exit_lost, .deadline_ms = exit_deadline_ms },
};

static answer_taker *const takers[ANSWERS] = {
	[ANSWER_SERVER] = session_server_answer,
	[ANSWER_RENEW] = session_renew_answer,
	[ANSWER_LEASE] = session_lease_answer,
	[ANSWER_COUNTS] = session_counts_answer,
	[ANSWER_TOO_LARGE] = too_large_answer,
	[ANSWER_ADOPT] = adopt_answer,
	[ANSWER_UNDELIVERABLE] = undeliverable_answer,
	[ANSWER_FETCH] = fetcher_answer,
	[ANSWER_PAUSED] = fetcher_paused_answer,
	[ANSWER_THROTTLE] = throttle_answer,
	[ANSWER_SEATS] = seats_answer,
	[ANSWER_SEAT_FREE] = seats_woken,
	[ANSWER_NOTES] = notes_answer,
	[ANSWER_SECRET] = notes_secret_answer,
	[ANSWER_EVIDENCE] = evidence_answer,
	[ANSWER_TIME] = expiry_time_answer,
	[ANSWER_CANCELS] = cancel_answer,
	[ANSWER_MOVE] = mover_answer,
	[ANSWER_DELETE] = mover_delete_answer,
	[ANSWER_DEREGISTER] = exit_answer,
};

_Static_assert(nitems(components) <= 16, "a longer walk would stay rolled, and nothing would tell");

const struct components worker_components = { components, nitems(components), takers };

static void init_session(struct worker *w)
{
	session_init(w, &worker_components);
}

/* ---- the loop ---- */

static int64_t next_deadline_ms(struct worker *w, int64_t now_ms)
{
	int64_t at = now_ms + LOOK_MS;

	/* Every turn pays for this walk. The compiler unrolls it, and drops what a component does not have. */
#pragma GCC unroll 16
	for (size_t i = 0; i < nitems(components); i++) {
		int64_t own = components[i].deadline_ms == NULL ? INT64_MAX : components[i].deadline_ms(w, now_ms);

		if (own < at)
			at = own;
	}
	return at;
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
	fence_show_abandoned(w);
#pragma GCC unroll 16	/* as in next_deadline_ms() */
	for (size_t i = 0; i < nitems(components); i++)
		if (components[i].tick != NULL)
			components[i].tick(w, now_ms);
	w->starter.runner->flush(w);
	session_flush(w, now_ms);	/* all requests of this turn leave in one write */
	admission_show(w);
	atomic_store(&w->env->slot->heartbeat_ms, w->now_us / 1000);
}

/*
 * The process or the whole machine stood still. Meanwhile handlers could not be heard, and may have waited until the
 * worker reads their output. So that time counts for none of their deadlines, and the worker reads before it judges
 * them. Leases and fences go on: other hosts did not stand still.
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
	 * Map large messages, so that free() returns their memory: by default glibc raises the threshold and keeps them
	 * on its heap. A mapping costs a page fault for each page, which makes a message of 400 kB twice as expensive,
	 * so smaller ones use the heap, and fetcher.c returns what the heap has kept when no message comes.
	 */
	alloc_set_thresholds(MAPPED_MIN, HEAP_FREE_MAX);
	w->env = env;
	log_bind(env->conf->name, env->name);
	for (size_t i = 0; i < nitems(components); i++)
		if (components[i].init != NULL)
			components[i].init(w);
}

static void worker_free(struct worker *w)
{
	for (size_t i = nitems(components); i > 0; i--)
		if (components[i - 1].free != NULL)
			components[i - 1].free(w);
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
