/*
 * Asking for messages: when, into which tray, and how to stop waiting for one. What lies in a tray
 * and is not wanted now (quiet, paused, a stop) is settled by settle.c as a hand-back.
 */
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

bool fetch_outstanding(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays[i].state == TRAY_FETCHING)
			return true;
	return false;
}

/* A message in hand, or a move that has not gone out: nothing more is fetched meanwhile. */
static bool hands_full(const struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		const struct tray *t = &w->trays[i];

		if (t->state != TRAY_EMPTY && !(t->state == TRAY_SETTLING && t->sent && w->settle_errors == 0))
			return true;
	}
	return false;
}

/* In rotation: a tray is used again only when its last answer has come. */
static int free_tray(struct worker *w)
{
	for (int n = 0; n < QUEUE_TRAYS; n++) {
		int i = (w->next_tray + n) % QUEUE_TRAYS;

		if (w->trays[i].state == TRAY_EMPTY) {
			w->next_tray = (i + 1) % QUEUE_TRAYS;
			return i;
		}
	}
	return -1;
}

static int64_t block_ms(const struct worker *w, int64_t now_ms)
{
	int64_t block = w->owner.lease_ms / 8;

	if (now_ms < w->oom_until_ms || breaker_until_ms(w->board) != 0)
		return 0;	/* one look: a probe must not sit waiting */
	return block < BLOCK_MAX_MS ? block : BLOCK_MAX_MS;
}

void fetch_tick(struct worker *w, int64_t now_ms)
{
	int64_t block;
	int tray;

	if (!worker_may_work(w) || !session_usable(w) || now_ms < w->fetch_at_ms || hands_full(w))
		return;
	if (!breaker_may_fetch(w->board, now_ms) || (tray = free_tray(w)) == -1)
		return;
	block = block_ms(w, now_ms);
	if (now_ms < w->oom_until_ms)
		queue_fetch_oom(&w->redis, &w->owner, tray);
	else
		queue_fetch(&w->redis, &w->owner, tray, block);
	w->trays[tray].state = TRAY_FETCHING;
	session_expect(w, ANSWER_FETCH, tray, now_ms + block + REDIS_TIMEOUT_MS);
}

void fetch_hold(struct worker *w, int tray, const char *raw, size_t len)
{
	struct tray *t = &w->trays[tray];

	buffer_clear(&t->raw);
	buffer_append(&t->raw, raw, len);
	message_parse(&t->message, t->raw.data, t->raw.len);
	t->state = TRAY_HELD;
	t->lost = t->sent = false;
	atomic_fetch_add(&w->slot->counters[COUNT_FETCHED], 1);
	if (t->message.wrapper.redelivered > 0)
		atomic_fetch_add(&w->slot->counters[COUNT_REDELIVERED], 1);
}

static void fetch_failed(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	if (redis_error_is(reply, "OOM") && now_ms >= w->oom_until_ms) {
		/* Scripts still run at maxmemory, and what they fetch frees memory in the end. */
		w->oom_until_ms = now_ms + 1000;
		session_trouble(w, "fetch", reply);
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
	w->fetch_errors++;
	w->fetch_at_ms = now_ms + backoff_ms(ERROR_BASE_MS, 2, ERROR_CAP_MS, 0.5, w->fetch_errors, arc4random());
}

void fetch_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms)
{
	struct tray *t = &w->trays[tray];

	t->state = TRAY_EMPTY;
	if (reply->type == REDIS_STRING) {
		fetch_hold(w, tray, reply->str, reply->len);
		if (now_ms < w->oom_until_ms)
			w->oom_until_ms = now_ms + 1000;
	} else if (reply->type != REDIS_NIL) {
		fetch_failed(w, reply, now_ms);
		return;
	} else if (now_ms < w->oom_until_ms) {
		w->fetch_at_ms = now_ms + OOM_LOOK_MS;
		return;
	}
	w->fetch_errors = 0;
	if (w->settle_errors == 0)
		session_fair(w);
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

	if (!fetch_outstanding(w) || worker_may_work(w)) {
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

	if (fetch_outstanding(w) || hands_full(w) || !session_usable(w))
		return INT64_MAX;
	if (breaker_until_ms(w->board) > at)
		at = breaker_until_ms(w->board);
	if (!worker_may_work(w) && at < now_ms + 100)	/* a gate opens without a signal */
		at = now_ms + 100;
	return at;
}
