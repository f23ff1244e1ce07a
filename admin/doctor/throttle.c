/* Checks what limits the starts of a queue: its keys, and whether all hosts have the same figures. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

/* The figures stand in the queue, or in the throttle that it names. */
static void advise_same(struct finding *f, const struct queue_check *q, const char *throttle, const char *figures)
{
	findings_advise(f, "set %s of %s%s to the same on all hosts, then: quredis reload", figures,
	    throttle == NULL ? "" : "throttle ", throttle == NULL ? q->keys.name : throttle);
}

/* All hosts start as many messages as the figures allow that one of them loaded last. */
static void compare_figures(struct doctor *d, const struct queue_check *q, const struct queue_throttle_figures *count)
{
	const struct conf_rate *own = &q->conf->rate;
	char here[CONF_RATE_TEXT_SIZE], there[CONF_RATE_TEXT_SIZE];

	if (count->n == own->n && count->per_ms == own->per_ms && count->burst == q->conf->burst)
		return;
	advise_same(findings_add(d, SEVERITY_WARNING, q->keys.throttle,
	    "the rate here is %s with burst %" PRId64 ", but %s with burst %" PRId64 " counts, which %s loaded last",
	    conf_rate_text(own, here), q->conf->burst,
	    conf_rate_text(&(struct conf_rate){ count->n, count->per_ms }, there), count->burst, count->node),
	    q, q->conf->throttle, "rate and burst");
}

static int check_key(struct doctor *d, const struct queue_check *q)
{
	struct queue_throttle_figures count;
	struct redis_reply reply;

	queue_throttle_figures(&d->a->redis, &q->keys);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ERROR)
		findings_advise(findings_add(d, SEVERITY_ERROR, q->keys.throttle,
		    "Redis does not give it, so no message of the queue starts: %s", reply.str),
		    "allow this user to read the key; if it has another type, another program uses it: rename or "
		    "delete it");
	else if (queue_throttle_figures_parse(&reply, &count) == 0)
		compare_figures(d, q, &count);
	else if (reply.type != REDIS_NIL)
		findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.throttle,
		    "it holds something that quredis did not write: the next start or load replaces it"),
		    "find the program that writes this key");
	return 0;
}

/* ---- seats ---- */

/* The names of a queue that have seats. A throttle may have names of other queues, too. */
struct seat_names {
	const char *queue;
	char **of;			/* owned */
	size_t n;
};

static void collect_name(void *arg, const char *incarnation, int64_t n, const char *queue, const char *value)
{
	struct seat_names *names = arg;

	(void)n, (void)value;
	if (strcmp(queue, names->queue) != 0)
		return;
	names->of = alloc_resize(names->of, names->n + 1, sizeof(*names->of));
	names->of[names->n++] = alloc_string(incarnation);
}

static void compare_limits(struct doctor *d, const struct queue_check *q, const struct queue_seats_seen *seen)
{
	if (seen->foreign)
		findings_advise(findings_add(d, SEVERITY_ERROR, q->keys.seats,
		    "it has a field that quredis does not write: %s", seen->strange),
		    "HDEL %s FIELD, and find the program that writes there", q->keys.seats);
	if (seen->limit.max > 0 && seen->limit.max != q->conf->max_in_flight)
		advise_same(findings_add(d, SEVERITY_WARNING, q->keys.seats, "max_in_flight here is %" PRId64
		    ", but %" PRId64 " counts, which %s loaded last", q->conf->max_in_flight, seen->limit.max,
		    seen->limit.node), q, q->conf->throttle, "max_in_flight");
}

/* The registrations are read after the seats: a worker registers before it takes one. */
static int find_unknown(struct doctor *d, const struct queue_check *q, const struct seat_names *names)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;

	queue_workers(&d->a->redis, &q->keys);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	for (size_t i = 0; i < names->n && reply.type == REDIS_ARRAY; i++)
		if (queue_workers_find(workers, n, names->of[i]) == NULL)
			findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.seats,
			    "%s has seats, but is not registered, so no sweeper frees them", names->of[i]),
			    "if no such worker lives: HDEL %s %s", q->keys.seats, names->of[i]);
	queue_workers_free(workers, n);
	return 0;
}

static int check_seats(struct doctor *d, const struct queue_check *q)
{
	struct seat_names names = { .queue = q->keys.name };
	struct queue_seats_seen seen;
	struct redis_reply reply;
	int rc = 0;

	queue_seats_read(&d->a->redis, &q->keys);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ERROR)
		findings_advise(findings_add(d, SEVERITY_ERROR, q->keys.seats,
		    "Redis does not give it, so no message of the queue starts: %s", reply.str),
		    "allow this user to read the key; if it has another type, another program uses it: rename or "
		    "delete it");
	if (queue_seats_each(&reply, &seen, collect_name, &names) == 0) {
		compare_limits(d, q, &seen);
		rc = names.n == 0 ? 0 : find_unknown(d, q, &names);
	}
	for (size_t i = 0; i < names.n; i++)
		free(names.of[i]);
	free(names.of);
	return rc;
}

/* ---- other hosts, by the reports of their nodes ---- */

/* Both have a limit. A throttle counts the starts of all its queues, the limit of a queue only its own. */
static void compare_names(struct doctor *d, const struct queue_check *q, const char *node, const char *there)
{
	const char *here = q->conf->throttle;

	if (here == NULL ? there == NULL : there != NULL && strcmp(here, there) == 0)
		return;
	findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
	    "its starts here are counted by %s%s, those of %s by %s%s: each allows its own",
	    here == NULL ? "its own limits" : "throttle ", here == NULL ? "" : here, node,
	    there == NULL ? "its own limits" : "throttle ", there == NULL ? "" : there),
	    "set throttle of %s to the same on all hosts, then: quredis reload", q->keys.name);
}

/* A host without a limit, or with another throttle, is named. */
static void compare_seats(struct doctor *d, const struct queue_check *q, const char *node, const json_t *row)
{
	const json_t *max = json_object_get(row, "max_in_flight");
	bool here = q->conf->max_in_flight > 0, there = json_is_integer(max);

	if (max == NULL || (!here && !there))
		return;
	if (here && there && q->conf->rate.n == 0)
		compare_names(d, q, node, json_string_value(json_object_get(row, "throttle")));
	else if (here != there)
		advise_same(findings_add(d, SEVERITY_WARNING, NULL, here ?
		    "%s has no max_in_flight for it, so its messages run beside those that are counted" :
		    "there is no max_in_flight here, so messages of this host run beside those that %s counts",
		    node), q, here ? q->conf->throttle : json_string_value(json_object_get(row, "throttle")),
		    "max_in_flight");
}

/* An older report, or none, does not tell. */
static void compare_node(struct doctor *d, const struct queue_check *q, const char *node, const json_t *report)
{
	const json_t *row = queue_node_row(report, q->keys.name), *rate = json_object_get(row, "rate");
	char here[CONF_RATE_TEXT_SIZE];

	compare_seats(d, q, node, row);
	if (rate == NULL || (!json_is_string(rate) && q->conf->rate.n == 0))
		return;
	if (json_is_string(rate) && q->conf->rate.n > 0)
		compare_names(d, q, node, json_string_value(json_object_get(row, "throttle")));
	else if (q->conf->rate.n > 0)
		advise_same(findings_add(d, SEVERITY_WARNING, NULL,
		    "%s has no rate for it, so its handlers start without limit; the rate here is %s", node,
		    conf_rate_text(&q->conf->rate, here)), q, q->conf->throttle, "rate and burst");
	else
		advise_same(findings_add(d, SEVERITY_WARNING, NULL,
		    "there is no rate here, so handlers of this host start without limit; that of %s is %s", node,
		    json_string_value(rate)), q, json_string_value(json_object_get(row, "throttle")), "rate and burst");
}

int check_throttle(struct doctor *d, struct queue_check *q)
{
	if (q->conf == NULL)
		return 0;
	if (q->conf->rate.n > 0 && check_key(d, q) == -1)
		return -1;
	if (q->keys.seats != NULL && check_seats(d, q) == -1)
		return -1;
	return others_each(d, q, compare_node);
}
