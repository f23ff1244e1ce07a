/* quredis dlq stats: dead letters by class, by cause and by hour. Only a few fields of each record are read. */
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/dead_letters/cause.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/dead_letters/filter.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"

#define LIMIT 20
#define GROUPS_MAX 10000	/* groups of one kind; further ones are counted as "(others)" */
#define HOUR_MS (60 * 60 * 1000)

enum by { BY_CLASS, BY_CAUSE, BY_HOUR, BYS };
static const char *const by_names[BYS] = { "class", "cause", "hour" };

struct group {
	char key[CAUSE_SIZE];
	int64_t count, oldest_ms, newest_ms;
};

struct groups {
	void *tree;		/* tsearch(3) */
	struct group **all;
	size_t n;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct group *)a)->key, ((const struct group *)b)->key);
}

static struct group *group_of(struct groups *g, const char *key)
{
	struct group *group = alloc_zero(1, sizeof(*group)), **found;

	strlcpy(group->key, key, sizeof(group->key));
	found = tfind(group, &g->tree, by_key);
	if (found == NULL && g->n >= GROUPS_MAX) {
		strlcpy(group->key, "(others)", sizeof(group->key));
		found = tfind(group, &g->tree, by_key);
	}
	if (found != NULL) {
		free(group);
		return *found;
	}
	if (tsearch(group, &g->tree, by_key) == NULL)
		alloc_failed();
	g->all = alloc_resize(g->all, g->n + 1, sizeof(*g->all));
	return g->all[g->n++] = group;
}

static void keep_node(void *p)
{
	(void)p;
}

static void groups_free(struct groups *g)
{
	tdestroy(g->tree, keep_node);
	for (size_t i = 0; i < g->n; i++)
		free(g->all[i]);
	free(g->all);
}

static void count_in_group(struct groups *g, const char *key, int64_t at_ms)
{
	struct group *group = group_of(g, key);

	if (group->count++ == 0)
		group->oldest_ms = group->newest_ms = at_ms;
	group->oldest_ms = at_ms < group->oldest_ms ? at_ms : group->oldest_ms;
	group->newest_ms = at_ms > group->newest_ms ? at_ms : group->newest_ms;
}

/* ---- reading ---- */

static const char *const counted_fields[] = { "error_class", "exit_code", "signal", "error_message" };

struct counting {
	struct groups by[BYS];
	struct filter filter;
};

static const char *text_of(const struct dead_letter *d, const char *field)
{
	const struct queue_bytes *b = record_field_of(d->fields, d->nfields, field);

	return b == NULL ? "" : b->data;
}

static int count_record(void *arg, const struct dead_letter *d)
{
	const struct queue_bytes *error = record_field_of(d->fields, d->nfields, "error_message");
	const char *class = text_of(d, "error_class");
	char cause[CAUSE_SIZE], hour[CLOCK_RFC3339_SIZE];
	struct counting *c = arg;
	uint64_t ms = 0, serial;
	int64_t at_ms;

	if (!filter_matches(&c->filter, d))
		return 0;
	queue_record_id_parse(d->record_id, &ms, &serial);
	at_ms = clock_ms_of((double)ms);
	count_in_group(&c->by[BY_CLASS], class[0] == '\0' ? "?" : class, at_ms);
	count_in_group(&c->by[BY_CAUSE], cause_describe(class, text_of(d, "exit_code"), text_of(d, "signal"), text_of(d, "error_message"),
	    error == NULL ? 0 : error->len, cause), at_ms);
	clock_rfc3339(at_ms / HOUR_MS * HOUR_MS, hour);
	strlcpy(hour + strlen("2026-11-20T14:31"), "Z", sizeof("Z"));
	count_in_group(&c->by[BY_HOUR], hour, at_ms);
	return 0;
}

static int count_all(struct admin *a, struct counting *c)
{
	const char *fields[QUEUE_LOOK_FIELDS];
	size_t n = 0;

	if (filter_read(a, &c->filter) == -1)
		return -1;
	for (; n < nitems(counted_fields); n++)
		fields[n] = counted_fields[n];
	n = filter_add_fields(&c->filter, fields, n);
	return dead_letter_walk(a, &(struct dead_letter_walk){ .up = true, .from = c->filter.since, .to = c->filter.until, .fields = fields, .nfields = n },
	    count_record, c);
}

/* ---- showing ---- */

static int most_first(const void *a, const void *b)
{
	const struct group *g = *(const struct group *const *)a, *h = *(const struct group *const *)b;

	return g->count != h->count ? (g->count > h->count ? -1 : 1) : strcmp(g->key, h->key);
}

static int newest_first(const void *a, const void *b)
{
	return strcmp((*(const struct group *const *)b)->key, (*(const struct group *const *)a)->key);
}

static void show_groups(struct admin *a, enum by by, struct groups *g, int64_t limit)
{
	if (g->n > 0)
		qsort(g->all, g->n, sizeof(*g->all), by == BY_HOUR ? newest_first : most_first);
	for (size_t i = 0; i < g->n && (int64_t)i < limit; i++) {
		const struct group *group = g->all[i];

		output_row(&a->output, (struct cell[]){ cell_str(by_names[by]), cell_bytes(group->key, strlen(group->key)), cell_int(group->count),
		    cell_time(group->oldest_ms), cell_time(group->newest_ms) });
	}
	if (g->n > (size_t)limit && !a->options.json)
		admin_note("%zu more by %s (-n shows more)", g->n - (size_t)limit, by_names[by]);
}

int cmd_dlq_stats(struct admin *a)
{
	static const struct column columns[] = {
		{ "by", "By", COLUMN_STATE }, { "key", "Key", COLUMN_TEXT }, { "count", "Count", COLUMN_NUMBER },
		{ "oldest", "Oldest", COLUMN_STATE }, { "newest", "Newest", COLUMN_STATE },
	};
	struct counting c = {0};
	int rc = count_all(a, &c) == -1 || admin_show_ages(a) == -1 ? -1 : 0;

	if (rc == 0) {
		output_begin(&a->output, columns, nitems(columns));
		for (int i = 0; i < BYS; i++)
			show_groups(a, (enum by)i, &c.by[i], a->options.count >= 0 ? a->options.count : LIMIT);
		output_end(&a->output, true);
		filter_suggest(&c.filter);
	}
	for (int i = 0; i < BYS; i++)
		groups_free(&c.by[i]);
	filter_free(&c.filter);
	return rc;
}
