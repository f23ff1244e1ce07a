/*
 * quredis schedule, quredis schedule run: show the ticks of schedules, and push a message of one. The ticks that come
 * follow from the configuration alone; Redis knows which ones were. Without Redis these are unknown, and the rest is
 * shown.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/commands/commands.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define NEXT 3
#define PLACES_TRIES 100	/* the workers of the queue change each time */

static const struct column columns[] = {
	{ "name", "Schedule", COLUMN_NAME },
	{ "queue", "Queue", COLUMN_NAME },
	{ "times", "Times", COLUMN_NAME },
	{ "timezone", "Time zone", COLUMN_NAME },
	{ "last", "Last", COLUMN_STATE },
	{ "next", NULL, COLUMN_TEXT },
	{ NULL, "Next", COLUMN_STATE },
	{ "missed", "Missed", COLUMN_FIGURE },
	{ "skipped", "Skipped", COLUMN_FIGURE },
	{ "last_skipped", "Last skipped", COLUMN_STATE | YIELDS(1) },
	{ "catch_up", NULL, COLUMN_NAME },
	{ "overlap", NULL, COLUMN_NAME },
	{ "known", NULL, COLUMN_NAME },
};

/* The record of a schedule in Redis. */
struct known {
	bool is_read;			/* Redis has told whether it has one */
	bool is;			/* it has one, of these times */
	struct queue_schedule record;
};

/* -1: the error is printed */
static int read_record(struct admin *a, const struct conf_schedule *c, struct known *known)
{
	char own[QUEUE_SCHEDULE_DEFINITION_SIZE];
	struct redis_reply reply;
	struct queue_keys keys;
	int rc;

	queue_keys_from_conf(&keys, a->conf, conf_queue_find(a->conf, c->queue));
	queue_schedule_read(&a->redis, &keys, c->name);
	rc = admin_reply(a, &reply, keys.schedules);
	queue_keys_free(&keys);
	if (rc == -1)
		return -1;
	known->is_read = true;
	queue_schedule_definition(c, own);
	known->is = queue_schedule_parse(&reply, &known->record) == 0 && strcmp(known->record.definition, own) == 0;
	return 0;
}

/* The ticks that come, by the clock of Redis if it is known. */
static json_t *list_next(const struct admin *a, const struct conf_schedule *c, int64_t after_ms)
{
	int64_t n = a->options.next == -1 ? NEXT : a->options.next;
	char stamp[CLOCK_RFC3339_SIZE];
	json_t *next = json_array();

	while (n-- > 0 && (after_ms = cron_times_next(&c->times, after_ms)) != -1)
		json_array_append_new(next, json_string(clock_rfc3339(after_ms, stamp)));
	return next;
}

static struct cell time_cell(bool known, int64_t ms)
{
	return known && ms > 0 ? cell_time(ms) : cell_none();
}

/* Below the row of the only schedule, or of each if a number was asked for. */
static void show_later(struct admin *a, const json_t *next)
{
	for (size_t i = 1; i < json_array_size(next); i++) {
		char *line = alloc_format("  then %s", json_string_value(json_array_get(next, i)));

		output_line(&a->output, line);
		free(line);
	}
}

/* The supervisor refuses such a zone where it runs. This host may lack one that exists. */
static void note_zone(const struct conf_schedule *c)
{
	if (c->cron != NULL && !cron_zone_exists(c->timezone))
		admin_note("the next ticks of %s are not known: this host has no time zone \"%.64s\": correct "
		    "timezone, or install tzdata (quredisd -t and quredis doctor check it)", c->name, c->timezone);
}

static void show_schedule(struct admin *a, const struct conf_schedule *c, const struct known *known, int64_t after_ms)
{
	char every[UNITS_SIZE], *times = c->cron != NULL ? alloc_string(c->cron) :
	    alloc_format("every %s", units_format_duration(c->times.every_ms, every));
	const struct queue_schedule *r = &known->record;
	json_t *next = list_next(a, c, after_ms);
	int64_t first = cron_times_next(&c->times, after_ms);

	output_row(&a->output, (struct cell[nitems(columns)]){ cell_str(c->name), cell_str(c->queue), cell_str(times),
	    cell_str(c->timezone), time_cell(known->is, r->pushed_ms),
	    { .type = CELL_JSON, .json = next }, time_cell(first != -1, first),
	    known->is ? cell_int(r->missed) : cell_none(), known->is ? cell_int(r->skipped) : cell_none(),
	    time_cell(known->is, r->skipped_ms), cell_str(c->catch_up == CONF_CATCH_UP_ONE ? "one" : "none"),
	    cell_bool(c->overlap), known->is_read ? cell_bool(known->is) : cell_none() });
	if (a->noperands > 0 || a->options.next != -1)
		show_later(a, next);
	json_decref(next);
	free(times);
}

static struct conf_schedule *find_schedule(struct admin *a, const char *name)
{
	const char **names = alloc_zero(a->conf->nschedules + 1, sizeof(*names));
	char *hint;

	for (size_t i = 0; i < a->conf->nschedules; i++) {
		names[i] = a->conf->schedules[i]->name;
		if (strcmp(names[i], name) == 0) {
			free(names);
			return a->conf->schedules[i];
		}
	}
	hint = notice_suggest(name, names, a->conf->nschedules, "");
	admin_fail(a, EX_USAGE, "the configuration has no schedule %.100s%s", name, hint);
	free(hint);
	free(names);
	return NULL;
}

/* Redis tells the time and the records. -1: it does not, and why says so. */
static int read_redis(struct admin *a, const struct conf_schedule *only, struct known *known, int64_t *now_ms,
    char why[COMPLAINT_SIZE])
{
	int rc = 0;

	a->complaint = why;
	if (connection_open(a) == -1 || admin_server_time(a, now_ms) == -1)
		rc = -1;
	for (size_t i = 0; rc == 0 && i < a->conf->nschedules; i++)
		if ((only == NULL || only == a->conf->schedules[i]) &&
		    read_record(a, a->conf->schedules[i], &known[i]) == -1 && a->redis.state != REDIS_READY)
			rc = -1;	/* that of another type is unknown, the others are not */
	a->complaint = NULL;
	if (why[0] != '\0')
		admin_note("last and skipped ticks are not known: %s", why);
	a->status = 0;
	return rc;
}

static int read_from(struct admin *a, int64_t now_ms, int64_t *after_ms)
{
	*after_ms = now_ms;
	return a->options.from == NULL || moment_parse_coming(a->options.from, now_ms, after_ms) == 0 ? 0 :
	    admin_fail(a, EX_USAGE, "--from: expected " MOMENT_AFTER_WANTED);
}

int cmd_schedule(struct admin *a)
{
	const struct conf_schedule *only = a->noperands == 0 ? NULL : find_schedule(a, a->operands[0]);
	struct known *known = alloc_zero(a->conf->nschedules + 1, sizeof(*known));
	char why[COMPLAINT_SIZE] = "";
	int64_t now_ms = clock_realtime_ms(), after_ms;
	int rc = a->noperands > 0 && only == NULL ? -1 : 0;

	if (rc == 0 && read_redis(a, only, known, &now_ms, why) == 0 && a->output.terminal)
		a->output.now_ms = now_ms;
	if (rc == 0)
		rc = read_from(a, now_ms, &after_ms);
	if (rc == 0) {
		for (size_t i = 0; i < a->conf->nschedules; i++)
			if (only == NULL || only == a->conf->schedules[i])
				note_zone(a->conf->schedules[i]);
		output_begin(&a->output, columns, nitems(columns));
		for (size_t i = 0; i < a->conf->nschedules; i++)
			if (only == NULL || only == a->conf->schedules[i])
				show_schedule(a, a->conf->schedules[i], &known[i], after_ms);
		output_end_list(&a->output, true);
		if (a->output.nrows == 0 && !a->options.json)
			admin_note("no schedules in the configuration");
	}
	free(known);
	return rc;
}

/* ---- quredis schedule run ---- */

static int push_once(struct admin *a, const struct queue_tick *t, struct queue_places *places, enum queue_tick_end *end)
{
	struct redis_reply reply;

	queue_schedule_push(&a->redis, &a->keys, t);
	if (admin_reply(a, &reply, a->keys.ingress) == -1)
		return -1;
	if (queue_schedule_pushed(&reply, end) == -1 ||
	    (*end == QUEUE_TICK_PLACES && queue_places_learn(places, &a->keys, &reply) == -1))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis to the push of a schedule");
	return 0;
}

static int say_result(struct admin *a, const struct conf_schedule *c, enum queue_tick_end end)
{
	static const struct column result[] = {
		{ "schedule", "", COLUMN_NAME }, { "queue", "", COLUMN_NAME }, { "pushed", "", COLUMN_NAME },
		{ "dry_run", "", COLUMN_NAME },
	};
	bool pushed = end == QUEUE_TICK_DONE;

	if (a->options.json)
		output_object(&a->output, result, nitems(result), (struct cell[]){ cell_str(c->name),
		    cell_str(c->queue), cell_bool(pushed && !a->options.dry_run), cell_bool(a->options.dry_run) });
	else if (pushed)
		notice_say("%s a message of %s to %s", a->options.dry_run ? "would push" : "pushed", c->name, c->queue);
	if (pushed)
		return 0;
	return admin_fail(a, end == QUEUE_TICK_PLACES ? EX_TEMPFAIL : EX_DATAERR, end == QUEUE_TICK_SKIPPED ?
	    "not pushed: an earlier message of %s is in %s, and it has overlap = false; --force pushes one all the "
	    "same" : end == QUEUE_TICK_UNSEEN ? "not pushed: nobody can tell whether an earlier message of %s is in "
	    "%s, which is too long to look through; --force pushes one all the same" :
	    "not pushed: while it looked for an earlier message of %s, the workers of %s changed again and again; try "
	    "again", c->name, c->queue);
}

static int run_schedule(struct admin *a, const struct conf_schedule *c)
{
	struct queue_places places = {0};
	struct buffer message = {0};
	int64_t now_ms;
	enum queue_tick_end end = QUEUE_TICK_PLACES;
	int rc;

	if (admin_seals(a) == -1 || admin_server_time(a, &now_ms) == -1)
		return -1;
	queue_schedule_message(&message, &a->keys, c, now_ms, false);
	rc = 0;
	for (int i = 0; i < PLACES_TRIES && rc == 0 && end == QUEUE_TICK_PLACES; i++)
		rc = push_once(a, &(struct queue_tick){ .name = c->name,
		    .message = a->options.dry_run ? NULL : message.data, .len = a->options.dry_run ? 0 : message.len,
		    .alone = c->overlap || a->options.force ? NULL : &places }, &places, &end);
	queue_places_free(&places);
	buffer_free(&message);
	return rc == -1 ? -1 : say_result(a, c, end);
}

int cmd_schedule_run(struct admin *a)
{
	const struct conf_schedule *c = find_schedule(a, a->operands[0]);

	if (c == NULL || connection_open(a) == -1)
		return -1;
	a->queue = conf_queue_find(a->conf, c->queue);
	queue_keys_from_conf(&a->keys, a->conf, a->queue);
	return run_schedule(a, c);
}
