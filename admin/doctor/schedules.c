/* Checks the schedules of a queue: whether their ticks are pushed, and whether all hosts have the same times. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SAME "set cron, every and timezone of schedule %s to the same on all hosts, then: quredis reload"

static bool is_of(const struct conf_schedule *c, const struct queue_check *q)
{
	return strcmp(c->queue, q->keys.name) == 0;
}

/* True: the supervisor of this host reports that it has the schedule with other times than its file, or not at all. */
static bool is_unread(struct doctor *d, const struct queue_check *q, const struct conf_schedule *c)
{
	const json_t *report, *loaded;
	const char *times;
	char *here;
	bool unread;

	if (others_report(d, d->a->conf->supervisor.node, &report) == -1)
		return false;
	loaded = json_object_get(queue_node_row(report, q->keys.name), "schedules");
	times = json_string_value(json_object_get(loaded, c->name));
	here = conf_schedule_times(c);
	unread = loaded != NULL && (times == NULL || strcmp(times, here) != 0);
	free(here);
	return unread;
}

static void advise_times(struct finding *f, const struct conf_schedule *c, bool unread)
{
	if (unread)
		findings_advise(f, "the supervisor of this host has not loaded these times yet: quredis reload; "
		    "then the same on all hosts");
	else
		findings_advise(f, SAME, c->name);
}

/* Of those that the configuration here has. */
static void judge_record(struct doctor *d, const struct queue_check *q, const struct conf_schedule *c,
    const struct queue_schedule *record)
{
	int64_t limit_ms = queue_schedule_on_time_ms(d->a->conf->supervisor.lease_ms),
	    next_ms = cron_times_next(&c->times, record->last_ms);
	char own[QUEUE_SCHEDULE_DEFINITION_SIZE], stamp[CLOCK_RFC3339_SIZE], late[UNITS_SIZE];

	queue_schedule_definition(c, own);
	if (strcmp(own, record->definition) != 0)
		advise_times(findings_add(d, SEVERITY_WARNING, q->keys.schedules,
		    "schedule %s has other times here than in Redis: it begins anew whenever a host with other times "
		    "takes the lead", c->name), c, is_unread(d, q, c));
	else if (next_ms != -1 && d->server.now_ms - next_ms > limit_ms)
		findings_advise(findings_add(d, SEVERITY_ERROR, q->keys.schedules,
		    "the tick %s of schedule %s has been due for %s, and no supervisor has pushed it",
		    clock_rfc3339(next_ms, stamp), c->name, units_elapsed(d->server.now_ms - next_ms, late)),
		    "look whether a supervisor with this schedule runs (quredis nodes), and at its errors "
		    "(quredis status)");
}

static int check_record(struct doctor *d, const struct queue_check *q, const struct conf_schedule *c)
{
	struct queue_schedule record;
	struct redis_reply reply;

	queue_schedule_read(&d->a->redis, &q->keys, c->name);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ERROR)
		findings_advise(findings_add(d, SEVERITY_ERROR, q->keys.schedules,
		    "Redis does not give it, so no tick of schedule %s is pushed: %s", c->name, reply.str),
		    "allow this user to read the key; if it has another type, another program uses it: rename or "
		    "delete it");
	else if (reply.type == REDIS_NIL)
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.schedules,
		    "no supervisor has begun schedule %s", c->name), "start quredisd, or if it runs: quredis reload");
	else if (queue_schedule_parse(&reply, &record) == 0)
		judge_record(d, q, c, &record);
	else
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.schedules,
		    "the record of schedule %s is not as quredis writes it: the schedule begins anew", c->name),
		    "find the program that writes this key");
	return 0;
}

static const struct conf_schedule *find_schedule(const struct doctor *d, const struct queue_check *q, const char *name)
{
	for (size_t i = 0; i < d->a->conf->nschedules; i++)
		if (is_of(d->a->conf->schedules[i], q) && strcmp(d->a->conf->schedules[i]->name, name) == 0)
			return d->a->conf->schedules[i];
	return NULL;
}

static void compare_times(struct doctor *d, const struct queue_check *q, const struct conf_schedule *c,
    const char *node, const char *there)
{
	char *here = conf_schedule_times(c);

	if (there == NULL)
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
		    "%s does not have schedule %s: while that host leads the queue, no tick of it is pushed",
		    node, c->name), "add schedule %s to its configuration, then there: quredis reload", c->name);
	else if (strcmp(there, here) != 0)
		advise_times(findings_add(d, SEVERITY_WARNING, NULL,
		    "the times of schedule %s are %s here, and %s on %s", c->name, here, there, node), c,
		    is_unread(d, q, c));
	free(here);
}

/* A host that leads a queue pushes the ticks of its own configuration. An older report, or none, does not tell. */
static void compare_schedules(struct doctor *d, const struct queue_check *q, const char *node, const json_t *report)
{
	json_t *theirs = json_object_get(queue_node_row(report, q->keys.name), "schedules"), *times;
	const char *name;

	if (theirs == NULL)
		return;
	for (size_t i = 0; i < d->a->conf->nschedules; i++)
		if (is_of(d->a->conf->schedules[i], q))
			compare_times(d, q, d->a->conf->schedules[i], node,
			    json_string_value(json_object_get(theirs, d->a->conf->schedules[i]->name)));
	json_object_foreach(theirs, name, times)
		if (find_schedule(d, q, name) == NULL)
			findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
			    "%s has schedule %s, and this host does not: while this host leads the queue, no tick of "
			    "it is pushed", node, name),
			    "add schedule %s to this configuration, or delete it there; then: quredis reload", name);
}

int check_schedules(struct doctor *d, struct queue_check *q)
{
	if (q->conf == NULL)
		return 0;
	for (size_t i = 0; i < d->a->conf->nschedules; i++)
		if (is_of(d->a->conf->schedules[i], q) && check_record(d, q, d->a->conf->schedules[i]) == -1)
			return -1;
	return others_each(d, q, compare_schedules);
}
