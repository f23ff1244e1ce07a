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

static void free_node(void *p)
{
	struct record_node *node = p;
	struct record_id *id;

	while ((id = STAILQ_FIRST(&node->ids)) != NULL) {
		STAILQ_REMOVE_HEAD(&node->ids, next);
		free(id);
	}
	free(node);
}

void records_free(struct records *r)
{
	tdestroy(r->by_sha1, free_node);
	r->by_sha1 = NULL;
	LIST_INIT(&r->nodes);
}

static void add_record(struct records *r, const char *id, const char *sha1)
{
	struct record_node *node = alloc_zero(1, sizeof(*node)), **found;
	struct record_id *record = alloc_zero(1, sizeof(*record));

	strlcpy(node->sha1, sha1, sizeof(node->sha1));
	STAILQ_INIT(&node->ids);
	strlcpy(record->id, id, sizeof(record->id));
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

static bool take_oldest(struct records *r, const char *sha1, char id[RECORD_ID_SIZE])
{
	struct record_node wanted, **found;
	struct record_id *first;

	strlcpy(wanted.sha1, sha1, sizeof(wanted.sha1));
	found = tfind(&wanted, &r->by_sha1, by_sha1);
	if (found == NULL)
		return false;
	struct record_node *node = *found;
	first = STAILQ_FIRST(&node->ids);
	strlcpy(id, first->id, RECORD_ID_SIZE);
	STAILQ_REMOVE_HEAD(&node->ids, next);
	free(first);
	r->n--;
	if (STAILQ_EMPTY(&node->ids)) {
		tdelete(node, &r->by_sha1, by_sha1);
		LIST_REMOVE(node, other);
		free(node);
	}
	return true;
}

int records_page(struct admin *a, char next[RECORD_ID_SIZE],
    void (*f)(void *arg, const char *id, const char *sha1, const char *size), void *arg)
{
	static const char *const fields[] = { "sha1", "size" };
	struct redis_reply reply;
	int follow = 1;

	if (next[0] == '\0')
		return 0;
	queue_log_fields(&a->redis, &a->keys, next, PAGE, fields, nitems(fields));
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
	for (size_t i = 0; i + 2 < reply.n; i += 3) {
		struct redis_reply id = redis_element(&reply, i), sha1 = redis_element(&reply, i + 1),
		    size = redis_element(&reply, i + 2);

		follow = record_id_next(id.str, next);
		if (follow == -1)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
		f(arg, id.str, sha1.str, size.str);
	}
	if (follow == 0)
		next[0] = '\0';
	return reply.n < (size_t)PAGE * 3 ? 0 : follow;
}

static void keep_record(void *arg, const char *id, const char *sha1, const char *size)
{
	(void)size;
	add_record(arg, id, sha1);
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

int records_match(struct admin *a, struct records *r, const char *sha1, char id[RECORD_ID_SIZE])
{
	id[0] = '\0';
	while (!take_oldest(r, sha1, id)) {
		if (r->at_end || r->n >= AHEAD_MAX)
			return 0;
		if (read_on(a, r) == -1)
			return -1;
	}
	return 0;
}
