/* quredis dlq stats: dead letters by class, by cause and by hour. Only a few fields of each record are read. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/dead_letters/cause.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/dead_letters/filter.h"
#include "admin/dead_letters/groups.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"

#define LIMIT 20
#define HOUR_MS (60 * 60 * 1000)

enum by { BY_CLASS, BY_CAUSE, BY_HOUR, BYS };
static const char *const by_names[BYS] = { "class", "cause", "hour" };

/* ---- reading ---- */

struct counting {
	struct groups by[BYS];
	struct filter filter;
};

static int count_record(void *arg, const struct dead_letter *d)
{
	const struct queue_bytes *class = dead_letter_field(d, "error_class");
	char cause[CAUSE_SIZE], hour[CLOCK_RFC3339_SIZE];
	struct counting *c = arg;
	uint64_t ms = 0, serial;
	int64_t at_ms;

	if (!filter_matches(&c->filter, d))
		return 0;
	queue_record_id_parse(d->record_id, &ms, &serial);
	at_ms = clock_ms_of((double)ms);
	groups_count(&c->by[BY_CLASS], class == NULL || class->len == 0 ? "?" : class->data, at_ms);
	groups_count(&c->by[BY_CAUSE], cause_of(d, cause), at_ms);
	clock_rfc3339(at_ms / HOUR_MS * HOUR_MS, hour);
	strlcpy(hour + strlen("2026-11-20T14:31"), "Z", sizeof("Z"));
	groups_count(&c->by[BY_HOUR], hour, at_ms);
	return 0;
}

static int count_all(struct admin *a, struct counting *c)
{
	const char *fields[QUEUE_LOOK_FIELDS] = { CAUSE_FIELDS };
	size_t n;

	if (filter_read(a, &c->filter) == -1)
		return -1;
	n = filter_add_fields(&c->filter, fields, CAUSE_NFIELDS);
	return dead_letter_walk(a, &(struct dead_letter_walk){ .up = true, .from = c->filter.since,
	    .to = c->filter.until, .fields = fields, .nfields = n }, count_record, c);
}

/* ---- showing ---- */

static int newest_first(const void *a, const void *b)
{
	return strcmp((*(const struct group *const *)b)->key, (*(const struct group *const *)a)->key);
}

static void show_groups(struct admin *a, enum by by, struct groups *g, int64_t limit)
{
	groups_sort(g);
	if (by == BY_HOUR && g->n > 0)
		qsort(g->all, g->n, sizeof(*g->all), newest_first);
	for (size_t i = 0; i < g->n && (int64_t)i < limit; i++) {
		const struct group *group = g->all[i];

		output_row(&a->output, (struct cell[]){ cell_str(by_names[by]),
		    cell_bytes(group->key, strlen(group->key)), cell_int(group->count),
		    cell_time(group->oldest_ms), cell_time(group->newest_ms) });
	}
	if (g->n > (size_t)limit)
		admin_note("%zu more by %s (--limit shows more)", g->n - (size_t)limit, by_names[by]);
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
		groups_merge(&c.by[BY_CAUSE]);
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
