/*
 * The worker process: one loop around one poll. Each turn looks at the order, keeps the connection,
 * settles what has ended, starts what is held, and asks for more: in that order, so that the
 * acknowledgement of one message and the request for the next leave in one write.
 */
#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker/worker.h"

#include "common/alloc.h"
#include "common/clock.h"

#define LOOK_MS 5000		/* the longest sleep: heartbeats go on */
#define MAPPED_MIN (1024 * 1024)	/* bytes; memory for a larger message is mapped */
#define HEAP_FREE_MAX (4 * 1024 * 1024)	/* free bytes that the end of the heap keeps: buffers of two messages that are not mapped */
#define GIVE_UP_MS 1500		/* what Redis is given at a fast stop once nothing runs */
#define EMPTY_HANDED_MS 3000	/* the same at a drain, if no message is known to be in hand; longer than a fetch blocks */

/* They only end the poll. */
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

bool worker_may_work(const struct worker *w)
{
	return w->order == ORDER_RUN && atomic_load(&w->board->gate) == QUEUE_OPEN && w->now_us >= w->paused_until_us;
}

/* ---- orders ---- */

static void look_at_order(struct worker *w, int64_t now_ms)
{
	enum order order = w->master_gone ? ORDER_HAND_BACK : (enum order)atomic_load(&w->child->board->orders[w->child->slot]);

	if (order == ORDER_HAND_BACK && w->order != ORDER_HAND_BACK)
		w->move_at_ms = 0;	/* the last chance is now */
	w->order = order;
	if (order == ORDER_HAND_BACK)
		w->runner->stop(w, now_ms);
}

/* Nothing is known to be ours: at most a fetch is in doubt. */
static bool empty_handed(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_DELETING || w->trays[i].count[ITEM_GONE] != w->trays[i].n)
			return false;
	return true;
}

/* Redis may be away for longer than we may stay: then what is unsettled waits in its tray for the next start. */
static bool gives_up(struct worker *w, int64_t now_ms)
{
	bool hand_back = w->order == ORDER_HAND_BACK;
	int64_t at = now_ms + (hand_back ? GIVE_UP_MS : EMPTY_HANDED_MS);

	if (w->order < ORDER_FINISH || !(hand_back || empty_handed(w)) || !w->runner->dismiss(w, now_ms)) {
		w->give_up_at_ms = 0;
		return false;
	}
	if (w->give_up_at_ms == 0 || at < w->give_up_at_ms)
		w->give_up_at_ms = at;
	return now_ms >= w->give_up_at_ms;
}

static void leave(struct worker *w, int64_t now_ms)
{
	if (w->order < ORDER_FINISH || !tray_all_empty(w) || w->leaving || w->left || !w->runner->dismiss(w, now_ms))
		return;
	if (w->owner.keys == NULL || (w->refused && !w->confirmed && w->previous.keys == NULL)) {
		w->left = w->clean = true;	/* it never owned anything */
	} else if (w->redis.state == REDIS_READY && w->registered) {
		queue_deregister(&w->redis, &w->owner);
		session_expect(w, ANSWER_DEREGISTER, -1, 0, now_ms + REDIS_TIMEOUT_MS);
		w->leaving = true;
	}
}

/* ---- the loop ---- */

static enum slot_state shown_state(const struct worker *w)
{
	if (w->order >= ORDER_FINISH)
		return SLOT_STOPPING;
	if (tray_count(w, ITEM_RUNNING) > 0)
		return SLOT_RUNNING;
	if (w->redis.state != REDIS_READY || !w->registered)
		return SLOT_CONNECTING;
	if (!worker_may_work(w) || breaker_until_ms(w->board) != 0)
		return SLOT_WAITING;
	return tray_fetching(w) ? SLOT_IDLE : SLOT_SETTLING;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static int64_t next_deadline_ms(struct worker *w, int64_t now_ms)
{
	int64_t at = now_ms + LOOK_MS;

	at = least(at, session_deadline_ms(w));
	at = least(at, run_deadline_ms(w, now_ms));
	at = least(at, move_deadline_ms(w, now_ms));
	at = least(at, fetch_deadline_ms(w, now_ms));
	at = least(at, notes_deadline_ms(w, now_ms));
	at = least(at, evidence_deadline_ms(w, now_ms));
	if (w->order >= ORDER_FINISH)
		at = least(at, now_ms + 100);
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
	if (!w->master_gone)
		p->fds[p->n++] = (struct pollfd){ .fd = w->child->master_fd, .events = POLLIN };
	p->redis = p->n;
	if (redis_pollfd(&w->redis, &p->fds[p->n]))
		p->n++;
	if (redis_pollfd(&w->unblock, &p->fds[p->n]))
		p->n++;
	if (fence_pollfd(w, &p->fds[p->n]))
		p->n++;
	p->runner = p->n;
	p->n += w->runner->pollfds(w, &p->fds[p->n]);
}

static void wait_for_events(struct worker *w, const sigset_t *mask, int64_t now_ms)
{
	int64_t left = next_deadline_ms(w, now_ms) - now_ms;
	struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	struct polled p;
	int n;

	if (left <= 0)
		ts = (struct timespec){0};
	collect(w, &p);
	n = ppoll(p.fds, p.n, &ts, mask);
	if (n == -1)
		clock_poll_failed();
	if (n <= 0) {
		w->runner->io(w, NULL, 0, now_ms);
		return;
	}
	if (!w->master_gone && (p.fds[0].revents & (POLLIN | POLLHUP | POLLERR)) != 0)
		w->master_gone = true;		/* it never writes: this is the end of it */
	w->readable = w->redis.state != REDIS_CLOSED && p.fds[p.redis].revents != 0;
	w->runner->io(w, &p.fds[p.runner], p.n - p.runner, clock_monotonic_ms());
}

static void turn(struct worker *w, int64_t now_ms)
{
	look_at_order(w, now_ms);
	session_io(w, now_ms);	/* answers */
	w->runner->end(w, now_ms);
	session_tick(w, now_ms);
	evidence_tick(w, now_ms);
	notes_tick(w, now_ms);
	run_tick(w, now_ms);
	fence_tick(w, now_ms);
	move_tick(w, now_ms);
	fetch_tick(w, now_ms);
	fetch_unblock_io(w, now_ms);
	w->runner->flush(w);
	leave(w, now_ms);
	session_flush(w, now_ms);	/* all of it leaves in one write */
	slot_set_state(w->slot, shown_state(w));
	atomic_store(&w->slot->heartbeat_ms, now_ms);
}

static void follow_log(struct worker *w)
{
	uint32_t epoch = atomic_load(&w->child->board->log_epoch);

	if (epoch != w->log_epoch)
		log_reopen();
	w->log_epoch = epoch;
}

static void worker_init(struct worker *w, const struct child *child)
{
	/*
	 * Map large messages, so that free() returns their memory: by default glibc raises the threshold and keeps them on its heap. A
	 * mapping costs a page fault for each page, which makes a message of 400 kB twice as expensive, so smaller ones use the
	 * heap, and fetch.c returns what the heap has kept when no message comes.
	 */
	mallopt(M_MMAP_THRESHOLD, MAPPED_MIN);
	mallopt(M_TRIM_THRESHOLD, HEAP_FREE_MAX);
	w->child = child;
	w->conf = child->queue;
	w->slot = &child->board->slots[child->slot];
	w->board = &child->board->queues[child->queue_index];
	w->message_us = -1;
	w->batch = 1;
	w->trial.tray = -1;
	w->too_large_tray = -1;
	w->log_epoch = atomic_load(&child->board->log_epoch);
	snprintf(w->name, sizeof(w->name), "%s/%d", w->conf->name, child->index);
	queue_keys_from_conf(&w->keys, w->conf);
	session_init(w);
	fence_init(w);
	run_init(w);
}

_Noreturn void worker_run(const struct child *child)
{
	struct worker *w = alloc_zero(1, sizeof(*w));
	sigset_t while_polling;

	worker_init(w, child);
	catch_signals(&while_polling);
	while (!w->left) {
		int64_t now_ms;

		w->now_us = clock_monotonic_us();
		now_ms = w->now_us / 1000;
		follow_log(w);
		turn(w, now_ms);
		if (w->left || gives_up(w, now_ms))
			break;
		if (!w->runner->go_on(w))
			wait_for_events(w, &while_polling, now_ms);
	}
	slot_set_state(w->slot, SLOT_STOPPING);
	w->runner->free(w);
	fence_free(w);
	tray_free_all(w);
	session_free(w);
	exit(w->clean ? CHILD_EXIT_DONE : CHILD_EXIT_UNSETTLED);
}
