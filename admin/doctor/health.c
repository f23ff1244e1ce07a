/*
 * Names the queues that are degraded or unhealthy by the last reports of their sweepers, or whose supervisors do not
 * report any more, as `quredis health` shows them, too. Of a cause that another check has found it only names that
 * check.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"

#define REASONS_MOST 32
#define REASON_COLUMNS 640

#define START "start quredisd, with health.enabled, on a host that has the queue: quredis nodes shows where it runs"

/* ---- the reasons of one report ---- */

struct reasons {
	struct buffer texts, commands;
	enum severity worst;		/* of the reasons that no other check has found; OK: there is none */
};

static bool is_about(const struct finding *f, const struct queue_check *q)
{
	return f->queue == q || (f->queue == NULL && f->where != NULL && strcmp(f->where, q->keys.name) == 0);
}

static bool has_found(const struct doctor *d, const struct queue_check *q, const char *check, const char *begins)
{
	const struct finding *f;

	if (check == NULL)
		return false;
	STAILQ_FOREACH(f, &d->findings.list, next)
		if (f->severity != SEVERITY_OK && strcmp(f->check, check) == 0 && is_about(f, q) &&
		    strncmp(f->what, begins, strlen(begins)) == 0)
			return true;
	return false;
}

/* NULL: another version wrote the report, or it is the code of a hold. */
static const struct code_words *words_of(const char *code)
{
	for (size_t i = 0; i < HEALTH_HOLDS; i++)
		if (strcmp(codes_table[i].name, code) == 0)
			return &codes_table[i];
	return NULL;
}

/* NULL: none. The check "supervisor" finds all holds. */
static const char *check_that_found(const struct doctor *d, const struct queue_check *q, const char *code)
{
	const struct code_words *w = words_of(code);

	for (size_t i = 0; w != NULL && i < nitems(w->checks); i++)
		if (has_found(d, q, w->checks[i], ""))
			return w->checks[i];
	for (const struct hold_words *h = holds_table; h < holds_table + HOLDS; h++) {
		if (h->code == NULL || strcmp(h->code, code) != 0)
			continue;
		if (has_found(d, q, h->check, ""))
			return h->check;
		if (has_found(d, q, "supervisor", h->name))
			return "supervisor";
	}
	return NULL;
}

static void append_once(struct buffer *b, char *text)
{
	if (b->len == 0 || strstr(b->data, text) == NULL)
		buffer_format(b, "%s%s", b->len > 0 ? "; " : "", text);
	free(text);
}

static enum severity severity_of(const char *status)
{
	return queue_health_level_of(status) == QUEUE_UNHEALTHY ? SEVERITY_ERROR : SEVERITY_WARNING;
}

static void take_reason(struct reasons *all, const struct doctor *d, const struct queue_check *q, const json_t *reason)
{
	const char *code = json_string_value(json_object_get(reason, "code")),
	    *status = json_string_value(json_object_get(reason, "status"));
	const char *text = json_string_value(json_object_get(reason, "text")), *check;
	const struct code_words *words;

	if (code == NULL || status == NULL || text == NULL)
		return;
	check = check_that_found(d, q, code);
	if (check != NULL) {
		append_once(&all->texts, alloc_format("see check %s", check));
		return;
	}
	append_once(&all->texts, visible(text, strlen(text), REASON_COLUMNS));
	words = words_of(code);
	if (words != NULL && words->before != NULL && !json_is_true(json_object_get(reason, "recovering")))
		append_once(&all->commands,
		    alloc_format("quredis %s %s%s", words->before, q->keys.name, words->after));
	all->worst = severity_of(status) > all->worst ? severity_of(status) : all->worst;
}

/* ---- one queue ---- */

/* A report whose causes other checks have found is only a note: these say how bad they are. */
static void add_bad(struct doctor *d, const struct queue_check *q, const struct queue_health *h)
{
	const json_t *list = json_object_get(h->document, "reasons");
	struct reasons all = {0};
	enum severity severity;

	for (size_t i = 0; i < json_array_size(list) && i < REASONS_MOST; i++)
		take_reason(&all, d, q, json_array_get(list, i));
	severity = all.texts.len == 0 ? severity_of(h->status) : all.worst == SEVERITY_OK ? SEVERITY_NOTE : all.worst;
	findings_advise(findings_add(d, severity, NULL, "%s: %s", h->status,
	    all.texts.len == 0 ? "its report has no reason" : all.texts.data),
	    "%s%s%sall figures: quredis health %s", reports_doubt(h) ? START "; " : "",
	    all.commands.len == 0 ? "" : all.commands.data, all.commands.len == 0 ? "" : "; ", q->keys.name);
	buffer_free(&all.texts);
	buffer_free(&all.commands);
}

/* Also a report of the future is stale: the clock of Redis went back. */
static void add_stale(struct doctor *d, int64_t at_ms, int64_t now_ms)
{
	bool future = at_ms > now_ms;
	char away[UNITS_SIZE];

	units_elapsed(future ? at_ms - now_ms : now_ms - at_ms, away);
	findings_advise(findings_add(d, SEVERITY_WARNING, NULL, "its last report of health is %s %s", away,
	    future ? "ahead of the clock of Redis" : "old"), START);
}

/* ---- all queues ---- */

/* True: a supervisor should judge the queue. A queue that is only in the registry may belong to other programs
 * alone. */
static bool is_judged(const struct doctor *d, const struct queue_check *q)
{
	return d->a->conf->health.enabled && q->readable && (q->conf != NULL || q->lists.nworkers > 0);
}

struct reports {
	struct queue_health *all;	/* those that can be read, also stale ones */
	size_t n;
	bool *broken;			/* of each queue: its report cannot be read */
};

static void take_report(struct reports *r, size_t index, const char *queue, const struct redis_reply *reply)
{
	struct queue_health *h = &r->all[r->n];

	if (reply->type != REDIS_STRING)
		return;
	if (queue_health_parse(h, reply->str, reply->len) == 0 && strcmp(h->queue, queue) == 0) {
		r->n++;
		return;
	}
	queue_health_free(h);
	r->broken[index] = true;
}

static int read_reports(struct doctor *d, struct reports *r, const char *key, int64_t now_ms)
{
	struct redis_reply reply;

	for (size_t i = 0; i < d->queues.n; i++)
		if (d->queues.all[i].readable)
			queue_health_read_one(&d->a->redis, d->queues.all[i].keys.name);
	for (size_t i = 0; i < d->queues.n; i++) {
		if (!d->queues.all[i].readable)
			continue;
		if (admin_reply(d->a, &reply, key) == -1)
			return -1;
		take_report(r, i, d->queues.all[i].keys.name, &reply);
	}
	return reports_confirm(d->a, r->all, &r->n, now_ms);
}

static void judge_report(struct doctor *d, const struct reports *r, size_t index, int64_t now_ms)
{
	const struct queue_check *q = &d->queues.all[index];
	const struct queue_health *h = r->all, *end = r->all + r->n;

	while (h < end && strcmp(h->queue, q->keys.name) != 0)
		h++;
	if (r->broken[index])
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL, "its last report of health cannot be read"),
		    START);
	else if (h == end && is_judged(d, q))
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL, "no supervisor reports its health"), START);
	else if (h < end && queue_health_is_stale(h, now_ms))
		add_stale(d, h->at_ms, now_ms);
	else if (h < end && h->level > QUEUE_HEALTHY)
		add_bad(d, q, h);
}

static int check_reports(struct doctor *d, const char *key)
{
	struct reports r = { .all = alloc_zero(d->queues.n + 1, sizeof(*r.all)),
	    .broken = alloc_zero(d->queues.n + 1, sizeof(*r.broken)) };
	int64_t now_ms;		/* the queues were read some time ago */
	int rc = admin_server_time(d->a, &now_ms) == -1 ? -1 : read_reports(d, &r, key, now_ms);

	for (size_t i = 0; i < d->queues.n && rc == 0; i++) {
		if (!d->queues.all[i].readable)
			continue;
		doctor_enter(d, &d->queues.all[i]);
		judge_report(d, &r, i, now_ms);
		findings_end_check(d);
	}
	doctor_enter(d, NULL);
	reports_free(r.all, r.n);
	free(r.broken);
	return rc;
}

static void check_none(struct doctor *d, const char *key)
{
	size_t i = 0;

	while (i < d->queues.n && !is_judged(d, &d->queues.all[i]))
		i++;
	if (i < d->queues.n)
		findings_advise(findings_add(d, SEVERITY_WARNING, key, "no supervisor reports the health of any queue"),
		    START);
	else
		findings_add(d, SEVERITY_OK, NULL,
		    "skipped: health.enabled is not set here, and no supervisor reports");
}

int check_health(struct doctor *d)
{
	char *key = queue_key_of(&d->a->redis, QUEUE_KEY_HEALTH, NULL);
	struct redis_reply reply;
	int rc;

	redis_appendf(&d->a->redis, "TYPE %s", key);
	rc = admin_reply(d->a, &reply, key);
	if (rc == 0 && strcmp(reply.str, "none") == 0)
		check_none(d, key);
	else if (rc == 0 && strcmp(reply.str, "hash") != 0)
		findings_advise(findings_add(d, SEVERITY_ERROR, key,
		    "it is a %s, but quredis needs a hash: no supervisor can report health", reply.str),
		    "another program uses this key: rename or delete it; supervisors write it again");
	else if (rc == 0)
		rc = check_reports(d, key);
	free(key);
	return rc;
}
