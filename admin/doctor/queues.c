/* Checks of one queue: the types of its keys, the rights of this user, and whether workers handle its messages. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bsd/stdlib.h>
#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define BOUNDS_SLACK 1000	/* dead letters above the bound that count as normal: the archive takes 50 at a time */
#define PAUSED_LONG_MS (60 * 60 * 1000)
#define OVERDUE_MS 60000
#define FAR_AHEAD_S INT64_C(3155760000)		/* 100 years */
#define WRAPPERS_LOOK 100	/* messages at each end of ingress */

static char *elapsed(int64_t ms)
{
	return cell_text(&(struct cell){ .type = CELL_ELAPSED, .value = ms }, SIZE_MAX);
}

/* ---- types ---- */

static void add_type(struct doctor *d, const char *key, const char *is, const char *wanted)
{
	findings_advise(findings_add(d, SEVERITY_ERROR, key,
	    "it is a %s, but quredis needs a %s: commands that use it fail", is, wanted),
	    "another program uses this key: rename or delete it, or give the queue other names");
}

/* The first queue stands for all in what they share. */
int check_types(struct doctor *d, struct queue_check *q)
{
	struct queue_types wanted = {0};
	struct redis_reply reply;
	int rc = 0;

	queue_types_add_queue(&wanted, &q->keys, d->server.now_ms);
	if (q == d->queues.all)
		queue_types_add_common(&wanted, d->a->conf->redis.prefix, d->a->conf->supervisor.node);
	queue_types_ask(&d->a->redis, &wanted);
	for (size_t i = 0; i < wanted.n && rc == 0; i++) {
		rc = doctor_reply(d, &reply);
		if (rc == 0 && queue_type_is_wrong(&wanted.of[i], &reply))
			add_type(d, wanted.of[i].key, reply.str, wanted.of[i].type);
	}
	queue_types_free(&wanted);
	for (size_t i = 0; i < q->lists.nworkers && rc == 0; i++)
		for (int t = 0; t <= QUEUE_TRAYS; t++)
			if (q->lists.owners[i].trays[t] == LISTS_WRONG_TYPE) {
				char *key = queue_tray_key(&q->keys, q->lists.workers[i].incarnation, t);

				add_type(d, key, "key of another type", "list");
				free(key);
			}
	return rc;
}

/* ---- rights ---- */

static void add_refused_step(struct doctor *d, const char *step, const struct redis_reply *reply)
{
	char room[QUEUE_ADVICE_SIZE];
	const char *user = doctor_user(d), *advice = queue_refusal_advice(reply->str, room);

	findings_advise(findings_add(d, SEVERITY_ERROR, NULL, redis_error_class(reply) == REDIS_ERROR_PERMISSION ?
	    "Redis does not allow the user %s the step \"%s\": %s"
	    : "Redis refuses all users, also %s, the step \"%s\": %s", user, step, reply->str),
	    "%s", advice != NULL ? advice : "allow the user that command and the keys of the queue: ACL SETUSER");
}

/* Moves a message through every step on keys of its own. Steps after the first refused one may fail because of it. */
int check_rights(struct doctor *d, struct queue_check *q)
{
	enum redis_error_class class;
	struct redis_reply reply;
	bool refused = false;
	unsigned what;
	char *name;
	size_t n;

	if (q->conf == NULL || d->a->options.dry_run)	/* it writes */
		return 0;
	what = queue_rehearsal_of(&q->keys, d->a->conf, q->conf);
	name = alloc_format("doctor:%s", d->a->conf->supervisor.node);
	n = queue_rehearse(&d->a->redis, &q->keys, name, what);
	free(name);
	for (size_t i = 0; i < n; i++) {
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (refused || (!q->conf->dead_letter.enabled && queue_rehearsal_is_of_record(i, what)))
			continue;
		class = redis_error_class(&reply);
		/* not a transient error, nor that of a command for which workers have another one */
		refused = (class == REDIS_ERROR_PERMISSION || class == REDIS_ERROR_NO_COMMAND) &&
		    !queue_fetch_has_substitute(reply.str);
		if (refused)
			add_refused_step(d, queue_rehearsal_step(i, what), &reply);
	}
	return 0;
}

/* ---- bounds ---- */

int check_bounds(struct doctor *d, struct queue_check *q)
{
	const struct conf_dead_letter *conf = q->conf == NULL ? NULL : &q->conf->dead_letter;
	bool removable;
	char *n;

	if (conf == NULL || !conf->enabled || conf->max_entries <= 0 || q->lists.escape <= conf->max_entries)
		return 0;
	removable = conf->archive != NULL || conf->discard;
	if (removable && q->lists.escape - conf->max_entries <= BOUNDS_SLACK)
		return 0;
	n = outcome_count(q->lists.escape);
	findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.escape,
	    "%s in escape, but dead_letter.max_entries is %" PRId64 "%s", n,
	    conf->max_entries, removable ? "" : "; without archive or discard none is removed"),
	    removable ? "if the number does not fall, look for queue_error of %s in the supervisors' log" :
	    "set dead_letter.archive or dead_letter.discard, or see what failed: quredis dlq stats %s", q->keys.name);
	free(n);
	return 0;
}

/* ---- paused ---- */

static void add_paused(struct doctor *d, const struct queue_check *q, const json_t *why)
{
	const char *user = json_string_value(json_object_get(why, "user")),
	    *host = json_string_value(json_object_get(why, "host"));
	const char *stamp = json_string_value(json_object_get(why, "since"));
	int64_t since = stamp == NULL ? -1 : clock_rfc3339_parse(stamp),
	    ms = since == -1 ? -1 : d->server.now_ms - since;
	char *shown = ms < 0 ? alloc_string("an unknown time") : elapsed(ms),
	    *n = outcome_count(q->lists.ingress < 0 ? 0 : q->lists.ingress);
	bool known = user != NULL && host != NULL;

	findings_advise(findings_add(d, ms >= 0 && ms < PAUSED_LONG_MS ? SEVERITY_NOTE : SEVERITY_WARNING, NULL,
	    "paused for %s%s%s%s%s, with %s waiting",
	    shown, known ? ", by " : "", known ? user : "", known ? " on " : "", known ? host : "", n),
	    "quredis resume %s", q->keys.name);
	free(shown);
	free(n);
}

static void add_held(struct doctor *d, const struct queue_check *q, const struct queue_hold *hold)
{
	char *n = outcome_count(q->lists.ingress < 0 ? 0 : q->lists.ingress);

	findings_advise(findings_add(d, SEVERITY_NOTE, NULL, "held by its handler on %s until %s%s%s, with %s waiting",
	    hold->node, hold->until, hold->reason[0] == '\0' ? "" : ": ", hold->reason, n),
	    "quredis resume %s", q->keys.name);
	free(n);
}

int check_paused(struct doctor *d, struct queue_check *q)
{
	struct redis_reply reply;
	struct queue_hold hold;
	json_t *why;

	if (!q->lists.paused)
		return 0;
	redis_appendf(&d->a->redis, "GET %s", q->keys.paused);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_NIL)
		return 0;	/* it was resumed since */
	if (reply.type == REDIS_STRING && queue_hold_parse(&hold, reply.str, reply.len)) {
		add_held(d, q, &hold);
		return 0;
	}
	why = reply.type == REDIS_STRING ? json_loadb(reply.str, reply.len, 0, NULL) : NULL;
	add_paused(d, q, why);
	json_decref(why);
	return 0;
}

/* ---- delayed ---- */

/* A large delayed message has a line in delayed and a payload in a key of its own. */
static int check_payloads(struct doctor *d, const struct queue_check *q)
{
	struct queue_apart_count count;
	struct redis_reply reply;

	queue_apart_count(&d->a->redis, &q->keys);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (queue_apart_counted(&reply, &count) == 0 && count.payloads > count.delayed)
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.delayed_apart,
		    "payloads of large messages: %" PRId64 ", but %s holds %" PRId64 " messages: another program "
		    "removed some, or Redis refused HDEL", count.payloads, q->keys.delayed, count.delayed),
		    "the keys %s:* hold the payloads; quredis purge %s delayed deletes them, and all delayed messages",
		    q->keys.delayed_apart, q->keys.name);
	return 0;
}

static int check_overdue(struct doctor *d, const struct queue_check *q)
{
	struct redis_reply reply;
	struct queue_looked first;
	double due;
	char *shown;

	queue_look(&d->a->redis, &(struct queue_look){ .key = q->keys.delayed, .apart = q->keys.delayed_apart,
	    .most = 1, .bytes = 1 });
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (queue_look_count(&reply) != 1)
		return 0;
	queue_looked(&reply, 0, &first);
	due = strtod(first.score.str, NULL);
	if (!isfinite(due) || due < 0) {
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.delayed,
		    "the score of the first of %" PRId64 " delayed messages is not a time in ms",
		    q->lists.delayed - q->lists.pushed), "quredis retry %s delayed moves all of them to ingress now",
		    q->keys.name);
	} else if ((double)d->server.now_ms - due >= OVERDUE_MS) {
		shown = elapsed(d->server.now_ms - (int64_t)due);
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.delayed,
		    "the first message has been due for %s: no sweeper moves it", shown),
		    "start quredisd on a host that has the queue; or quredis retry %s delayed", q->keys.name);
		free(shown);
	}
	return 0;
}

/* A producer that writes its time in ms means a time tens of thousands of years ahead: its message waits, and nothing
 * fails. */
static int check_pushed(struct doctor *d, const struct queue_check *q)
{
	struct redis_reply reply;
	char *n;

	if (q->lists.pushed == 0)
		return 0;
	redis_appendf(&d->a->redis, "ZCOUNT %s %d +inf", q->keys.pushed, d->server.now_ms / 1000 + FAR_AHEAD_S);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type != REDIS_INTEGER || reply.integer <= 0)
		return 0;
	n = outcome_count(reply.integer);
	findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.pushed,
	    "%s delayed by a producer for more than 100 years: the time is in seconds, and ms look so", n),
	    "correct the producer; quredis peek %s delayed shows them, and quredis retry moves one, or all that are "
	    "delayed, to ingress now", q->keys.name);
	free(n);
	return 0;
}

int check_delayed(struct doctor *d, struct queue_check *q)
{
	char *n;

	if (check_payloads(d, q) == -1 || check_pushed(d, q) == -1)
		return -1;
	if (q->lists.delayed <= q->lists.pushed)
		return 0;
	if (q->keys.shared) {
		n = outcome_count(q->lists.delayed - q->lists.pushed);
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.delayed,
		    "%s delayed in a queue that is shared with other programs", n),
		    "they return to ingress unwrapped when they are due; set shared = true in the configuration of "
		    "every host");
		free(n);
	}
	return check_overdue(d, q);
}

/* ---- shared ---- */

static int count_wrappers(struct doctor *d, const struct queue_check *q, int64_t first, int64_t last, int64_t *n)
{
	struct queue_glanced glanced;
	struct redis_reply reply;

	queue_glance(&d->a->redis, q->keys.ingress, first, last);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (queue_glanced(&reply, &glanced) == -1)
		return 0;
	for (size_t i = 0; i < glanced.n; i++) {
		struct redis_reply begins = redis_element(&reply, i);
		struct message m;

		message_parse(&m, &q->keys.lines, begins.str, begins.len);
		*n += m.wrapper_len > 0;
	}
	return 0;
}

/* Looks at both ends of ingress: the next messages, and the newest ones. */
int check_shared(struct doctor *d, struct queue_check *q)
{
	int64_t n = 0, waiting = q->lists.ingress, oldest = waiting < WRAPPERS_LOOK ? waiting : WRAPPERS_LOOK;
	int64_t newest = waiting - oldest < WRAPPERS_LOOK ? waiting - oldest : WRAPPERS_LOOK;
	char *count;

	if (!q->keys.shared || waiting <= 0)
		return 0;
	if (count_wrappers(d, q, -oldest, -1, &n) == -1 ||
	    (newest > 0 && count_wrappers(d, q, 0, newest - 1, &n) == -1))
		return -1;
	if (n > 0) {
		count = outcome_count(n);
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.ingress,
		    "%s with a wrapper of quredis at the ends of ingress, in a queue that is shared with other "
		    "programs", count),
		    "a host without shared = true wrote them: set it in the configuration of every host");
		free(count);
	}
	return 0;
}

/* ---- workers ---- */

/* The supervisor of this host runs the queue with no worker, since an operator wants it so. */
static bool is_scaled_down(const struct doctor *d, const char *queue)
{
	const json_t *row, *wanted;
	size_t i;

	json_array_foreach(json_object_get(d->supervisor.status, "queues"), i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		wanted = json_object_get(json_object_get(row, "workers"), "wanted");
		if (name != NULL && strcmp(name, queue) == 0)
			return json_is_integer(wanted) && json_integer_value(wanted) == 0;
	}
	return false;
}

int check_workers(struct doctor *d, struct queue_check *q)
{
	int64_t waiting = q->lists.ingress > 0 ? q->lists.ingress : 0,
	    delayed = q->lists.delayed > 0 ? q->lists.delayed : 0;
	bool none = q->conf != NULL && q->conf->workers == 0, scaled = !none && is_scaled_down(d, q->keys.name);
	char *n;

	/* check_secret() says why */
	if (q->alive > 0 || q->lists.paused || waiting + delayed == 0 || queue_secret_lost()[0] != '\0')
		return 0;
	n = outcome_count(waiting);
	findings_advise(findings_add(d, none ? SEVERITY_NOTE : SEVERITY_WARNING, NULL,
	    "%s waiting, and %" PRId64 " delayed, but no worker is alive%s", n, delayed,
	    none ? " (workers = 0 here)" : scaled ? " (scaled to 0 here)" : q->conf == NULL
	    ? " (this configuration does not have the queue)" : ""),
	    q->conf == NULL ? "start quredisd on a host that has the queue, or quredis destroy %s" :
	    none ? "start quredisd on a host that has workers for %s" :
	    scaled ? "quredis reload, or quredis scale %s N" : "start quredisd, and read its log about %s",
	    q->keys.name);
	free(n);
	return 0;
}
