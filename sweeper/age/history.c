/*
 * Trims the history of a queue, if it keeps one: removes the entries that are older than done.max_age or
 * purge.max_done_age. A dry run of purge only names them. A turn handles as many pages as its budget allows.
 */
#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "common/queue/queue.h"

#define EVERY_MS 1000
#define EVERY_MOST_MS 10000
#define PAGE 100

extern const struct task history_task;

/* All times: CLOCK_MONOTONIC, in ms. */
struct history {
	int64_t trim_at_ms;		/* the next trim */
	/* entries removed because of purge.max_done_age since the last line in the log */
	int64_t gone;
	int64_t logged_ms;		/* when the sweeper logged `gone` last; 0: never */
	int64_t name_at_ms;		/* dry run: time of the next page */
	int64_t begun_ms;		/* dry run: begin of its round */
	char from[QUEUE_RECORD_ID_SIZE];	/* dry run: id of the next entry; "": the round begins */
};

static struct history *history_of(const struct sweeper_queue *q)
{
	return task_state(q, &history_task);
}

static bool is_purged(const struct sweeper *s, const struct sweeper_queue *q, bool dry_run)
{
	return s->conf->purge.enabled && s->conf->purge.dry_run == dry_run && purge_takes_done(q->conf);
}

static int64_t max_age(const struct sweeper *s, const struct sweeper_queue *q)
{
	if (is_purged(s, q, false))
		return q->conf->purge.max_done_age_ms;
	return q->conf->done.keep > 0 ? q->conf->done.max_age_ms : INT64_MAX;
}

static bool is_known(const struct sweeper *s, int64_t age_ms, int64_t *before_ms)
{
	struct age_clock clock;

	return server_clock_age(&s->clock, clock_boottime_ms(), &clock) && purge_oldest(age_ms, &clock, before_ms);
}

static int trim(struct sweeper *s, struct sweeper_queue *q, int64_t before_ms, int budget)
{
	int64_t n = PAGE;

	while (n == PAGE && budget-- > 0 && sweeper_goes_on(s)) {
		queue_history_trim(&s->redis, &q->keys, before_ms, PAGE);
		if (connection_integer(s, &n) == -1)
			return -1;
		if (!is_purged(s, q, false))
			continue;
		history_of(q)->gone += n;
		sweeper_queue_count(q, COUNT_PURGED_DONE, (uint64_t)n);
	}
	return n == PAGE;
}

/* Logs how many entries were removed, at most once an interval: trimming goes on all the time. */
static void log_removed(const struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct history *h = history_of(q);

	if (h->gone == 0 || (h->logged_ms != 0 && now_ms - h->logged_ms < s->conf->purge.interval_ms))
		return;
	log_info("history_purged", log_str("queue", q->keys.name), log_int("entries", h->gone),
	    log_int("limit_ms", q->conf->purge.max_done_age_ms));
	h->gone = 0;
	h->logged_ms = now_ms;
}

static enum task_end trim_turn(struct sweeper *s, struct sweeper_queue *q, int64_t age_ms, int budget, int64_t now_ms)
{
	int64_t before_ms, every = age_ms / 4 < EVERY_MS ? EVERY_MS : age_ms / 4 > EVERY_MOST_MS ? EVERY_MOST_MS
	    : age_ms / 4;
	int rc = is_known(s, age_ms, &before_ms) ? trim(s, q, before_ms, budget) : 0;

	history_of(q)->trim_at_ms = now_ms + (rc == 0 ? every : 0);
	if (rc == 0)
		log_removed(s, q, now_ms);
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

/* ---- a dry run ---- */

/* 1: there is more; 0: that was the last page; -1: error */
static int name_page(struct sweeper *s, struct sweeper_queue *q, int64_t before_ms)
{
	struct history *h = history_of(q);
	struct redis_reply reply;
	bool follow = true;

	queue_history_look(&s->redis, &q->keys, h->from[0] == '\0' ? "-" : h->from, before_ms, PAGE);
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return connection_unexpected(s);
	for (size_t i = 0; i + 1 < reply.n; i += 2) {
		struct redis_reply entry = redis_element(&reply, i), message = redis_element(&reply, i + 1);

		log_info("history_would_be_removed", log_str("queue", q->keys.name), log_str("entry", entry.str),
		    log_str("id", message.str), log_int("limit_ms", q->conf->purge.max_done_age_ms));
		follow = queue_record_id_next(entry.str, h->from);
	}
	sweeper_queue_count(q, COUNT_WOULD_PURGE, reply.n / 2);
	return follow && reply.n / 2 == PAGE;
}

/* A round an interval, from the oldest entry on. */
static enum task_end name_turn(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct history *h = history_of(q);
	int64_t before_ms;
	int rc = 1;

	if (h->from[0] == '\0')
		h->begun_ms = now_ms;
	if (!is_known(s, q->conf->purge.max_done_age_ms, &before_ms)) {
		h->name_at_ms = now_ms + EVERY_MS;
		return TASK_DONE;
	}
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(s))
		rc = name_page(s, q, before_ms);
	if (rc != 0)
		return rc == -1 ? TASK_FAILED : TASK_MORE;
	h->from[0] = '\0';
	h->name_at_ms = h->begun_ms + s->conf->purge.interval_ms;
	return TASK_DONE;
}

/* ---- the task ---- */

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return is_purged(s, q, true) || max_age(s, q) != INT64_MAX;
}

static enum task_end run_history(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	bool names = is_purged(s, q, true), trims = max_age(s, q) != INT64_MAX;
	enum task_end named = TASK_DONE, trimmed = TASK_DONE;
	const struct history *h = history_of(q);

	if (names && now_ms >= h->name_at_ms)
		named = name_turn(s, q, budget, now_ms);
	if (trims && named != TASK_FAILED && now_ms >= h->trim_at_ms)
		trimmed = trim_turn(s, q, max_age(s, q), budget, now_ms);
	task_wake_at(q, &history_task, !trims || (names && h->name_at_ms < h->trim_at_ms) ? h->name_at_ms
	    : h->trim_at_ms);
	return named > trimmed ? named : trimmed;
}

const struct task history_task = { .name = "history", .budget = 10, .leads = true, .configured = true,
	.wanted = is_wanted, .run_queue = run_history,
	.state_size = sizeof(struct history) };
