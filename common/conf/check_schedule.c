/* Checks the schedules, and parses their cron expressions. */
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* The place of a key; that of the whole schedule if the file does not have the key. */
static const struct conf_origin *place_of(const struct conf_schedule *s, const char *key)
{
	const struct conf_origin *own = conf_schedule_origin(s, key);

	return conf_given(own) ? own : conf_schedule_place(s);
}

char *conf_schedule_times(const struct conf_schedule *s)
{
	char every[UNITS_SIZE];

	return s->cron != NULL ? alloc_format("%s %s", s->cron, s->timezone) :
	    alloc_format("every %s", units_format_duration(s->times.every_ms, every));
}

static const char *shown_name(const struct conf_schedule *s)
{
	return s->name == NULL ? "?" : s->name;
}

static bool is_given(const struct conf_schedule *s, const char *key)
{
	return conf_given(conf_schedule_origin(s, key));
}

static void require(struct conf_loading *l, const struct conf_schedule *s, const char *key)
{
	if (!is_given(s, key))
		conf_error(l, conf_schedule_place(s), "schedule %s: it has no %s", shown_name(s), key);
}

static void check_name(struct conf_loading *l, size_t i)
{
	const struct conf_schedule *s = l->conf->schedules[i];
	char *before;

	require(l, s, "name");
	if (s->name == NULL)
		return;
	if (!identifier_is(IDENTIFIER_NAME, s->name, strlen(s->name)))
		conf_error(l, place_of(s, "name"), "schedule name: expected %s", identifier_form(IDENTIFIER_NAME));
	for (size_t k = 0; k < i; k++) {
		const struct conf_schedule *other = l->conf->schedules[k];

		if (other->name == NULL || strcmp(other->name, s->name) != 0)
			continue;
		before = conf_place(place_of(other, "name"));
		conf_error(l, place_of(s, "name"), "schedule %s is already defined at %s", s->name, before);
		free(before);
		return;
	}
}

static void check_queue(struct conf_loading *l, const struct conf_schedule *s)
{
	const char *near;

	require(l, s, "queue");
	if (s->queue == NULL || conf_queue_find(l->conf, s->queue) != NULL || l->broken)
		return;
	near = conf_nearest_queue(l->conf, NULL, s->queue);
	conf_error(l, place_of(s, "queue"), "schedule %s: queue %s does not exist%s%s%s", shown_name(s), s->queue,
	    near == NULL ? "" : ": did you mean ", near == NULL ? "" : near, near == NULL ? "" : "?");
}

/* The header of a message counts for message_max: quredis/1 id=NAME:2026-11-29T01:30:00.000Z:run:0123456789abcdef */
#define HEADER_BUT_NAME 64

static void check_size(struct conf_loading *l, const struct conf_schedule *s, const struct conf_queue *q)
{
	bool header = q->headers && !q->shared && s->name != NULL;
	size_t len = strlen(s->message) + (header ? HEADER_BUT_NAME + strlen(s->name) : 0);
	char most[UNITS_SIZE];

	if (q->message_max > 0 && len > (size_t)q->message_max)
		conf_error(l, place_of(s, "message"), "schedule %s: its message%s longer than message_max = \"%s\" of "
		    "queue %s", shown_name(s), header ? " and the header with its id are" : " is",
		    units_format_size(q->message_max, most), q->name);
}

static void check_message(struct conf_loading *l, const struct conf_schedule *s)
{
	const struct conf_queue *q = s->queue == NULL ? NULL : conf_queue_find(l->conf, s->queue);

	require(l, s, "message");
	if (s->message != NULL && s->message[0] == '\0' && q != NULL && q->shared)
		conf_error(l, place_of(s, "message"), "schedule %s: its message is empty, and queue %s is shared, so "
		    "it gets the message alone", shown_name(s), q->name);
	if (s->message != NULL && q != NULL)
		check_size(l, s, q);
}

/* A shared queue gets the message alone, so nothing tells whose it is. */
static void check_overlap(struct conf_loading *l, const struct conf_schedule *s)
{
	const struct conf_queue *q = s->queue == NULL ? NULL : conf_queue_find(l->conf, s->queue);

	if (q != NULL && q->shared && !s->overlap)
		conf_error(l, place_of(s, "overlap"), "schedule %s: overlap = false is not possible with shared = true "
		    "of queue %s: quredis would have to write a line before the message", shown_name(s), q->name);
}

/* Like a handler, the zone must be on the hosts of the supervisors. The command line may run on another one, which
 * lacks it: quredis schedule says so, and no other command needs the zone. */
static void check_zone(struct conf_loading *l, const struct conf_schedule *s)
{
	if ((l->flags & CONF_LENIENT_HANDLERS) != 0 || l->only != NULL || cron_zone_exists(s->timezone))
		return;
	conf_error(l, place_of(s, "timezone"),
	    "schedule %s: the time zone \"%.64s\" is not known here. Names are such as \"Europe/Berlin\"; Debian 13 "
	    "has older names in the package tzdata-legacy", shown_name(s), s->timezone);
}

static void check_times(struct conf_loading *l, struct conf_schedule *s)
{
	bool cron = is_given(s, "cron"), every = is_given(s, "every");
	char why[CRON_WHY_SIZE];

	if (cron == every)
		conf_error(l, place_of(s, "every"), "schedule %s: expected %s", shown_name(s),
		    cron ? "cron or every, not both" : "cron = \"minute hour day month weekday\" or every = \"5m\"");
	if (every && strcmp(s->timezone, "UTC") != 0)
		conf_error(l, place_of(s, "timezone"), "schedule %s: timezone has no meaning with every, which counts "
		    "from 1970 in UTC", shown_name(s));
	if (s->cron != NULL && cron_parse(&s->times.cron, s->cron, why) == -1)
		conf_error(l, place_of(s, "cron"), "schedule %s: cron: %s", shown_name(s), why);
	check_zone(l, s);
	s->times.zone = s->timezone;
}

void conf_check_schedules(struct conf_loading *l)
{
	for (size_t i = 0; i < l->conf->nschedules; i++) {
		check_name(l, i);
		check_queue(l, l->conf->schedules[i]);
		check_message(l, l->conf->schedules[i]);
		check_times(l, l->conf->schedules[i]);
		check_overlap(l, l->conf->schedules[i]);
	}
}
