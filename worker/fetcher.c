/*
 * How many messages the worker fetches, into which tray, and how it ends a fetch that blocks; admission.c says when. A
 * fetch blocks only if the worker owns nothing; else it fetches into the next tray while the messages of the last one
 * run. If messages run in all trays, and the handler takes more, it fetches into one of these. Messages in a tray that
 * may not start now (quiet, paused, a stop) are handed back by starter.c.
 */
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define BLOCK_MAX_MS 2000
#define OOM_LOOK_MS 250		/* between looks at ingress while Redis is at maxmemory */
#define AHEAD_MS 20		/* between checks for more while messages are in flight */
#define PAUSED_US 500000
/* a shorter wait is not long: the sweeper has read the pause flag within the last second */
#define WAITED_LONG_US 250000
#define RECENT_US 1000000	/* the next message of such a queue may come soon; an idle one costs no command more */
/* A blocking fetch that is answered so soon after it was sent, or after the answer before it, did not wait for a
 * producer: from far away each answer takes a round trip. */
#define AT_ONCE_US 1000

/*
 * The sweeper reads the pause flag of a quiet queue only now and then, so a worker that waited long for a message reads
 * it itself: a message that was pushed after a pause must not run.
 */
static void ask_paused(struct worker *w, int64_t due_ms)
{
	queue_owner_paused(&w->session.redis, &w->session.owner);
	session_expect(w, ANSWER_PAUSED, -1, 0, due_ms);
	w->fetcher.asking_paused = true;
}

static void send_fetch(struct worker *w, int tray, int n, int64_t now_ms)
{
	int64_t block = admission_may_block(w, n) ? w->session.owner.lease_ms / 8 : 0;

	if (block > BLOCK_MAX_MS)
		block = BLOCK_MAX_MS;
	if (block > 0)
		throttle_rests(w);	/* before the fetch: Redis reads nothing after it */
	tray_ask(&w->trays, tray, n);
	if (now_ms < w->fetcher.oom_until_ms)
		for (int i = 0; i < n; i++)
			queue_fetch_oom(&w->session.redis, &w->session.owner, tray);
	else if (block > 0)
		queue_fetch(&w->session.redis, &w->session.owner, tray, block);
	else
		queue_fetch_batch(&w->session.redis, &w->session.owner, tray, n);
	for (int i = 0; i < n; i++)
		session_expect(w, ANSWER_FETCH, tray, 0, now_ms + block + REDIS_TIMEOUT_MS);
	w->fetcher.asked_us = w->now_us;
	/* Redis answers this right behind the message, so the message does not wait for another round trip. */
	if (block > 0 && w->fetcher.fetched_us != 0 && w->now_us - w->fetcher.fetched_us < RECENT_US)
		ask_paused(w, now_ms + block + REDIS_TIMEOUT_MS);
}

static void fetch_if_admitted(struct worker *w, int64_t now_ms)
{
	bool probe = breaker_until_ms(w->env->board) != 0;
	enum worker_hold hold = admission_look(w);
	/* 0: it may block without one, and asks when a message has come */
	int starts = throttle_fetches(w), n, tray;

	if (hold == WORKER_THROTTLED && tray_count(&w->trays, ITEM_WAITING) == 0)
		throttle_ask(w, admission_count(w), true, now_ms);
	if (hold == WORKER_THROTTLED)
		throttle_await(w, now_ms);
	if (hold != WORKER_ADMITTED || !breaker_may_fetch(w->env->board, now_ms))
		return;
	pacing_probes(&w->pacing, probe);
	if (probe)
		w->fetcher.probe_after = w->trays.messages;
	n = admission_count(w);
	if (n > starts && starts > 0)
		n = starts;
	if (n > throttle_seats(w))
		n = throttle_seats(w);
	tray = tray_some_empty(&w->trays) ? tray_find_empty(&w->trays) : tray_find_open(&w->trays, n);
	send_fetch(w, tray, n, now_ms);
}

void fetcher_init(struct worker *w)
{
	redis_init(&w->fetcher.unblock, &w->session.target, w->session.client_name);
}

void fetcher_free(struct worker *w)
{
	redis_close(&w->fetcher.unblock, NULL);
}

void fetcher_adopted(struct worker *w)
{
	pacing_retry_now(&w->pacing);	/* what another server refused, or this one before, it may accept now */
}

void fetcher_lost(struct worker *w)
{
	w->fetcher.asking_paused = false;
}

static void fetch_failed(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	if (redis_error_is(reply, "OOM")) {
		/* Redis still runs scripts at maxmemory, and messages that are done free memory. */
		if (now_ms >= w->fetcher.oom_until_ms)
			errors_report(w, "fetch", reply);
		w->fetcher.oom_until_ms = now_ms + 1000;
		return;
	}
	if (!w->session.owner.blmove && reply->type == REDIS_ERROR && queue_fetch_has_substitute(reply->str)) {
		queue_owner_use_blmove(&w->session.owner);
		return;
	}
	/* Ends the blocked fetch: the worker itself at a stop, or a change of the server's role */
	if (redis_error_is(reply, "UNBLOCKED") && !admission_lets_work(w))
		return;
	errors_report(w, "fetch", reply);
	if (w->pacing.retry.errors > 0 && now_ms < w->pacing.retry.at_ms)
		/* another answer to the same fetch: several answers are one error, so one step of the back-off */
		return;
	pacing_retry_failed(&w->pacing, now_ms);
}

void fetcher_paused_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	(void)of, (void)now_ms;
	w->fetcher.asking_paused = false;
	w->fetcher.paused_until_us = reply->type == REDIS_INTEGER && reply->integer > 0 ? w->now_us + PAUSED_US : 0;
}

/* No message came for as long as a fetch blocks: returns memory to the kernel. A busy worker would need it again at
 * once. */
static void free_memory(struct worker *w)
{
	if (w->fetcher.memory_freed)
		return;
	w->fetcher.memory_freed = true;
	tray_free_memory(&w->trays);
	redis_free_memory(&w->session.redis);	/* the scripts went through it */
	alloc_release();
}

/* Every request of this fetch is answered. */
static void complete_fetch(struct worker *w, int tray, int64_t now_ms)
{
	struct tray *t = &w->trays.tray[tray];
	/* a fetch for starts that were given does not block: the messages were there */
	bool given = throttle_fetches(w) > 0 && throttle_fetches(w) < INT_MAX,
	    at_once = given || w->now_us - w->fetcher.asked_us < AT_ONCE_US ||
	    w->now_us - w->session.answered_us < AT_ONCE_US,
	    waited_long = w->now_us - w->fetcher.fetched_us >= WAITED_LONG_US;
	int asked = t->asked, arrived = t->arrived;

	w->fetcher.busy = at_once && arrived > 0;
	pacing_full(&w->pacing, arrived == asked && (asked > 1 || at_once || w->pacing.batch > 1));
	if (arrived < asked && !tray_none_in_flight(&w->trays))
		pacing_pause_ahead(&w->pacing, now_ms + AHEAD_MS);
	if (arrived == 0 && now_ms < w->fetcher.oom_until_ms)
		pacing_not_before(&w->pacing, now_ms + OOM_LOOK_MS);
	else if (arrived > 0 && now_ms < w->fetcher.oom_until_ms)
		w->fetcher.oom_until_ms = now_ms + 1000;
	if (arrived > 0 && !w->fetcher.asking_paused && (waited_long || w->fetcher.paused_until_us != 0))
		ask_paused(w, now_ms + REDIS_TIMEOUT_MS);
	if (arrived > 0) {
		w->fetcher.fetched_us = w->now_us;
		w->fetcher.memory_freed = false;
	}
	tray_filled(&w->trays, tray);		/* empties it if nothing came */
	tray_close(&w->trays, tray);		/* what it had before may have ended meanwhile */
	if (!at_once && tray_all_empty(&w->trays))
		free_memory(w);
}

void fetcher_received(struct worker *w, struct item *item)
{
	item->received_us = w->now_us;
	env_count(w->env, COUNT_FETCHED, 1);
	pacing_learn_size(&w->pacing, item->len);
}

void fetcher_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	int tray = of.tray;

	if (reply->type == REDIS_STRING) {
		fetcher_received(w, tray_add_reply(&w->trays, tray, &w->session.redis, reply));
	} else if (reply->type != REDIS_NIL) {
		fetch_failed(w, reply, now_ms);
	}
	if (reply->type == REDIS_STRING || (reply->type == REDIS_NIL && now_ms >= w->fetcher.oom_until_ms)) {
		pacing_retry_succeeded(&w->pacing);
		if (w->mover.retry.errors == 0)
			errors_clear(w);
	}
	if (tray_answered(&w->trays, tray))
		complete_fetch(w, tray, now_ms);
}

/* A blocked fetch is ended from a second connection, so that the first one's answer is still read. The id of a client
 * counts only on its own server. */
static void unblock_start(struct worker *w, int64_t now_ms)
{
	w->fetcher.unblocking = UNBLOCK_DONE;
	if (w->session.redis.client_id == 0 || redis_open_beside(&w->fetcher.unblock, &w->session.redis, now_ms) == -1)
		return;		/* the worker then waits until the fetch stops blocking */
	w->fetcher.unblocking = UNBLOCK_OPENING;
}

/*
 * Redis 7.0 aborts at a CLIENT UNBLOCK of a client that CLIENT PAUSE holds up, as FAILOVER and some upgrades do. So a
 * write precedes it: Redis holds that up, too, and with it all that follows on its connection.
 */
static void send_unblock(struct worker *w, int64_t now_ms)
{
	char *nobody = queue_lease_key(&w->env->keys, NULL);

	redis_appendf(&w->fetcher.unblock, "DEL %s", nobody);
	redis_appendf(&w->fetcher.unblock, "CLIENT UNBLOCK %d", w->session.redis.client_id);
	redis_expect_by(&w->fetcher.unblock, now_ms + REDIS_TIMEOUT_MS);
	free(nobody);
	w->fetcher.unblocking = UNBLOCK_SENT;
	redis_pump(&w->fetcher.unblock, now_ms);
}

/* True: Redis has answered, or the connection is lost. */
static bool has_unblocked(struct redis *r)
{
	struct redis_reply reply;
	int taken;

	do {
		taken = redis_take(r, &reply);
	} while (taken == 1 && r->pending > 0);
	return taken != 0;
}

static void unblock_fetch(struct worker *w, int64_t now_ms)
{
	if ((!tray_fetching(&w->trays) && !throttle_blocks(w)) || admission_lets_work(w)) {
		if (w->fetcher.unblocking != UNBLOCK_IDLE)
			redis_close(&w->fetcher.unblock, NULL);
		w->fetcher.unblocking = UNBLOCK_IDLE;
		return;
	}
	if (w->fetcher.unblocking == UNBLOCK_IDLE)
		unblock_start(w, now_ms);
	if (w->fetcher.unblocking == UNBLOCK_DONE)
		return;
	if (redis_pump(&w->fetcher.unblock, now_ms) == -1) {
		w->fetcher.unblocking = UNBLOCK_DONE;
		return;
	}
	if (w->fetcher.unblocking == UNBLOCK_OPENING && w->fetcher.unblock.state == REDIS_READY)
		send_unblock(w, now_ms);
	if (w->fetcher.unblocking == UNBLOCK_SENT && has_unblocked(&w->fetcher.unblock)) {
		redis_close(&w->fetcher.unblock, NULL);
		w->fetcher.unblocking = UNBLOCK_DONE;
	}
}

/* As after a fetch that brought nothing: the next one blocks, or looks again soon while messages are in flight. */
static void found_none(struct worker *w, int64_t now_ms)
{
	w->fetcher.busy = false;
	pacing_full(&w->pacing, false);
	if (!tray_none_in_flight(&w->trays))
		pacing_pause_ahead(&w->pacing, now_ms + AHEAD_MS);
}

void fetcher_tick(struct worker *w, int64_t now_ms)
{
	if (throttle_found_none(w))
		found_none(w, now_ms);
	fetch_if_admitted(w, now_ms);
	unblock_fetch(w, now_ms);
}
