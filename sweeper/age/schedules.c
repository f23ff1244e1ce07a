/*
 * Pushes the messages of schedules at their times. The clock is that of Redis, which each answer tells, so a clock of a
 * host that is set moves no tick. The record of a schedule in Redis says which tick was its last; one script
 * (tick.lua) compares that, pushes the message and writes the record. So each tick is pushed once, by however many
 * leaders, and however often a request is sent. If Redis goes back, the record and the message go back together.
 *
 * Of the ticks that passed while no sweeper led, catch_up = "one" pushes the last, and "none" pushes it only if it is
 * not late. With overlap = false the script also skips a tick while an earlier message of the schedule is in the queue.
 * It looks into every list for that, so it needs their names: the first answer tells those of the trays, and each later
 * one that finds other workers.
 *
 * A record whose schedule every host has lacked for a day is deleted (schedules_forget.lua). A host that is
 * deployed before others lacks new schedules for a while, and must not delete their records. Every sweeper looks, with
 * or without the lead, so that no host takes the lead of a queue without schedules for this.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sweeper/core/core.h"
#include "sweeper/age/age.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

/* a clock of Redis that was set, or a record that went back, is noticed so late at most */
#define LOOK_MS 60000
/* a tick is due by what the sweeper knows, and Redis changed nothing: its clock is behind */
#define AGAIN_MS 100
/* a record is deleted after so many looks of sweepers without its schedule, so long apart */
#define FORGET_EVERY_MS INT64_C(3600000)
#define FORGET_LOOKS 24

/* Redis serves no other client during the requests of one write. With overlap = false each may look through 10,000
 * entries, which takes more than a millisecond. What does not fit follows in the next turn. */
#define WRITE_MOST 100
#define WRITE_LOOKS_MOST 8

extern const struct task schedules_task, schedules_forgotten_task;

/* The requests of this turn. The next one begins with the queue for which no room was left, so that no queue keeps
 * another one waiting for long. The queues are only compared: they may be gone. */
struct schedules_write {
	int requests, looks;
	const struct sweeper_queue *from;	/* NULL: with any */
	bool begun;
	/* the first without any room: before `from`, and from there on */
	const struct sweeper_queue *before, *after;
};

struct schedule {
	const struct conf_schedule *conf;
	char definition[QUEUE_SCHEDULE_DEFINITION_SIZE];
	bool known;		/* record: Redis has answered on this connection */
	struct queue_schedule record;
	/* server's ms since 1970: the tick after that of the record; -1: the file of its zone is missing */
	int64_t next_ms;
	bool warned;		/* the same, since the last answer, and the log says so */
	int64_t unknown_ms;	/* CLOCK_BOOTTIME: since then the next tick is not known */
	int64_t look_ms, again_ms;	/* CLOCK_BOOTTIME: asked then also without a tick; not asked before */
	/* of the request under way; asked false: none is */
	bool asked;
	int64_t tick_ms, missed;	/* -1: it only looks */
};

struct schedules {
	struct schedule *list;	/* NULL until the first run */
	size_t n, first;	/* first: asked about before the others, in turns */
	size_t asked_first;	/* the same, of the requests under way: answers come in this order */
	struct queue_places places;	/* for overlap = false */
	int64_t connection;	/* redis.connection on which the records were read */
	/* the clock of Redis minus CLOCK_BOOTTIME, by the last answer */
	int64_t offset_ms;
};

static struct schedules *schedules_of(const struct sweeper_queue *q)
{
	return task_state(q, &schedules_task);
}

static bool pushes_to(const struct conf_schedule *c, const struct sweeper_queue *q)
{
	return strcmp(c->queue, q->keys.name) == 0;
}

static size_t count_of(const struct sweeper *s, const struct sweeper_queue *q)
{
	size_t n = 0;

	for (size_t i = 0; i < s->conf->nschedules; i++)
		n += pushes_to(s->conf->schedules[i], q);
	return n;
}

static void list_schedules(const struct sweeper *s, const struct sweeper_queue *q, struct schedules *all)
{
	all->list = alloc_zero(count_of(s, q), sizeof(*all->list));
	for (size_t i = 0; i < s->conf->nschedules; i++)
		if (pushes_to(s->conf->schedules[i], q)) {
			all->list[all->n].conf = s->conf->schedules[i];
			all->list[all->n].unknown_ms = clock_boottime_ms();
			queue_schedule_definition(s->conf->schedules[i], all->list[all->n++].definition);
		}
}

/* The i-th after this one, which counts as 0. */
static struct schedule *in_turn(struct schedules *all, size_t first, size_t i)
{
	return &all->list[(first + i) % all->n];
}

static void free_schedules(struct sweeper_queue *q)
{
	free(schedules_of(q)->list);
	queue_places_free(&schedules_of(q)->places);
}

/* ---- requests ---- */

static void begin_write(struct sweeper *s, int64_t now_ms)
{
	struct schedules_write *w = task_own(s, &schedules_task);

	(void)now_ms;
	*w = (struct schedules_write){ .from = !w->begun ? NULL : w->after != NULL ? w->after : w->before };
}

static bool fits(const struct schedules_write *w, bool looks)
{
	return w->begun && w->requests < WRITE_MOST && (!looks || w->looks < WRITE_LOOKS_MOST);
}

/* False: it has to wait for the next turn. got_some: another schedule of the queue had room. */
static bool take_room(const struct sweeper *s, const struct sweeper_queue *q, const struct schedule *c, bool got_some)
{
	struct schedules_write *w = task_own(s, &schedules_task);
	bool looks = c->known && !c->conf->overlap;

	w->begun = w->begun || w->from == NULL || w->from == q;
	if (!fits(w, looks)) {
		const struct sweeper_queue **first = w->begun ? &w->after : &w->before;

		*first = *first == NULL && !got_some ? q : *first;
		return false;
	}
	w->requests++;
	w->looks += looks;
	return true;
}

static void forget_records(struct schedules *all, int64_t connection)
{
	all->connection = connection;
	for (size_t i = 0; i < all->n; i++)
		all->list[i].known = false;
}

int64_t schedules_on_time_ms(const struct sweeper *s)
{
	return queue_schedule_on_time_ms(s->conf->supervisor.lease_ms);
}

int64_t schedules_late_ms(const struct sweeper_queue *q, const char **name)
{
	const struct schedules *all = schedules_of(q);
	int64_t boot_ms = clock_boottime_ms(), late_ms = 0;

	*name = "";
	for (size_t i = 0; i < all->n; i++) {
		const struct schedule *c = &all->list[i];
		int64_t since_ms = c->next_ms > 0 ? c->next_ms - all->offset_ms : c->unknown_ms;

		if (boot_ms - since_ms <= late_ms)
			continue;
		late_ms = boot_ms - since_ms;
		*name = c->conf->name;
	}
	return late_ms;
}

static void ask_tick(struct sweeper *s, const struct sweeper_queue *q, struct schedule *c, bool pushes)
{
	struct buffer message = {0};

	if (pushes)
		queue_schedule_message(&message, &q->keys, c->conf, c->tick_ms, true);
	queue_tick(&s->redis, &q->keys, &(struct queue_tick){ .name = c->conf->name, .definition = c->definition,
	    .last_ms = c->record.last_ms, .tick_ms = c->tick_ms, .missed = c->missed + !pushes,
	    .message = pushes ? message.data : NULL, .len = message.len,
	    .alone = c->conf->overlap ? NULL : &schedules_of(q)->places });
	buffer_free(&message);
}

static void ask_schedule(struct sweeper *s, const struct sweeper_queue *q, struct schedule *c, int64_t server_ms)
{
	c->asked = true;
	c->missed = 0;
	c->tick_ms = c->known ? cron_times_due(&c->conf->times, c->record.last_ms, server_ms, &c->missed) : -1;
	if (c->tick_ms > 0) {
		ask_tick(s, q, c, c->conf->catch_up == CONF_CATCH_UP_ONE ||
		    server_ms - c->tick_ms <= schedules_on_time_ms(s));
		return;
	}
	c->tick_ms = -1;
	queue_tick(&s->redis, &q->keys, &(struct queue_tick){ .name = c->conf->name, .definition = c->definition,
	    .last_ms = -1, .tick_ms = -1 });
}

/* CLOCK_BOOTTIME: when Redis is asked about a schedule. A schedule that is not due costs no request. */
static int64_t ask_at(const struct schedules *all, const struct schedule *c)
{
	int64_t tick_ms = c->next_ms == -1 ? c->look_ms : c->next_ms - all->offset_ms;

	return !c->known ? 0 : tick_ms < c->again_ms ? c->again_ms : tick_ms < c->look_ms ? tick_ms : c->look_ms;
}

static void wake_for_next(struct sweeper_queue *q)
{
	const struct schedules *all = schedules_of(q);
	int64_t now_ms = clock_boottime_ms(), wait = LOOK_MS;

	for (size_t i = 0; i < all->n; i++)
		wait = clock_earlier(wait, ask_at(all, &all->list[i]) - now_ms);
	task_wake_at(q, &schedules_task, clock_monotonic_ms() + (wait < 1 ? 1 : wait));
}

static bool ask_schedules(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct schedules *all = schedules_of(q);
	int64_t boot_ms = clock_boottime_ms();
	size_t last = 0;
	bool any = false;

	(void)budget;
	(void)now_ms;
	if (all->list == NULL)
		list_schedules(s, q, all);
	if (all->connection != s->redis.connection)
		forget_records(all, s->redis.connection);
	all->asked_first = all->first;
	for (size_t i = 0; i < all->n; i++) {
		struct schedule *c = in_turn(all, all->first, i);

		if (ask_at(all, c) > boot_ms || !take_room(s, q, c, any))
			continue;
		ask_schedule(s, q, c, boot_ms + all->offset_ms);
		last = (size_t)(c - all->list);
		any = true;
	}
	if (any)
		all->first = (last + 1) % all->n;
	if (!any)
		wake_for_next(q);
	return any;
}

/* ---- answers ---- */

static void log_tick(const struct sweeper_queue *q, const struct schedule *c, const struct queue_ticked *t)
{
	bool pushed = t->schedule.pushed_ms == c->tick_ms;
	char tick[CLOCK_RFC3339_SIZE];

	clock_rfc3339(c->tick_ms, tick);
	if (t->end == QUEUE_TICK_DONE)
		log_info(pushed ? "schedule_pushed" : "schedule_missed", log_str("queue", q->keys.name),
		    log_str("schedule", c->conf->name), log_str("tick", tick),
		    log_int("late_ms", t->now_ms - c->tick_ms), log_int("missed", c->missed));
	else if (t->end == QUEUE_TICK_SKIPPED)
		log_info("schedule_skipped", log_str("queue", q->keys.name), log_str("schedule", c->conf->name),
		    log_str("tick", tick), log_int("late_ms", t->now_ms - c->tick_ms),
		    log_int("missed", c->missed), log_str("reason", "an earlier message is in the queue"));
	else
		log_warning("schedule_skipped", log_str("queue", q->keys.name), log_str("schedule", c->conf->name),
		    log_str("tick", tick), log_int("late_ms", t->now_ms - c->tick_ms),
		    log_int("missed", c->missed), log_str("reason", "the queue is too long to tell"));
}

static void log_begin(const struct sweeper_queue *q, const struct schedule *c, enum queue_tick_end end)
{
	static const char *const reasons[QUEUE_TICK_ENDS] = { [QUEUE_TICK_NEW] = "new",
		[QUEUE_TICK_CHANGED] = "other times", [QUEUE_TICK_UNKNOWN] = "unknown record",
		[QUEUE_TICK_AHEAD] = "last tick ahead of the clock" };

	if (end == QUEUE_TICK_NEW || end == QUEUE_TICK_CHANGED)
		log_info("schedule_began", log_str("queue", q->keys.name), log_str("schedule", c->conf->name),
		    log_str("reason", reasons[end]));
	else
		log_warning("schedule_began", log_str("queue", q->keys.name), log_str("schedule", c->conf->name),
		    log_str("reason", reasons[end]));
}

/* A zone that is missing at the start is an error of the configuration. Its file may vanish later: the ticks wait then,
 * and catch_up decides about them when the file is back. */
static void note_zone(const struct sweeper_queue *q, struct schedule *c)
{
	bool missing = c->next_ms == -1;

	if (missing && !c->warned)
		log_warning("schedule_zone_missing", log_str("queue", q->keys.name),
		    log_str("schedule", c->conf->name), log_str("timezone", c->conf->timezone));
	else if (!missing && c->warned)
		log_info("schedule_zone_found", log_str("queue", q->keys.name), log_str("schedule", c->conf->name),
		    log_str("timezone", c->conf->timezone));
	if (missing && !c->warned)
		c->unknown_ms = clock_boottime_ms();
	c->warned = missing;
}

static void count_tick(struct sweeper_queue *q, const struct schedule *c, const struct queue_ticked *t)
{
	bool skipped = t->end != QUEUE_TICK_DONE, pushed = !skipped && t->schedule.pushed_ms == c->tick_ms;

	sweeper_queue_count(q, COUNT_TICKS_PUSHED, pushed);
	sweeper_queue_count(q, COUNT_TICKS_SKIPPED, skipped);
	sweeper_queue_count(q, COUNT_TICKS_MISSED, (uint64_t)c->missed + (!pushed && !skipped));
}

static int take_schedule(struct sweeper *s, struct sweeper_queue *q, struct schedule *c)
{
	int64_t boot_ms = clock_boottime_ms(), before_ms = c->record.last_ms;
	struct redis_reply reply;
	struct queue_ticked t;

	c->asked = false;
	c->known = false;
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (queue_ticked(&reply, &t) == -1)
		return connection_unexpected(s);
	c->known = true;
	c->record = t.schedule;
	c->next_ms = cron_times_next(&c->conf->times, c->record.last_ms);
	c->look_ms = boot_ms + LOOK_MS;
	c->again_ms = c->tick_ms > 0 && c->record.last_ms == before_ms && t.end != QUEUE_TICK_PLACES ?
	    boot_ms + AGAIN_MS : 0;
	schedules_of(q)->offset_ms = t.now_ms - boot_ms;
	note_zone(q, c);
	if (t.end == QUEUE_TICK_PLACES)
		return queue_places_learn(&schedules_of(q)->places, &q->keys, &reply) == -1 ?
		    connection_unexpected(s) : 0;
	if (t.end == QUEUE_TICK_DONE || t.end == QUEUE_TICK_SKIPPED || t.end == QUEUE_TICK_UNSEEN) {
		log_tick(q, c, &t);
		count_tick(q, c, &t);
	} else if (t.end != QUEUE_TICK_NONE) {
		log_begin(q, c, t.end);
	}
	return 0;
}

static enum task_end take_schedules(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct schedules *all = schedules_of(q);
	bool failed = false;

	task_wake_at(q, &schedules_task, now_ms);	/* after an error: not before the end of its back-off */
	for (size_t i = 0; i < all->n && s->redis.state != REDIS_CLOSED; i++) {
		struct schedule *c = in_turn(all, all->asked_first, i);

		if (c->asked && take_schedule(s, q, c) == -1)
			failed = true;
	}
	if (failed || s->redis.state == REDIS_CLOSED)
		return TASK_FAILED;
	wake_for_next(q);
	return TASK_DONE;
}

static bool has_schedules(const struct sweeper *s, const struct sweeper_queue *q)
{
	return count_of(s, q) > 0;
}

const struct task schedules_task = { .name = "schedules", .interval_ms = LOOK_MS, .budget = 1, .configured = true,
	.leads = true, .wanted = has_schedules, .ask = ask_schedules, .take = take_schedules,
	.each_turn = begin_write, .own_size = sizeof(struct schedules_write),
	.state_size = sizeof(struct schedules), .free = free_schedules };

/* ---- schedules that left the configuration ---- */

static bool ask_forgotten(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	const char **names = alloc_zero(s->conf->nschedules + 1, sizeof(*names));
	size_t n = 0;

	(void)budget;
	(void)now_ms;
	for (size_t i = 0; i < s->conf->nschedules; i++)
		if (pushes_to(s->conf->schedules[i], q))
			names[n++] = s->conf->schedules[i]->name;
	queue_schedules_forget(&s->redis, &q->keys, FORGET_EVERY_MS, FORGET_LOOKS, names, n);
	free(names);
	return true;
}

static enum task_end take_forgotten(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	int64_t n;

	if (connection_integer(s, &n) == -1) {
		task_wake_at(q, &schedules_forgotten_task, now_ms);	/* not before the end of the back-off */
		return TASK_FAILED;
	}
	if (n > 0)
		log_info("schedules_forgotten", log_str("queue", q->keys.name), log_int("schedules", n));
	return TASK_DONE;
}

const struct task schedules_forgotten_task = { .name = "schedules_forgotten", .interval_ms = FORGET_EVERY_MS,
	.budget = 1, .configured = true, .ask = ask_forgotten, .take = take_forgotten };
