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
#include "admin/dead_letters/records.h"

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"

#define LIMIT 20
#define PAGE 100
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

static const char *const fields[] = { "error_class", "exit_code", "signal", "error_message" };

static void count_record(struct groups by[BYS], int64_t at_ms, const struct redis_reply values[nitems(fields)])
{
	char cause[CAUSE_SIZE], hour[CLOCK_RFC3339_SIZE];

	count_in_group(&by[BY_CLASS], values[0].str[0] == '\0' ? "?" : values[0].str, at_ms);
	count_in_group(&by[BY_CAUSE], cause_describe(values[0].str, values[1].str, values[2].str, values[3].str, values[3].len, cause), at_ms);
	clock_rfc3339(at_ms / HOUR_MS * HOUR_MS, hour);
	strlcpy(hour + strlen("2026-11-20T14:31"), "Z", sizeof("Z"));
	count_in_group(&by[BY_HOUR], hour, at_ms);
}

/* Reads a page and moves next behind it. Returns the number of records; -1: error of Redis. */
static int read_page(struct admin *a, struct groups by[BYS], char next[RECORD_ID_SIZE])
{
	const size_t width = 1 + nitems(fields);
	struct redis_reply reply;

	queue_log_fields(&a->redis, &a->keys, next, PAGE, fields, nitems(fields));
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (!redis_is_strings(&reply) || reply.n % width != 0)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
	for (size_t i = 0; i < reply.n; i += width) {
		struct redis_reply id = redis_element(&reply, i), values[nitems(fields)];
		uint64_t ms, serial;

		for (size_t f = 0; f < nitems(fields); f++)
			values[f] = redis_element(&reply, i + 1 + f);
		if (record_id_next(id.str, next) == -1)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
		queue_record_id_parse(id.str, &ms, &serial);
		count_record(by, clock_ms_of((double)ms), values);
	}
	return (int)(reply.n / width);
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
		{ "by", "By", false }, { "key", "Key", false }, { "count", "Count", true }, { "oldest", "Oldest", false }, { "newest", "Newest", false },
	};
	struct groups by[BYS] = {0};
	char next[RECORD_ID_SIZE] = "-";
	int n;

	while ((n = read_page(a, by, next)) == PAGE)
		;
	if (n >= 0) {
		output_begin(&a->output, columns, nitems(columns));
		for (int i = 0; i < BYS; i++)
			show_groups(a, (enum by)i, &by[i], a->options.count >= 0 ? a->options.count : LIMIT);
		output_end(&a->output, true);
	}
	for (int i = 0; i < BYS; i++)
		groups_free(&by[i]);
	return n == -1 ? -1 : 0;
}
