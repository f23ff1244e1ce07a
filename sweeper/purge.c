/*
 * Purge: once an interval, moves messages that wait or exist for longer than the configuration allows to escape; a dry run only logs
 * them. This file decides when a queue's round begins and ends. purge_look.c walks through the lists, purge_exit.c moves the
 * messages, purge_check.c runs the command that may object.
 */
#include "sweeper/purge.h"

#include "common/clock.h"
#include "sweeper/orphans.h"
#include "sweeper/sweeper.h"

#define CHECK_LOOK_MS 20
#define ORPHANS_LOOK_MS 50

static void end_round(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	struct purge *p = &q->purge;
	const char *event = s->conf->purge.dry_run ? "purge_dry_run" : "purge_done";
	/* a dry run logs its result even if it found nothing; a live round that moved nothing is logged at level debug */
	bool news = s->conf->purge.dry_run || p->purged > 0 || p->spared > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, event, log_str("queue", q->keys.name), log_int("messages", (int64_t)p->purged), log_int("spared", (int64_t)p->spared),
	    log_int("oldest_ms", p->oldest_ms), log_int("duration_ms", now_ms - p->begun_ms));
	p->phase = PURGE_IDLE;
	p->at_ms = p->begun_ms + s->conf->purge.interval_ms;
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
static void give_up(struct sweeper *s, struct swept *q)
{
	if (s->purge_check.q == q)
		purge_check_stop(s);
	q->purge.asking = q->purge.asked_orphans = false;
	q->purge.phase = PURGE_IDLE;
	q->purge.at_ms = 0;
}

/* One check runs at a time, for all queues. 1: its answer was applied; 0: not yet; -1: error. */
static int ask_check(struct purging *t, int64_t now_ms)
{
	struct sweeper *s = t->s;
	bool agreed = false;

	if (s->purge_check.q == NULL && purge_check_start(s, t->q, now_ms) == -1)
		return purge_asked(t, false);
	if (s->purge_check.q != t->q || !purge_check_ended(s, &agreed, now_ms))
		return 0;
	return purge_asked(t, agreed);
}

/* 1: more at once; 0: it waits until at_ms; -1: error. */
static int run_turn(struct purging *t, int budget, int64_t now_ms)
{
	struct purge *p = &t->q->purge;
	int rc = 1;

	p->logged = 0;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(t->s)) {
		if (!server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock)) {
			p->at_ms = now_ms + 1000;
			return 0;
		}
		if (!p->asking) {
			rc = purge_step(t);
		} else if ((rc = ask_check(t, now_ms)) == 0 && p->asking) {
			p->at_ms = now_ms + CHECK_LOOK_MS;
			return 0;
		} else if (rc == 0) {
			rc = 1;
		}
	}
	if (rc == 0)
		end_round(t->s, t->q, now_ms);
	return rc;
}

static bool may_begin(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	struct purge *p = &q->purge;
	struct age_clock clock;

	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock)) {
		p->at_ms = now_ms + 1000;
		return false;
	}
	if (!p->asked_orphans)
		orphans_begin(q, now_ms);
	p->asked_orphans = true;
	if (!orphans_come_first(s, q))
		return true;
	p->at_ms = now_ms + ORPHANS_LOOK_MS;
	return false;
}

static void sweep_queue(struct sweeper *s, struct swept *q, int budget, int64_t now_ms)
{
	struct purging t = { .s = s, .q = q };
	struct purge *p = &q->purge;

	if (p->phase == PURGE_IDLE && !may_begin(s, q, now_ms))
		return;
	if (p->phase == PURGE_IDLE)
		begin_round(p, now_ms);
	if (run_turn(&t, budget, now_ms) == -1) {
		trouble_note(s, q, &p->trouble, "purge", now_ms);
		p->at_ms = p->trouble.retry_at_ms;
	} else {
		trouble_over(s, q, &p->trouble);
	}
}

static bool is_ours(const struct sweeper *s, const struct swept *q)
{
	return q->conf != NULL && purge_takes_messages(q->conf) && s->conf->purge.enabled && lead_is_ours(q);
}

int64_t purge_wake_ms(const struct sweeper *s, const struct swept *q)
{
	return is_ours(s, q) ? q->purge.at_ms : INT64_MAX;
}

bool purge_task(struct sweeper *s, int budget, int64_t now_ms)
{
	bool more = false;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (!is_ours(s, q)) {
			if (q->purge.phase != PURGE_IDLE)
				give_up(s, q);
			continue;
		}
		if (now_ms < q->purge.at_ms || !sweeper_goes_on(s))
			continue;
		sweep_queue(s, q, budget, now_ms);
		connection_drain(s);
		more = more || q->purge.at_ms <= now_ms;
	}
	return more;
}
