/*
 * Asking for messages: when, how many, into which tray, and how to stop waiting for one. Blocking only
 * with empty hands; else the next tray is asked for while the last one is worked on. What lies in a
 * tray and is not wanted now (quiet, paused, a stop) is handed back by run.c.
 */
#include <malloc.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>

#include "worker/worker.h"

#include "common/backoff.h"

#define BLOCK_MAX_MS 2000
#define OOM_LOOK_MS 250		/* between looks at ingress while Redis is at maxmemory */
#define ERROR_BASE_MS 100
#define ERROR_CAP_MS 30000
#define LOOK_AGAIN_MS 10
#define AHEAD_MS 20		/* between looks for more while messages are in hand */
#define PAUSED_US 500000
#define WAITED_LONG_US 250000	/* less, and the sweeper has looked within the last second */
#define AT_ONCE_US 1000		/* a blocking fetch answered so soon did not have to wait for a producer */

/* A move that Redis refused, one that is not sent, or one that waits for its message to be alone: nothing is fetched meanwhile. */
static bool held_up(const struct worker *w)
{
	if (w->move_errors > 0 || w->solo_running || move_hand_back_waits(w))
		return true;
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		const struct tray *t = &w->trays[i];

		if (t->state == TRAY_FETCHING || (t->state == TRAY_DELETING && !t->sent) || t->solos > 0 || t->notes != NOTES_KNOWN)
			return true;
	}
	return false;
}

static bool empty_hands(const struct worker *w)
{
	return tray_count(w, ITEM_WAITING) + tray_count(w, ITEM_RUNNING) == 0;
}

/*
 * With a message in hand the next ones are asked for only if they will be wanted soon, or if the handler takes
 * them at once: a window is filled however long a message takes.
 */
static int wanted(const struct worker *w)
{
	int n = batch_size(w), waiting = tray_count(w, ITEM_WAITING), room = w->runner->room(w) - waiting;

	if (empty_hands(w))
		return n;
	if (n > 1 && waiting < n && !run_is_slow(w))
		return n;
	return room < w->batch ? room : w->batch;
}

/* Redis reads nothing from a connection that waits in a blocking fetch: moves and acknowledgements still to be sent would wait, too. */
static bool may_block(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_FILLED)
			return false;
	return true;
}

static int64_t block_ms(const struct worker *w, int64_t now_ms)
{
	int64_t block = w->owner.lease_ms / 8;

	if (now_ms < w->oom_until_ms || breaker_until_ms(w->board) != 0)
		return 0;	/* one look: a probe must not sit waiting */
	return block < BLOCK_MAX_MS ? block : BLOCK_MAX_MS;
}

static void ask(struct worker *w, int tray, int n, int64_t now_ms)
{
	int64_t block = n == 1 && may_block(w) ? block_ms(w, now_ms) : 0;
	struct tray *t = &w->trays[tray];

	t->state = TRAY_FETCHING;
	t->asked = n;
	if (now_ms < w->oom_until_ms)
		for (int i = 0; i < n; i++)
			queue_fetch_oom(&w->redis, &w->owner, tray);
	else if (block > 0)
		queue_fetch(&w->redis, &w->owner, tray, block);
	else
		queue_fetch_batch(&w->redis, &w->owner, tray, n);
	for (int i = 0; i < n; i++)
		session_expect(w, ANSWER_FETCH, tray, 0, now_ms + block + REDIS_TIMEOUT_MS);
	w->asked_us = w->now_us;
}

void fetch_tick(struct worker *w, int64_t now_ms)
{
	int n, tray;

	if (!worker_may_work(w) || !session_usable(w) || now_ms < w->fetch_at_ms || held_up(w))
		return;
	n = wanted(w);
	if (n <= 0 || (now_ms < w->ahead_at_ms && !empty_hands(w)) || (w->probing && !tray_all_empty(w)))
		return;
	w->probing = breaker_until_ms(w->board) != 0;
	if (!breaker_may_fetch(w->board, now_ms) || (tray = tray_free(w)) == -1)
		return;
	ask(w, tray, n, now_ms);
}

static void fetch_failed(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	if (redis_error_is(reply, "OOM")) {
		/* Scripts still run at maxmemory, and what they fetch frees memory in the end. */
		if (now_ms >= w->oom_until_ms)
			session_trouble(w, "fetch", reply);
		w->oom_until_ms = now_ms + 1000;
		return;
	}
	if (!w->owner.blmove && reply->type == REDIS_ERROR && strstr(reply->str, "unknown command") != NULL) {
		w->owner.blmove = true;
		return;
	}
	/* What ends our own waiting at a stop, or a change of the server's role */
	if (redis_error_is(reply, "UNBLOCKED") && !worker_may_work(w))
		return;
	session_trouble(w, "fetch", reply);
	if (w->fetch_errors > 0 && now_ms < w->fetch_at_ms)
		return;		/* another answer to the same asking: one trouble, one step of the back-off */
	w->fetch_errors++;
	w->fetch_at_ms = now_ms + backoff_ms(ERROR_BASE_MS, 2, ERROR_CAP_MS, 0.5, w->fetch_errors, arc4random());
}

/*
 * The sweeper looks at a quiet queue only now and then, so one who waited long asks for himself: a message
 * that was pushed after a pause does not run.
 */
static void ask_paused(struct worker *w, int64_t now_ms)
{
	queue_paused(&w->redis, &w->keys);
	session_expect(w, ANSWER_PAUSED, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	w->asking_paused = true;
}

void fetch_paused_answer(struct worker *w, const struct redis_reply *reply)
{
	w->asking_paused = false;
	w->paused_until_us = reply->type == REDIS_INTEGER && reply->integer == 1 ? w->now_us + PAUSED_US : 0;
}

/* No message came for as long as a fetch blocks. What messages needed goes back to the kernel; a busy worker needs it again at once. */
static void free_memory(struct worker *w)
{
	if (w->memory_freed)
		return;
	w->memory_freed = true;
	tray_free_memory(w);
	malloc_trim(0);
}

/* All that was asked for is answered. */
static void complete(struct worker *w, int tray, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];
	bool at_once = w->now_us - w->asked_us < AT_ONCE_US, waited_long = w->now_us - w->fetched_us >= WAITED_LONG_US;
	int asked = t->asked;

	batch_full(w, t->n == asked && (asked > 1 || at_once || w->batch > 1));
	if (t->n < asked && !empty_hands(w))
		w->ahead_at_ms = now_ms + AHEAD_MS;
	if (t->n == 0 && now_ms < w->oom_until_ms)
		w->fetch_at_ms = now_ms + OOM_LOOK_MS;
	else if (t->n > 0 && now_ms < w->oom_until_ms)
		w->oom_until_ms = now_ms + 1000;
	if (t->n > 0 && (waited_long || w->paused_until_us != 0))
		ask_paused(w, now_ms);
	if (t->n > 0) {
		w->fetched_us = w->now_us;
		w->memory_freed = false;
	}
	tray_filled(w, tray);		/* empties it if nothing came */
	if (!at_once && tray_all_empty(w))
		free_memory(w);
}

void fetch_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	if (reply->type == REDIS_STRING)
		tray_add_reply(w, tray, reply);
	else if (reply->type != REDIS_NIL)
		fetch_failed(w, reply, now_ms);
	if (reply->type == REDIS_STRING || (reply->type == REDIS_NIL && now_ms >= w->oom_until_ms)) {
		w->fetch_errors = 0;
		if (w->move_errors == 0)
			session_fair(w);
	}
	if (++t->answered == t->asked)
		complete(w, tray, now_ms);
}

/* A blocked fetch is ended from a second connection, so that the first one's answer is still read. */
static void unblock_start(struct worker *w, int64_t now_ms)
{
	w->unblocking = UNBLOCK_DONE;
	if (w->redis.client_id == 0 || redis_open(&w->unblock, now_ms) == -1)
		return;		/* then it waits for the end of the block */
	w->unblocking = UNBLOCK_OPENING;
}

void fetch_unblock_io(struct worker *w, int64_t now_ms)
{
	struct redis_reply reply;

	if (!tray_fetching(w) || worker_may_work(w)) {
		if (w->unblocking != UNBLOCK_IDLE)
			redis_close(&w->unblock, NULL);
		w->unblocking = UNBLOCK_IDLE;
		return;
	}
	if (w->unblocking == UNBLOCK_IDLE)
		unblock_start(w, now_ms);
	if (w->unblocking == UNBLOCK_DONE)
		return;
	if (redis_pump(&w->unblock, now_ms) == -1) {
		w->unblocking = UNBLOCK_DONE;
		return;
	}
	if (w->unblocking == UNBLOCK_OPENING && w->unblock.state == REDIS_READY) {
		redis_appendf(&w->unblock, "CLIENT UNBLOCK %d", w->redis.client_id);
		redis_expect_by(&w->unblock, now_ms + REDIS_TIMEOUT_MS);
		w->unblocking = UNBLOCK_SENT;
		redis_pump(&w->unblock, now_ms);
	}
	if (w->unblocking == UNBLOCK_SENT && redis_take(&w->unblock, &reply) != 0) {
		redis_close(&w->unblock, NULL);
		w->unblocking = UNBLOCK_DONE;
	}
}

int64_t fetch_deadline_ms(const struct worker *w, int64_t now_ms)
{
	int64_t at = w->fetch_at_ms;

	if (!session_usable(w) || held_up(w) || wanted(w) <= 0)
		return INT64_MAX;
	if (!empty_hands(w) && w->ahead_at_ms > at)
		at = w->ahead_at_ms;
	if (breaker_until_ms(w->board) > at)
		at = breaker_until_ms(w->board);
	if (!worker_may_work(w) && at < now_ms + 100)	/* a gate opens without a signal */
		at = now_ms + 100;
	/* Due already: this turn has tried, and no tray was free, say. An event will tell; but no wait without an end. */
	return at > now_ms ? at : now_ms + LOOK_AGAIN_MS;
}
