/*
 * Purge: once an interval, moves messages that wait or exist for longer than the configuration allows to escape; a dry
 * run only logs them. This file decides when a queue's round begins and ends, walks through ingress and delayed, reads
 * how entries begin, and finds those that are too old, each by its own time. A message that waits without a time gets
 * one, so that a later round knows how long it has waited. purge_move.c reads the whole of each message that is too
 * old, and moves it; purge_check.c runs the command that may object.
 *
 * A message in flight stays, since its owner lives: each one that has been in flight for longer than
 * purge.max_transit_age is logged once, by the scoreboard. Each supervisor does this for its own workers, also without
 * the lead; the sweeper rescues messages of dead workers anyway.
 */
#include <assert.h>

#include "sweeper/age/purge.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"
#include "sweeper/age/waiting.h"

#define CHECK_LOOK_MS 20
#define ORPHANS_LOOK_MS 50
/* pauses last so many times as long as the walks before them: walks take 5 % of the time of Redis at most */
#define PAUSE_FACTOR 20
#define WALK_MAX_MS 250		/* a walk counts as no longer: this process may have stood still */
/* consecutive entries that other processes moved first; then the round ends, and the next one continues */
#define MISSES_MAX 100

extern const struct task transit_task;

/* ---- a round ---- */

static void end_round(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct purge *p = purge_of(q);
	const char *event = s->conf->purge.dry_run ? "purge_dry_run" : "purge_done";
	/* a dry run logs its result even if it found nothing; a live round that moved nothing is logged at level
	 * debug */
	bool news = s->conf->purge.dry_run || p->purged > 0 || p->spared > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, event, log_str("queue", q->keys.name),
	    log_int("messages", (int64_t)p->purged), log_int("spared", (int64_t)p->spared),
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
}

/* Another sweeper leads, or the queue is no longer purged: the next round begins anew. */
static bool give_up(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct purge *p = purge_of(q);

	if (p->phase != PURGE_IDLE) {
		if (purge_check_queue(s) == q)
			purge_check_stop(s);
		purge_check_drop(&p->question);
		p->asked_orphans = false;
		p->phase = PURGE_IDLE;
		task_wake_at(q, &purge_task, now_ms);
	}
	return true;
}

/* ---- what becomes of messages that were judged ---- */

void purge_stays(struct purge *p, int64_t n, bool kept)
{
	p->stay += n;
	p->kept += kept ? n : 0;
	assert(n >= 0 && p->kept <= p->stay);
}

void purge_spares(struct purge *p)
{
	p->spared++;
	purge_stays(p, 1, true);
}

void purge_leaves(struct purge *p, int64_t age_ms)
{
	p->purged++;
	p->misses = 0;
	if (age_ms > p->oldest_ms)
		p->oldest_ms = age_ms;
}

/* ---- the walk ---- */

/* Reads the page at the cursor. */
static int read_page(struct purging *t, const struct purge_walk *walk, struct purge_page *page)
{
	int64_t sent_ms = clock_boottime_ms();
	struct redis_reply reply;

	purge_walk_ask(&t->s->redis, walk);
	if (connection_answer(t->s, &reply) == -1)
		return -1;
	if (purge_walk_read(&reply, page) == -1)
		return connection_unexpected(t->s);
	/* Learns whether the server's clock has run evenly until Redis read the page: only then the times in the page
	 * count. */
	clock_learn(t->s, page->server_ms, sent_ms);
	return server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock) ? 0 : -1;
}

/* Counts consecutive entries from the i-th on that are too old, or that are young, as the caller wants. *untimed: a
 * counted entry has no time. */
static int64_t count_run(const struct purging *t, const struct purge_walk *walk, const struct purge_page *page,
    size_t i, bool old, bool *untimed)
{
	struct verdict verdict;
	struct message m;
	int64_t count = 0;

	for (; i < page->n; i++, count++) {
		bool is_old = purge_walk_judge(walk, page, i, &t->clock, &m, &verdict);

		purge_of(t->q)->doubtful = purge_of(t->q)->doubtful || m.doubtful;
		if (is_old != old)
			break;
		*untimed = *untimed || m.wrapper.own_ms == 0;
	}
	return count;
}

/*
 * Passes over the next young entries, and stamps those without a time; then decides the old entries that follow them.
 * 1: go on; 0: the round is over; -1: error.
 */
static int look_at_page(struct purging *t)
{
	struct purge *p = purge_of(t->q);
	const struct purge_walk walk = { &t->q->keys, &t->q->conf->purge, p->phase == PURGE_DELAYED, p->stay };
	struct purge_page page;
	bool untimed = false, ignored = false;
	int64_t young, old;
	int rc = 1;

	if (read_page(t, &walk, &page) == -1)
		return -1;
	young = count_run(t, &walk, &page, 0, false, &untimed);
	old = count_run(t, &walk, &page, (size_t)young, true, &ignored);
	purge_stays(p, young, true);
	if (untimed && p->phase == PURGE_LOOK && !t->s->conf->purge.dry_run &&
	    stamps_range(t->s, t->q, -p->stay, young) == -1)
		return -1;
	if (old > 0)
		rc = purge_entries(t, (int)old);
	p->misses = rc == 0 ? p->misses + 1 : 0;
	if (rc == -1)
		return -1;
	if ((page.last && old == 0) || p->kept >= PURGE_DEEPEST || p->misses > MISSES_MAX) {
		if (p->phase == PURGE_DELAYED)
			return 0;
		p->phase = PURGE_DELAYED;
		p->stay = p->kept = p->misses = 0;
	}
	return 1;
}

/* 1: the round goes on; 0: it is over; -1: error */
static int purge_step(struct purging *t)
{
	if (purge_of(t->q)->doubtful && connection_secret(t->s) == -1)
		return -1;
	purge_of(t->q)->doubtful = false;
	return look_at_page(t);
}

/* ---- a turn ---- */

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

	while (rc == 1 && budget-- > 0 && sweeper_goes_on(t->s)) {
		if (!server_clock_age(&t->s->clock, clock_boottime_ms(), &t->clock)) {
			task_wake_at(t->q, &purge_task, now_ms + 1000);
			return 0;
		}
		if (!p->question.open) {
			rc = purge_step(t);
		} else if ((rc = ask_check(t, now_ms)) == 0 && p->question.open) {
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

static void count_walk(struct sweeper *s, struct sweeper_queue *q, void *walks)
{
	(void)s;
	*(int64_t *)walks += purge_of(q)->phase != PURGE_IDLE;
}

/*
 * A walk that began at begun_ms has ended, and no message left. The next one, which may belong to the next round,
 * waits: otherwise Redis would do little else while the walk goes over many messages that stay. All queues that are
 * walked share the time.
 */
static void pause_walk(struct sweeper *s, struct sweeper_queue *q, int64_t begun_ms)
{
	int64_t now_ms = clock_monotonic_ms(), took_ms = now_ms - begun_ms + 1, walks = 0, at_ms;

	sweeper_queues_each(s, count_walk, &walks);
	at_ms = now_ms + PAUSE_FACTOR * (took_ms < WALK_MAX_MS ? took_ms : WALK_MAX_MS) * (walks > 0 ? walks : 1);
	if (task_at_ms(q, &purge_task) < at_ms)
		task_wake_at(q, &purge_task, at_ms);
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
	int64_t begun_ms = clock_monotonic_ms();
	uint64_t decided;
	int rc;

	if (p->phase == PURGE_IDLE && !may_begin(s, q, now_ms))
		return TASK_DONE;
	if (p->phase == PURGE_IDLE)
		begin_round(p, now_ms);
	decided = p->purged + p->spared;
	rc = run_turn(&t, budget, now_ms);
	if (rc != -1 && p->purged + p->spared == decided && !p->question.open) {
		pause_walk(s, q, begun_ms);
		return TASK_DONE;
	}
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return purge_takes_messages(q->conf) && s->conf->purge.enabled;
}

static void free_state(struct sweeper_queue *q)
{
	purge_check_drop(&purge_of(q)->question);
}

const struct task purge_task = { .name = "purge", .budget = 10, .leads = true, .configured = true, .wanted = is_wanted,
	.run_queue = run_purge, .stop = give_up,
	.state_size = sizeof(struct purge), .free = free_state, .own_size = sizeof(struct purge_check),
	.free_own = purge_check_stop };

/* ---- messages in flight ---- */

/* By slot: started_ms of the run that was logged last. */
struct logged {
	int64_t started_ms[SCOREBOARD_SLOTS];
};

/* A run that began during this check is young: the next turn checks it. */
static void check_slot(struct sweeper *s, int index, int64_t *logged_ms, int64_t now_ms)
{
	const struct slot *slot = &s->child->board->slots[index];
	int64_t started_ms = atomic_load(&slot->started_ms);
	struct sweeper_queue *q;

	if (started_ms == 0 || *logged_ms == started_ms)
		return;
	q = sweeper_queue_of_board(s, atomic_load(&s->child->board->master.queue_of[index]) - 1);
	if (q == NULL || q->conf == NULL || now_ms - started_ms < q->conf->purge.max_transit_age_ms)
		return;
	*logged_ms = started_ms;
	sweeper_queue_count(q, COUNT_TRANSIT_OLD, 1);
	log_warning("transit_old", log_str("queue", q->keys.name), log_int("handler", atomic_load(&slot->handler_pgid)),
	    log_int("age_ms", now_ms - started_ms), log_int("limit_ms", q->conf->purge.max_transit_age_ms));
}

static bool run_transit(struct sweeper *s, int budget, int64_t now_ms)
{
	struct logged *logged = task_own(s, &transit_task);

	(void)budget;
	for (int i = 0; i < SCOREBOARD_SLOTS && s->conf->purge.enabled; i++)
		check_slot(s, i, &logged->started_ms[i], now_ms);
	return false;
}

const struct task transit_task = { .name = "transit", .interval_ms = 1000, .budget = 1, .run = run_transit,
    .own_size = sizeof(struct logged) };
