/*
 * quredis stale: counts the messages and entries that the rules of purge{} would take, queue by queue. Operators run it
 * before they switch the rules on, and during a dry run, which logs the messages. It judges each queue with its
 * leader's knowledge of the server's clock.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/moves/moves.h"
#include "admin/moves/stale.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

static const struct {
	const char *list, *rule;
	size_t limit;			/* offset in struct conf_purge */
} rules[STALE_RULES] = {
	[STALE_INGRESS] = { "ingress", "max_ingress_age", offsetof(struct conf_purge, max_ingress_age_ms) },
	[STALE_MESSAGE] = { "ingress", "max_message_age", offsetof(struct conf_purge, max_message_age_ms) },
	[STALE_DELAYED] = { "delayed", "max_message_age", offsetof(struct conf_purge, max_message_age_ms) },
	[STALE_DONE] = { "done", "max_done_age", offsetof(struct conf_purge, max_done_age_ms) },
	[STALE_RECORDS] = { "records", "max_orphaned_age", offsetof(struct conf_purge, max_orphaned_age_ms) },
};

static int64_t limit_of(const struct stale *s, int rule)
{
	int64_t ms;

	memcpy(&ms, (const char *)&s->conf->purge + rules[rule].limit, sizeof(ms));
	return ms;
}

/* ---- counting ---- */

void stale_begin(struct stale *s, enum stale_rule rule)
{
	s->looked |= 1u << rule;
}

void stale_add(struct stale *s, enum stale_rule rule, int64_t age_ms)
{
	struct stale_count *c = &s->counts[rule];

	c->count++;
	if (age_ms > c->oldest_ms)
		c->oldest_ms = age_ms;
}

static int look_at_leader(struct admin *a, struct stale *s)
{
	struct redis_reply reply;
	json_t *report;

	queue_leader(&a->redis, &s->keys);
	if (admin_reply(a, &reply, s->keys.sweeper) == -1)
		return -1;
	s->leader = queue_leader_node(&reply);
	if (s->leader == NULL)
		return 0;
	queue_node_read(&a->redis, s->leader);
	if (admin_reply(a, &reply, s->leader) == -1)
		return -1;
	report = reply.type == REDIS_STRING ? json_loadb(reply.str, reply.len, 0, NULL) : NULL;
	queue_node_reported_clock(report, &s->clock);
	json_decref(report);
	return 0;
}

/* A key of the wrong type prevents only the count of its own entries. */
static int count_stale(struct admin *a, struct stale *s)
{
	static int (*const looks[])(struct admin *a, struct stale *s) = { stale_waiting, stale_done, stale_records };
	int rc = 0;

	if (look_at_leader(a, s) == -1 || admin_server_time(a, &s->clock.now_ms) == -1)
		return -1;
	s->clock.latest_ms = s->clock.now_ms;
	for (size_t i = 0; i < nitems(looks) && a->redis.state == REDIS_READY; i++)
		if (looks[i](a, s) == -1)
			rc = -1;
	return rc;
}

/* Goes on with the other queues if one cannot be read. */
static int look_at_each(struct admin *a, struct stale *all, size_t n)
{
	char complaint[COMPLAINT_SIZE];

	for (size_t i = 0; i < n; i++) {
		int rc;

		a->complaint = complaint;
		rc = count_stale(a, &all[i]);
		a->complaint = NULL;
		if (rc == -1 && a->redis.state != REDIS_READY)
			return admin_fail(a, a->status, "%s", complaint);
		if (rc == -1)
			all[i].error = alloc_string(complaint);
	}
	return 0;
}

/* ---- output ---- */

static json_t *row_of(const struct stale *s, int rule)
{
	const struct stale_count *c = &s->counts[rule];

	return json_pack("{s:s, s:s, s:I, s:I, s:o}", "list", rules[rule].list, "rule", rules[rule].rule,
	    "limit_ms", (json_int_t)limit_of(s, rule),
	    "count", (json_int_t)c->count, "oldest_ms", c->count > 0 ? json_integer(c->oldest_ms) : json_null());
}

static json_t *queue_of(const struct stale *s)
{
	json_t *o = json_pack("{s:s, s:s?}", "name", s->keys.name, "leader", s->leader), *all = json_array();

	for (int i = 0; i < STALE_RULES; i++)
		if ((s->looked & 1u << i) != 0)
			json_array_append_new(all, row_of(s, i));
	if (s->error != NULL)
		json_object_set_new(o, "error", json_string(s->error));
	json_object_set_new(o, "rules", all);
	return o;
}

static void show_json(struct admin *a, const struct stale *all, size_t n, bool interrupted)
{
	json_t *queues = json_array(), *o;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(queues, queue_of(&all[i]));
	o = json_pack("{s:b, s:b, s:b, s:o}", "enabled", a->conf->purge.enabled, "dry_run", a->conf->purge.dry_run,
	    "interrupted", interrupted, "queues", queues);
	output_json_document(&a->output, o);
	json_decref(o);
}

/* On a terminal, of all queues only what the rules would take; the other rows would move it off the screen. */
static bool is_shown(const struct admin *a, const struct stale_count *c)
{
	return !a->output.terminal || a->noperands > 0 || c->count > 0;
}

static bool any_shown(const struct admin *a, const struct stale *all, size_t n)
{
	bool any = false;

	for (size_t i = 0; i < n; i++)
		for (int r = 0; r < STALE_RULES; r++)
			any = any || is_shown(a, &all[i].counts[r]);
	return any;
}

static void show_table(struct admin *a, const struct stale *all, size_t n)
{
	static const struct column columns[] = {
		{ NULL, "Queue", COLUMN_NAME }, { NULL, "List", COLUMN_NAME }, { NULL, "Rule", COLUMN_NAME },
		{ NULL, "Limit", COLUMN_NUMBER }, { NULL, "Stale", COLUMN_NUMBER }, { NULL, "Oldest", COLUMN_NUMBER },
	};

	output_begin(&a->output, columns, nitems(columns));
	for (size_t i = 0; i < n; i++) {
		const struct stale *s = &all[i];

		for (int r = 0; r < STALE_RULES; r++)
			if ((s->looked & 1u << r) != 0 && is_shown(a, &s->counts[r]))
				output_row(&a->output,
				    (struct cell[]){ cell_str(s->keys.name), cell_str(rules[r].list),
				    cell_str(rules[r].rule), cell_elapsed(limit_of(s, r)), cell_int(s->counts[r].count),
				    s->counts[r].count > 0 ? cell_elapsed(s->counts[r].oldest_ms) : cell_none() });
	}
	output_end(&a->output, true);
}

/* Prints explanations that the figures alone do not give. */
static void print_notes(struct admin *a, const struct stale *all, size_t n, bool interrupted)
{
	size_t unled = 0, nothing = 0;

	for (size_t i = 0; i < n; i++) {
		unled += all[i].leader == NULL;
		for (int r = 0; r < STALE_RULES; r++)
			nothing += (all[i].looked & 1u << r) != 0 && !is_shown(a, &all[i].counts[r]);
		if (all[i].error != NULL)
			admin_fail(a, a->status, "%s: %s", all[i].keys.name, all[i].error);
	}
	if (interrupted)
		admin_note("interrupted: the numbers are lower bounds");
	if (a->options.json)
		return;
	if (nothing > 0)
		admin_note("%zu rule%s would take nothing: quredis stale QUEUE shows %s", nothing,
		    nothing == 1 ? "" : "s", nothing == 1 ? "it" : "them");
	if (!a->conf->purge.enabled)
		admin_note("purge.enabled = false: none of it is taken");
	else if (a->conf->purge.dry_run)
		admin_note("purge.dry_run = true: none of it is taken, supervisors name each in their logs");
	if (unled > 0)
		admin_note("%zu of %zu queue%s %s no supervisor that stamps and purges: messages without a time in "
		    "their header have no age there", unled, n, n == 1 ? "" : "s", unled == 1 ? "has" : "have");
}

/* ---- choosing queues ---- */

/* The rules come from the configuration of this host, which has none for a queue that is only in the registry. */
static int find_queues(struct admin *a, struct stale *all, size_t *n)
{
	const struct conf_queue *named = a->noperands == 0 ? NULL : conf_queue_find(a->conf, a->operands[0]);

	if (a->noperands > 0 && named == NULL && lookup_queue(a, a->operands[0], &a->keys) == -1)
		return -1;
	if (a->noperands > 0 && named == NULL)
		return admin_fail(a, EX_NOINPUT,
		    "%s is not in the configuration here: no rule of purge is known for it", a->keys.name);
	for (size_t i = 0; i < a->conf->nqueues; i++) {
		if (named != NULL && a->conf->queues[i] != named)
			continue;
		all[*n].conf = a->conf->queues[i];
		queue_keys_from_conf(&all[(*n)++].keys, a->conf, a->conf->queues[i]);
	}
	return 0;
}

int cmd_stale(struct admin *a)
{
	struct stale *all = alloc_zero(a->conf->nqueues + 1, sizeof(*all));
	bool interrupted;
	size_t n = 0;
	int rc = find_queues(a, all, &n);

	interrupt_begin();
	if (rc == 0)
		rc = look_at_each(a, all, n);
	interrupted = interrupt_asked();
	if (rc == 0 && a->options.json)
		show_json(a, all, n, interrupted);
	else if (rc == 0 && any_shown(a, all, n))
		show_table(a, all, n);
	if (rc == 0)
		print_notes(a, all, n, interrupted);
	for (size_t i = 0; i < n; i++) {
		queue_keys_free(&all[i].keys);
		free(all[i].leader);
		free(all[i].error);
	}
	free(all);
	interrupt_end();
	return rc;
}
