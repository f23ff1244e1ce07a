/* Checks what limits the starts of a queue: its key, and whether all hosts have the same figures. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SAME "set rate and burst of %s to the same on all hosts, then: quredis reload"

/* All hosts start as many messages as the figures allow that one of them loaded last. */
static void compare_figures(struct doctor *d, const struct queue_check *q, const struct queue_throttle_figures *count)
{
	const struct conf_rate *own = &q->conf->rate;
	char here[CONF_RATE_TEXT_SIZE], there[CONF_RATE_TEXT_SIZE];

	if (count->n == own->n && count->per_ms == own->per_ms && count->burst == q->conf->burst)
		return;
	findings_advise(findings_add(d, SEVERITY_WARNING, q->keys.throttle,
	    "the rate here is %s with burst %" PRId64 ", but %s with burst %" PRId64 " counts, which %s loaded last",
	    conf_rate_text(own, here), q->conf->burst,
	    conf_rate_text(&(struct conf_rate){ count->n, count->per_ms }, there), count->burst, count->node),
	    SAME, q->keys.name);
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
		    "it holds something that quredis did not write: the next start replaces it, and counts anew"),
		    "find the program that writes this key");
	return 0;
}

/* ---- other hosts, by the reports of their nodes ---- */

/* Both have a rate. A throttle counts the starts of all its queues, the rate of a queue only its own. */
static void compare_names(struct doctor *d, const struct queue_check *q, const char *node, const char *there)
{
	const char *here = q->conf->throttle;

	if (here == NULL ? there == NULL : there != NULL && strcmp(here, there) == 0)
		return;
	findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
	    "its starts here are counted by %s%s, those of %s by %s%s: each allows its own", here == NULL ?
	    "its own rate" : "throttle ", here == NULL ? "" : here, node, there == NULL ? "its own rate" : "throttle ",
	    there == NULL ? "" : there), "set throttle of %s to the same on all hosts, then: quredis reload",
	    q->keys.name);
}

/* An older report, or none, does not tell. */
static void compare_node(struct doctor *d, const struct queue_check *q, const char *node, const json_t *report)
{
	const json_t *row = queue_node_row(report, q->keys.name), *rate = json_object_get(row, "rate");
	char here[CONF_RATE_TEXT_SIZE];

	if (rate == NULL || (!json_is_string(rate) && q->conf->rate.n == 0))
		return;
	if (json_is_string(rate) && q->conf->rate.n > 0)
		compare_names(d, q, node, json_string_value(json_object_get(row, "throttle")));
	else if (q->conf->rate.n > 0)
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
		    "%s has no rate for it, so its handlers start without limit; the rate here is %s", node,
		    conf_rate_text(&q->conf->rate, here)), SAME, q->keys.name);
	else
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
		    "there is no rate here, so handlers of this host start without limit; that of %s is %s", node,
		    json_string_value(rate)), SAME, q->keys.name);
}

int check_throttle(struct doctor *d, struct queue_check *q)
{
	if (q->conf == NULL)
		return 0;
	if (q->conf->rate.n > 0 && check_key(d, q) == -1)
		return -1;
	return others_each(d, q, compare_node);
}
