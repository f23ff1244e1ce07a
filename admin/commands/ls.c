/*
 * quredis ls: lists the named queues, or every one of the configuration and the registry, with the lengths of its lists
 * and, if a supervisor reports health, what is wrong: the worst first.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

struct listed_queue {
	const struct registry_queue *queue;
	struct lists lists;
	/* of its last report, unless that is stale; NULL: none. reasons also where no supervisor has the queue */
	char *health, *reasons;
	/* the reasons, for people: with the age of the report, since the lengths are of this moment */
	char *dated;
	int64_t at_ms;			/* when the queue was judged */
	int badness;			/* reports_badness(); 0: no report */
};

enum { NAME, INGRESS, TRANSIT, ESCAPE, INGRESS_KEY, TRANSIT_KEY, ESCAPE_KEY, FIGURES, CONFIGURED,
	HEALTH, HEALTH_AT, REASONS, REASON,	/* these only if there is a report */
	NCOLUMNS };

static const struct column all_columns[NCOLUMNS] = {
	[NAME] = { "name", "Name", COLUMN_NAME },
	[INGRESS] = { NULL, NULL, COLUMN_NAME },	/* the title is that of the figure */
	[TRANSIT] = { NULL, NULL, COLUMN_NAME | YIELDS(13) },
	[ESCAPE] = { NULL, NULL, COLUMN_NAME | YIELDS(14) },
	[INGRESS_KEY] = { "ingress", NULL, COLUMN_NAME },
	[TRANSIT_KEY] = { "transit", NULL, COLUMN_NAME },
	[ESCAPE_KEY] = { "escape", NULL, COLUMN_NAME },
	[FIGURES] = { NULL, NULL, FIGURES_OF(IN_LS) },
	[CONFIGURED] = { "configured", NULL, COLUMN_NAME },
	[HEALTH] = { "health", "Health", COLUMN_STATE },
	[HEALTH_AT] = { "health_at", NULL, COLUMN_NAME },
	[REASONS] = { "reasons", NULL, COLUMN_TEXT },
	[REASON] = { NULL, "Reason", COLUMN_TEXT },
};
#define FIXED_WIDTH 25		/* of Delayed and Paused, with the indent and the gaps between all columns */
#define HEALTH_WIDTH 11

/* "ingress:mail (3)"; without a key "3" */
static char *key_and_size(const char *key, int64_t size)
{
	if (key == NULL)
		return size == LISTS_WRONG_TYPE ? alloc_string("wrong type") : alloc_format("%" PRId64, size);
	return size == LISTS_WRONG_TYPE ? alloc_format("%s (wrong type)", key)
	    : alloc_format("%s (%" PRId64 ")", key, size);
}

/* The columns that the widest name and keys take; the reason stands below if it must. */
static size_t width_with_keys(const struct listed_queue *entries, size_t n, bool health)
{
	size_t widest[ESCAPE + 1] = {0}, all = FIXED_WIDTH + (health ? HEALTH_WIDTH : 0);

	for (size_t i = 0; i < n; i++) {
		const struct queue_keys *k = &entries[i].queue->keys;
		const struct lists *l = &entries[i].lists;
		char *texts[ESCAPE + 1] = { [NAME] = alloc_string(k->name),
			[INGRESS] = key_and_size(k->ingress, l->ingress),
			[TRANSIT] = key_and_size(k->transit, l->transit),
			[ESCAPE] = key_and_size(k->escape, l->escape) };

		for (size_t c = 0; c < nitems(widest); c++) {
			size_t columns = visible_columns(texts[c]);

			widest[c] = columns > widest[c] ? columns : widest[c];
			free(texts[c]);
		}
	}
	for (size_t c = 0; c < nitems(widest); c++)
		all += widest[c];
	return all;
}

/* Keys repeat the name of the queue as a rule: where they have no room, the table has only the numbers. */
static void choose_columns(size_t width, struct column columns[NCOLUMNS], const struct listed_queue *entries, size_t n,
    bool health)
{
	static const enum fact shown[] = { [INGRESS] = FACT_INGRESS_SIZE, [TRANSIT] = FACT_TRANSIT_SIZE,
	    [ESCAPE] = FACT_ESCAPE_SIZE };

	memcpy(columns, all_columns, sizeof(all_columns));
	for (int i = INGRESS; i <= ESCAPE; i++)
		columns[i].title = facts_table[shown[i]].title;
	for (int i = INGRESS; width_with_keys(entries, n, health) > width && i <= ESCAPE; i++)
		columns[i].kind += COLUMN_FIGURE - COLUMN_NAME;
}

static struct cell text_cell(const char *text)
{
	return cell_str(text == NULL || text[0] == '\0' ? NULL : text);
}

static void show_queue(struct admin *a, const struct listed_queue *e, bool keys)
{
	const struct queue_keys *k = &e->queue->keys;
	const struct lists *l = &e->lists;
	char *ingress = key_and_size(keys ? k->ingress : NULL, l->ingress),
	    *transit = key_and_size(keys ? k->transit : NULL, l->transit);
	char *escape = key_and_size(keys ? k->escape : NULL, l->escape);
	struct facts f = facts_unknown();

	_Static_assert(LISTS_WRONG_TYPE == -1, "an unknown figure");
	f.n[FACT_INGRESS_SIZE] = l->ingress;
	f.n[FACT_TRANSIT_SIZE] = l->transit;
	f.n[FACT_ESCAPE_SIZE] = l->escape;
	f.n[FACT_DELAYED_SIZE] = l->delayed;
	f.n[FACT_PAUSED] = l->paused;
	output_row(&a->output, (struct cell[]){ cell_str(k->name), cell_str(ingress), cell_str(transit),
	    cell_str(escape),
	    cell_str(k->ingress), cell_str(k->transit), cell_str(k->escape), cell_facts(&f),
	    cell_bool(e->queue->configured), cell_str(e->health),
	    e->health == NULL ? cell_none() : cell_time(e->at_ms), text_cell(e->reasons), text_cell(e->dated) });
	if (l->ingress == LISTS_WRONG_TYPE || l->transit == LISTS_WRONG_TYPE || l->escape == LISTS_WRONG_TYPE ||
	    l->delayed == LISTS_WRONG_TYPE)
		a->status = EX_CONFIG;
	free(ingress);
	free(transit);
	free(escape);
}

static int by_badness(const void *a, const void *b)
{
	const struct listed_queue *x = a, *y = b;

	return x->badness != y->badness ? y->badness - x->badness : strcmp(x->queue->keys.name, y->queue->keys.name);
}

static int measure(struct admin *a, struct listed_queue *entries, size_t n)
{
	for (size_t i = 0; i < n; i++)
		lists_ask(a, &entries[i].queue->keys);
	for (size_t i = 0; i < n; i++)
		if (lists_take(a, &entries[i].lists) == -1)
			return -1;
	for (size_t i = 0; i < n; i++)
		lists_ask_trays(a, &entries[i].queue->keys, &entries[i].lists);
	for (size_t i = 0; i < n; i++)
		if (lists_take_trays(a, &entries[i].lists) == -1)
			return -1;
	return 0;
}

static bool show_report(struct listed_queue *entries, size_t n, struct queue_health *h, int64_t server_ms)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(entries[i].queue->keys.name, h->queue) == 0 && entries[i].health == NULL) {
			if (!entries[i].lists.paused)
				reports_end_pause(h);
			entries[i].health = alloc_string(h->status);
			entries[i].reasons = health_reasons(h, server_ms);
			entries[i].dated = health_reasons_dated(h, server_ms);
			entries[i].at_ms = h->at_ms;
			entries[i].badness = reports_badness(h->level);
			return true;
		}
	return false;
}

/* A supervisor that serves a queue shows it by a report, a worker, the lead, or its score in the registry. */
static bool may_be_removed(const struct listed_queue *e)
{
	return !e->queue->configured && e->health == NULL && e->lists.nworkers == 0;
}

static int find_removed(struct admin *a, struct listed_queue *entries, size_t n, int64_t server_ms)
{
	char elapsed[UNITS_SIZE];

	for (size_t i = 0; i < n; i++)
		if (may_be_removed(&entries[i])) {
			queue_leader(&a->redis, &entries[i].queue->keys);
			queue_registry_score(&a->redis, entries[i].queue->keys.name);
		}
	for (size_t i = 0; i < n; i++) {
		struct redis_reply leader, score;
		int64_t away_ms;
		bool led;

		if (!may_be_removed(&entries[i]))
			continue;
		if (admin_wait(a, &leader) == -1)
			return -1;
		led = leader.type != REDIS_NIL;
		if (admin_wait(a, &score) == -1)
			return -1;
		away_ms = score.type == REDIS_STRING ? server_ms - clock_ms_of(1000 * strtod(score.str, NULL)) : 0;
		if (led || away_ms < 3 * QUEUE_REGISTRY_SHOWN_MS)
			continue;
		entries[i].reasons =
		    alloc_format("no supervisor has had it for %s; if it was removed for good: quredis destroy %s",
		    units_elapsed(away_ms, elapsed), entries[i].queue->keys.name);
		entries[i].dated = alloc_string(entries[i].reasons);
	}
	return 0;
}

/* The lists are shown also if the reports cannot be read. *any: there is a report. */
static int read_health(struct admin *a, struct listed_queue *entries, size_t n, bool *any)
{
	struct queue_health *reports;
	struct redis_reply reply;
	size_t nreports, stale;
	int64_t server_ms;
	int rc;

	if (admin_server_time(a, &server_ms) == -1)
		return -1;
	queue_health_read(&a->redis);
	if (admin_wait(a, &reply) == -1)
		return -1;
	if (!redis_is_strings(&reply) || reply.n == 0)
		return 0;
	reports = queue_health_parse_all(&reply, NULL, 0, server_ms, &nreports, &stale);
	rc = reports_confirm(a, reports, &nreports, server_ms);
	for (size_t i = 0; i < nreports; i++)
		*any = show_report(entries, n, &reports[i], server_ms) || *any;
	reports_free(reports, nreports);
	return rc == 0 && *any ? find_removed(a, entries, n, server_ms) : rc;
}

static void free_entries(struct listed_queue *entries, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		lists_free(&entries[i].lists);
		free(entries[i].health);
		free(entries[i].reasons);
		free(entries[i].dated);
	}
	free(entries);
}

int cmd_ls(struct admin *a)
{
	struct registry_queue *queues;
	struct listed_queue *entries;
	struct column columns[NCOLUMNS];
	bool any = false;
	size_t n;
	int rc;

	if (registry_choose(a, &queues, &n) == -1)
		return -1;
	entries = alloc_zero(n, sizeof(*entries));
	for (size_t i = 0; i < n; i++)
		entries[i].queue = &queues[i];
	rc = measure(a, entries, n) == -1 || read_health(a, entries, n, &any) == -1 ? -1 : 0;
	qsort(entries, n, sizeof(*entries), by_badness);
	if (rc == 0) {
		choose_columns(a->output.width, columns, entries, n, any);
		output_begin(&a->output, columns, any ? NCOLUMNS : HEALTH);
		for (size_t i = 0; i < n; i++)
			show_queue(a, &entries[i], column_kind(&columns[INGRESS]) == COLUMN_NAME);
		output_end(&a->output, true);
	}
	free_entries(entries, n);
	registry_free(queues, n);
	return rc;
}
