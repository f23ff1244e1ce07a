/* One queue at a time: the types of its keys, what we may do with them, and whether somebody works on what is there. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bsd/stdlib.h>
#include <jansson.h>

#include "admin/doctor.h"

#include "admin/outcome.h"
#include "common/alloc.h"
#include "common/clock.h"
#include "common/queue_admin.h"
#include "common/queue_look.h"
#include "common/queue_rehearsal.h"
#include "common/queue_survey.h"
#include "common/queue_waiting.h"

#define BOUNDS_SLACK 1000	/* so many more may be on their way out: the archive takes 50 at a time */
#define PAUSED_LONG_MS (60 * 60 * 1000)
#define OVERDUE_MS 60000
#define WRAPPED_LOOK 100

static char *elapsed(int64_t ms)
{
	return cell_text(&(struct cell){ .type = CELL_ELAPSED, .value = ms }, SIZE_MAX);
}

/* ---- types ---- */

static void tell_type(struct doctor *d, const char *key, const char *is, const char *wanted)
{
	doctor_advise(doctor_tell(d, SEVERITY_ERROR, key, "it is a %s, and quredis keeps a %s there: what needs it does not work", is, wanted),
	    "another program uses this key: rename or delete it, or give the queue other names");
}

static int check_fixed(struct doctor *d, const struct queue_type *wanted)
{
	struct redis_reply reply;

	for (size_t i = 0; i < QUEUE_SURVEY_TYPES; i++)
		redis_appendf(&d->a->redis, "TYPE %s", wanted[i].key);
	for (size_t i = 0; i < QUEUE_SURVEY_TYPES; i++) {
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (reply.type == REDIS_STATUS && strcmp(reply.str, "none") != 0 && strcmp(reply.str, wanted[i].type) != 0)
			tell_type(d, wanted[i].key, reply.str, wanted[i].type);
	}
	return 0;
}

static void check_trays(struct doctor *d, const struct patient *p)
{
	for (size_t i = 0; i < p->lists.nworkers; i++)
		for (int t = 0; t <= QUEUE_TRAYS; t++) {
			char *key;

			if (p->lists.owners[i].trays[t] != LISTS_WRONG_TYPE)
				continue;
			key = queue_tray_key(&p->keys, p->lists.workers[i].incarnation, t);
			tell_type(d, key, "key of another type", "list");
			free(key);
		}
}

int doctor_types(struct doctor *d, struct patient *p)
{
	struct queue_type wanted[QUEUE_SURVEY_TYPES];
	int rc;

	queue_survey_types_wanted(&p->keys, wanted);
	rc = check_fixed(d, wanted);
	free((void *)(uintptr_t)wanted[QUEUE_SURVEY_OWNED_TYPE].key);
	if (rc == 0)
		check_trays(d, p);
	return rc;
}

/* ---- rights ---- */

/* A right that is missing; what passes by itself, or what workers have another way for, is none. */
static bool is_refusal(const struct redis_reply *reply)
{
	return reply->type == REDIS_ERROR && redis_weather(reply) == REDIS_MISCONFIGURED && !redis_error_is(reply, "WRONGTYPE");
}

static void tell_right(struct doctor *d, const char *step, const char *why)
{
	doctor_advise(doctor_tell(d, SEVERITY_ERROR, NULL, "the user %s may not do \"%s\": %s",
	    d->a->target.user != NULL ? d->a->target.user : "default", step, why),
	    "give it that command, and the keys of the queue: ACL SETUSER");
}

/* The first step that failed is told: the others may only follow from it. */
int doctor_rights(struct doctor *d, struct patient *p)
{
	struct redis_reply reply;
	enum queue_rehearsal what;
	bool told = false;
	char *name;
	size_t n;

	if (p->conf == NULL || d->a->options.dry_run)	/* it writes, if only beside */
		return 0;
	what = queue_rehearsal_of(&p->keys, conf_queue_ages(d->a->conf, p->conf));
	name = alloc_format("doctor:%s", d->a->conf->supervisor.node);
	n = queue_rehearse(&d->a->redis, &p->keys, name, what);
	free(name);
	for (size_t i = 0; i < n; i++) {
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (told)
			continue;
		told = is_refusal(&reply) || (p->conf->dead_letter.enabled && queue_rehearsal_lacks_record(i, what, &reply));
		if (told)
			tell_right(d, queue_rehearsal_step(i, what), reply.type == REDIS_ERROR ? reply.str : "the record cannot be written (XADD)");
	}
	return 0;
}

/* ---- dead letters that should have left ---- */

int doctor_bounds(struct doctor *d, struct patient *p)
{
	const struct conf_dead_letter *conf = p->conf == NULL ? NULL : &p->conf->dead_letter;
	bool leave;
	char *n;

	if (conf == NULL || !conf->enabled || conf->max_entries <= 0 || p->lists.escape <= conf->max_entries)
		return 0;
	leave = conf->archive != NULL || conf->discard;
	if (leave && p->lists.escape - conf->max_entries <= BOUNDS_SLACK)
		return 0;
	n = outcome_count(p->lists.escape);
	doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.escape, "%s of escape, and dead_letter.max_entries is %" PRId64 "%s", n,
	    conf->max_entries, leave ? "" : "; without archive or discard none is removed"),
	    leave ? "if there are not fewer soon, look for queue_trouble of %s in the supervisors' log" :
	    "set dead_letter.archive or dead_letter.discard, or look at quredis dlq stats %s", p->keys.name);
	free(n);
	return 0;
}

/* ---- paused ---- */

static void tell_paused(struct doctor *d, const struct patient *p, const json_t *why)
{
	const char *user = json_string_value(json_object_get(why, "user")), *host = json_string_value(json_object_get(why, "host"));
	const char *stamp = json_string_value(json_object_get(why, "since"));
	int64_t since = stamp == NULL ? -1 : clock_rfc3339_parse(stamp), ms = since == -1 ? -1 : d->server_ms - since;
	char *shown = ms < 0 ? alloc_string("a time that is not known") : elapsed(ms);
	char *n = outcome_count(p->lists.ingress < 0 ? 0 : p->lists.ingress);
	bool known = user != NULL && host != NULL;

	/* Of one that was written by hand nobody knows how old it is: it is not taken for young. */
	doctor_advise(doctor_tell(d, ms >= 0 && ms < PAUSED_LONG_MS ? SEVERITY_NOTE : SEVERITY_WARNING, NULL,
	    "paused for %s%s%s%s%s, with %s waiting", shown, known ? ", by " : "", known ? user : "", known ? " on " : "",
	    known ? host : "", n), "quredis resume %s", p->keys.name);
	free(shown);
	free(n);
}

int doctor_paused(struct doctor *d, struct patient *p)
{
	struct redis_reply reply;
	json_t *why;

	if (!p->lists.paused)
		return 0;
	redis_appendf(&d->a->redis, "GET %s", p->keys.paused);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_NIL)
		return 0;	/* somebody resumed it just now */
	why = reply.type == REDIS_STRING ? json_loadb(reply.str, reply.len, 0, NULL) : NULL;
	tell_paused(d, p, why);
	json_decref(why);
	return 0;
}

/* ---- delayed ---- */

static void tell_delayed_of_shared(struct doctor *d, const struct patient *p)
{
	char *n = outcome_count(p->lists.delayed);

	doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.delayed,
	    "%s delayed in a queue that is shared with other programs: from before it was, or from a host that is not told so", n),
	    "they go to ingress as they were pushed when they are due; shared = true has to be in every host's configuration");
	free(n);
}

/* Each payload that is stored apart has its line in delayed. */
static int tell_payloads_alone(struct doctor *d, const struct patient *p)
{
	struct queue_apart_count count;
	struct redis_reply reply;

	queue_apart_count(&d->a->redis, &p->keys);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (queue_apart_counted(&reply, &count) == 0 && count.payloads > count.delayed)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.delayed_apart,
		    "payloads of %" PRId64 " large messages are named here, but %s holds %" PRId64 " messages: somebody removed some by hand, or Redis refused HDEL", count.payloads,
		    p->keys.delayed, count.delayed), "the keys %s:* hold the payloads; quredis purge %s delayed deletes them, and all that is delayed",
		    p->keys.delayed_apart, p->keys.name);
	return 0;
}

int doctor_delayed(struct doctor *d, struct patient *p)
{
	struct redis_reply reply;
	struct queue_looked first;
	double due;
	char *shown;

	if (tell_payloads_alone(d, p) == -1)
		return -1;
	if (p->lists.delayed <= 0)
		return 0;
	if (p->keys.shared)
		tell_delayed_of_shared(d, p);
	queue_look(&d->a->redis, &(struct queue_look){ .key = p->keys.delayed, .apart = p->keys.delayed_apart, .most = 1, .bytes = 1 });
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (queue_look_count(&reply) != 1)
		return 0;
	queue_looked(&reply, 0, &first);
	due = strtod(first.score.str, NULL);
	if (!isfinite(due) || due < 0) {
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.delayed, "the first of the delayed messages (%" PRId64 ") has no time in ms as its score", p->lists.delayed),
		    "quredis retry %s delayed takes them all before they are due", p->keys.name);
		return 0;
	}
	if ((double)d->server_ms - due < OVERDUE_MS)
		return 0;
	shown = elapsed(d->server_ms - (int64_t)due);
	doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.delayed, "what should have run %s ago still waits: no sweeper looks at it", shown),
	    "start quredisd on a host that has the queue; or quredis retry %s delayed", p->keys.name);
	free(shown);
	return 0;
}

/* ---- shared ---- */

/* At both ends: what comes next, and what came last. */
static int count_wrapped(struct doctor *d, const struct patient *p, int64_t first, int64_t last, int64_t *n)
{
	struct queue_glanced glanced;
	struct redis_reply reply;

	queue_glance(&d->a->redis, p->keys.ingress, first, last);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (queue_glanced(&reply, &glanced) == -1)
		return 0;
	for (size_t i = 0; i < glanced.n; i++) {
		struct redis_reply begins = redis_element(&reply, i);
		struct message m;

		message_parse(&m, &p->keys.lines, begins.str, begins.len);
		*n += m.wrapper_len > 0;
	}
	return 0;
}

int doctor_shared(struct doctor *d, struct patient *p)
{
	int64_t n = 0, waiting = p->lists.ingress, oldest = waiting < WRAPPED_LOOK ? waiting : WRAPPED_LOOK;
	int64_t newest = waiting - oldest < WRAPPED_LOOK ? waiting - oldest : WRAPPED_LOOK;
	char *count;

	if (!p->keys.shared || waiting <= 0)
		return 0;
	if (count_wrapped(d, p, -oldest, -1, &n) == -1 || (newest > 0 && count_wrapped(d, p, 0, newest - 1, &n) == -1))
		return -1;
	if (n == 0)
		return 0;
	count = outcome_count(n);
	doctor_advise(doctor_tell(d, SEVERITY_WARNING, p->keys.ingress,
	    "%s of those next and last in line with a line of quredis's before them, in a queue that is shared with other programs", count),
	    "from before it was shared, or from a host that is not told so: shared = true has to be in every host's configuration");
	free(count);
	return 0;
}

/* ---- workers ---- */

int doctor_workers(struct doctor *d, struct patient *p)
{
	int64_t waiting = p->lists.ingress > 0 ? p->lists.ingress : 0, delayed = p->lists.delayed > 0 ? p->lists.delayed : 0;
	bool none = p->conf != NULL && p->conf->workers == 0;
	char *n;

	if (p->alive > 0 || p->lists.paused || waiting + delayed == 0)
		return 0;
	n = outcome_count(waiting);
	doctor_advise(doctor_tell(d, none ? SEVERITY_NOTE : SEVERITY_WARNING, NULL,
	    "%s waiting, and %" PRId64 " delayed, and no worker is alive%s", n, delayed,
	    none ? " (workers = 0 here)" : p->conf == NULL ? " (it is not in the configuration here)" : ""),
	    p->conf == NULL ? "start quredisd on a host that has the queue, or quredis destroy %s" :
	    none ? "start quredisd on a host that has workers for %s" : "start quredisd, and look at its log for %s", p->keys.name);
	free(n);
	return 0;
}
