/*
 * Purge: once an interval, moves messages that wait or exist for longer than the configuration allows to escape; a dry run only logs
 * them. This file decides when a queue's round begins and ends. purge_scan.c walks through the lists, purge_move.c moves the
 * messages, purge_check.c runs the command that may object.
 */
#include "sweeper/age/purge.h"

#include "common/base/base.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"

#define CHECK_LOOK_MS 20
#define ORPHANS_LOOK_MS 50

static void end_round(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct purge *p = purge_of(q);
	const char *event = s->conf->purge.dry_run ? "purge_dry_run" : "purge_done";
	/* a dry run logs its result even if it found nothing; a live round that moved nothing is logged at level debug */
	bool news = s->conf->purge.dry_run || p->purged > 0 || p->spared > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, event, log_str("queue", q->keys.name), log_int("messages", (int64_t)p->purged), log_int("spared", (int64_t)p->spared),
	    log_int("oldest_ms", p->oldest_ms), log_int("duration_ms", now_ms - p->begun_ms));
	p->phase = PURGE_IDLE;
	task_wake_at(q, &purge_task, p->begun_ms + s->conf->purge.interval_ms);
}

static void begin_round(struct purge *p, int64_t now_ms)
{
	p->phase = PURGE_LOOK;
	p->asked_orphans = false;
	p->begun_ms = now_ms;
	p->stay = p->kept = p->oldest_ms = 0;
	p->misses = 0;
	p->purged = p->spared = 0;
	p->check_failed = false;
}

/* Another sweeper leads, or the queue is no longer purged: the next round begins anew. */
static bool give_up(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct purge *p = purge_of(q);

	if (p->phase != PURGE_IDLE) {
		if (purge_check_queue(s) == q)
			purge_check_stop(s);
		p->asking = p->asked_orphans = false;
		p->phase = PURGE_IDLE;
		task_wake_at(q, &purge_task, now_ms);
	}
	return true;
}

/* One check runs at a time, for all queues. 1: its answer was applied; 0: not yet; -1: error. */
static int ask_check(struct purging *t, int64_t now_ms)
{
	struct sweeper *s = t->s;
	bool agreed = false;

	if (purge_check_queue(s) == NULL && purge_check_start(s, t->q, now_ms) == -1)
		return purge_asked(t, false);
	if (purge_check_queue(s) != t->q || !purge_check_ended(s, &agreed, now_ms))
		return 0;
	return purge_asked(t, agreed);
}

/* 1: call again at once; 0: the task was scheduled; -1: error. */
static int run_turn(struct purging *t, int budget, int64_t now_ms)
{
	struct purge *p = purge_of(t->q);
	int rc = 1;

	p->logged = 0;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(t->s)) {
		if (!server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock)) {
			task_wake_at(t->q, &purge_task, now_ms + 1000);
			return 0;
		}
		if (!p->asking) {
			rc = purge_step(t);
		} else if ((rc = ask_check(t, now_ms)) == 0 && p->asking) {
			task_wake_at(t->q, &purge_task, now_ms + CHECK_LOOK_MS);
			return 0;
		} else if (rc == 0) {
			rc = 1;
		}
	}
	if (rc == 0)
		end_round(t->s, t->q, now_ms);
	return rc;
}

static bool may_begin(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct purge *p = purge_of(q);
	struct age_clock clock;

	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock)) {
		task_wake_at(q, &purge_task, now_ms + 1000);
		return false;
	}
	if (!p->asked_orphans)
		orphans_begin(q, now_ms);
	p->asked_orphans = true;
	if (!orphans_come_first(s, q))
		return true;
	task_wake_at(q, &purge_task, now_ms + ORPHANS_LOOK_MS);
	return false;
}

static enum task_end run_purge(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct purging t = { .s = s, .q = q };
	struct purge *p = purge_of(q);
	int rc;

	if (p->phase == PURGE_IDLE && !may_begin(s, q, now_ms))
		return TASK_DONE;
	if (p->phase == PURGE_IDLE)
		begin_round(p, now_ms);
	rc = run_turn(&t, budget, now_ms);
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return q->conf != NULL && purge_takes_messages(q->conf) && s->conf->purge.enabled;
}

static void free_state(struct sweeper_queue *q)
{
	buffer_free(&purge_of(q)->asked);
}

const struct task purge_task = { .name = "purge", .budget = 10, .leads = true, .wanted = is_wanted, .run_queue = run_purge, .stop = give_up,
	.state_size = sizeof(struct purge), .free = free_state, .own_size = sizeof(struct purge_check), .free_own = purge_check_stop };
