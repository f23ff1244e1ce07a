/* Pairs dead letters with their records while it reads both from the oldest on. */
#include <inttypes.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>
#include <bsd/sys/queue.h>

#include "admin/dead_letters/records.h"

#include "common/base/base.h"

#define PAGE 100
#define AHEAD_MAX 200000	/* unmatched records in memory; with more, an entry counts as one without a record */

struct record_id {
	STAILQ_ENTRY(record_id) next;
	char id[RECORD_ID_SIZE];
	struct message_lineage *lineage;	/* owned; NULL: as most, no handler emitted the message */
};

struct record_node {			/* the records of equal messages, oldest first; never empty */
	LIST_ENTRY(record_node) other;
	char sha1[ENCODE_SHA1_SIZE];
	STAILQ_HEAD(, record_id) ids;
};

static int by_sha1(const void *a, const void *b)
{
	return strcmp(((const struct record_node *)a)->sha1, ((const struct record_node *)b)->sha1);
}

bool record_id_valid(const char *id)
{
	uint64_t ms, serial;

	return queue_record_id_parse(id, &ms, &serial) == 0;
}

int record_id_next(const char *id, char next[RECORD_ID_SIZE])
{
	return record_id_valid(id) ? queue_record_id_next(id, next) : -1;
}

void records_id_before(const char *id, char before[RECORD_ID_SIZE])
{
	uint64_t ms = 0, serial = 0;

	queue_record_id_parse(id, &ms, &serial);
	if (serial == 0)
		snprintf(before, RECORD_ID_SIZE, "%" PRIu64 "-%" PRIu64, ms == 0 ? 0 : ms - 1, UINT64_MAX);
	else
		snprintf(before, RECORD_ID_SIZE, "%" PRIu64 "-%" PRIu64, ms, serial - 1);
}

void records_init(struct records *r)
{
	*r = (struct records){ .next = "-" };
}

static void free_id(struct record_id *id)
{
	free(id->lineage);
	free(id);
}

static void free_node(void *p)
{
	struct record_node *node = p;
	struct record_id *id;

	while ((id = STAILQ_FIRST(&node->ids)) != NULL) {
		STAILQ_REMOVE_HEAD(&node->ids, next);
		free_id(id);
	}
	free(node);
}

void records_free(struct records *r)
{
	tdestroy(r->by_sha1, free_node);
	r->by_sha1 = NULL;
	LIST_INIT(&r->nodes);
}

static void add_record(struct records *r, const struct record_row *row)
{
	struct record_node *node = alloc_zero(1, sizeof(*node)), **found;
	struct record_id *record = alloc_zero(1, sizeof(*record));

	strlcpy(node->sha1, row->sha1, sizeof(node->sha1));
	STAILQ_INIT(&node->ids);
	strlcpy(record->id, row->id, sizeof(record->id));
	if (row->lineage.depth > 0) {
		record->lineage = alloc_zero(1, sizeof(*record->lineage));
		*record->lineage = row->lineage;
	}
	found = tsearch(node, &r->by_sha1, by_sha1);
	if (found == NULL)
		abort();	/* tsearch() fails only if memory is exhausted */
	if (*found != node)
		free(node);
	else
		LIST_INSERT_HEAD(&r->nodes, node, other);
	STAILQ_INSERT_TAIL(&(*found)->ids, record, next);
	r->n++;
}

static bool take_oldest(struct records *r, const char *sha1, struct record_brief *oldest)
{
	struct record_node wanted, **found;
	struct record_id *first;

	strlcpy(wanted.sha1, sha1, sizeof(wanted.sha1));
	found = tfind(&wanted, &r->by_sha1, by_sha1);
	if (found == NULL)
		return false;
	struct record_node *node = *found;
	first = STAILQ_FIRST(&node->ids);
	strlcpy(oldest->id, first->id, sizeof(oldest->id));
	if (first->lineage != NULL)
		oldest->lineage = *first->lineage;
	STAILQ_REMOVE_HEAD(&node->ids, next);
	free_id(first);
	r->n--;
	if (STAILQ_EMPTY(&node->ids)) {
		tdelete(node, &r->by_sha1, by_sha1);
		LIST_REMOVE(node, other);
		free(node);
	}
	return true;
}

#define ROW (1 + nitems(row_fields))	/* answers for each record */
static const char *const row_fields[] = { "sha1", "size", "root", "depth", "traceparent" };

int records_page(struct admin *a, char next[RECORD_ID_SIZE],
    void (*f)(void *arg, const struct record_row *row), void *arg)
{
	struct redis_reply reply;
	int follow = 1;

	if (next[0] == '\0')
		return 0;
	queue_log_fields(&a->redis, &a->keys, next, PAGE, row_fields, nitems(row_fields));
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
	for (size_t i = 0; i + ROW <= reply.n; i += ROW) {
		struct record_row row = { .id = redis_element(&reply, i).str,
			.sha1 = redis_element(&reply, i + 1).str, .size = redis_element(&reply, i + 2).str };

		message_lineage_read(&row.lineage, redis_element(&reply, i + 3).str, redis_element(&reply, i + 4).str,
		    redis_element(&reply, i + 5).str);
		follow = record_id_next(row.id, next);
		if (follow == -1)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
		f(arg, &row);
	}
	if (follow == 0)
		next[0] = '\0';
	return reply.n < PAGE * ROW ? 0 : follow;
}

static void keep_record(void *arg, const struct record_row *row)
{
	add_record(arg, row);
}

static int read_on(struct admin *a, struct records *r)
{
	int more = records_page(a, r->next, keep_record, r);

	r->at_end = more == 0;
	return more == -1 ? -1 : 0;
}

int records_read_rest(struct admin *a, struct records *r, int64_t most)
{
	for (int64_t n = 0; !r->at_end && n < most; n += PAGE)
		if (read_on(a, r) == -1)
			return -1;
	return 0;
}

void records_each(const struct records *r, void (*f)(void *arg, const char *id), void *arg)
{
	const struct record_node *node;
	const struct record_id *id;

	LIST_FOREACH(node, &r->nodes, other)
		if (node->sha1[0] != '\0')		/* quredis writes no record without a sha1 */
			STAILQ_FOREACH(id, &node->ids, next)
				f(arg, id->id);
}

int records_match(struct admin *a, struct records *r, const char *sha1, struct record_brief *found)
{
	*found = (struct record_brief){0};
	while (!take_oldest(r, sha1, found)) {
		if (r->at_end || r->n >= AHEAD_MAX)
			return 0;
		if (read_on(a, r) == -1)
			return -1;
	}
	return 0;
}
