/*
 * Follows messages that were put back: which of them have failed again, and whether a message is still under way. retry_paced.c
 * decides what to do about that.
 */
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/moves/returns.h"

#include "admin/queues/queues.h"
#include "common/base/base.h"

#define WITH_WRAPPER (2 * QUEUE_BY_VALUE_MAX)		/* bytes read of an entry: all of a small message, whatever wrapper it has */

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

int returns_begin(struct admin *a, struct returns *r)
{
	struct redis_reply reply, newest, id;

	*r = (struct returns){ .next = "-" };
	redis_appendf(&a->redis, "XREVRANGE %s + - COUNT 1", a->keys.log);
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (reply.type != REDIS_ARRAY || reply.n == 0)
		return 0;
	newest = redis_element(&reply, 0);
	if (newest.type != REDIS_ARRAY || newest.n == 0)
		return 0;
	id = redis_element(&newest, 0);
	return id.type == REDIS_STRING && record_id_next(id.str, r->next) == 0 ? 0 :
	    admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
}

void returns_add(struct returns *r, const char *sha1)
{
	char *sum = alloc_string(sha1), **found;

	found = tsearch(sum, &r->sha1s, by_text);
	if (found == NULL)
		abort();	/* tsearch() fails only if memory is exhausted */
	if (*found != sum)
		free(sum);
}

static void note_failed(void *arg, const char *id, const char *sha1)
{
	struct returns *r = arg;

	if (tfind(sha1, &r->sha1s, by_text) == NULL)
		return;
	r->failed++;
	strlcpy(r->last, id, sizeof(r->last));
}

int returns_look(struct admin *a, struct returns *r)
{
	int more;

	do {
		more = records_page(a, r->next, note_failed, r);
	} while (more == 1);
	return more;
}

void returns_free(struct returns *r)
{
	tdestroy(r->sha1s, free);
	r->sha1s = NULL;
}

/* ---- searching for a message ---- */

/* Compares a small message whole, and a large one by its length and ends. */
static bool is_same_message(const struct admin *a, const struct list_entry *message, const struct queue_looked *l)
{
	size_t ends = entry_is_large(message) ? QUEUE_ENTRY_ENDS : message->size;
	struct message m;

	message_parse(&m, &a->keys.lines, l->head.str, l->head.len);
	return l->size - m.wrapper_len == message->size && l->head.len >= m.wrapper_len + ends &&
	    memcmp(m.raw + m.wrapper_len, message->head.data, ends) == 0 &&
	    (l->tail.len != message->tail.len || memcmp(l->tail.str, message->tail.data, l->tail.len) == 0);
}

/*
 * Reads a list from the newest entry on, a sorted set from the first. A message that moves meanwhile may be missed, so callers
 * check twice.
 */
static int is_in_list(struct admin *a, const char *key, bool sorted, const struct list_entry *message)
{
	struct redis_reply reply;
	int64_t first = 0;
	size_t n;

	do {
		queue_look(&a->redis, &(struct queue_look){ .key = key, .apart = sorted ? a->keys.delayed_apart : NULL, .first = first, .most = ENTRIES_MAX,
		    .bytes = ENTRIES_STEP_BYTES, .shown = WITH_WRAPPER, .ends = QUEUE_ENTRY_ENDS });
		if (admin_reply(a, &reply, key) == -1)
			return -1;
		n = queue_look_count(&reply);
		if (n == SIZE_MAX)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis to a look at %s", key);
		for (size_t i = 0; i < n; i++) {
			struct queue_looked l;

			queue_looked(&reply, i, &l);
			if (is_same_message(a, message, &l))
				return 1;
		}
		first += (int64_t)n;
	} while (n > 0);
	return 0;
}

static int is_in_work(struct admin *a, const struct list_entry *message)
{
	struct lists l;
	int found = lists_read(a, &a->keys, LIST_BIT(LIST_TRANSIT), &l);

	for (size_t i = 0; found == 0 && i < l.nworkers; i++)
		for (int t = 0; found == 0 && t <= QUEUE_TRAYS; t++) {
			char *key = queue_tray_key(&a->keys, l.workers[i].incarnation, t);

			found = is_in_list(a, key, false, message);
			free(key);
		}
	lists_free(&l);
	return found;
}

int returns_is_under_way(struct admin *a, const struct list_entry *message)
{
	int found = is_in_list(a, a->keys.ingress, false, message);

	if (found == 0)
		found = is_in_work(a, message);
	if (found == 0)
		found = is_in_list(a, a->keys.delayed, true, message);
	return found == 0 ? is_in_list(a, a->keys.ingress, false, message) : found;
}
