/* What becomes of messages that were put back. Who waits for it, and what follows, is retry_paced.c's. */
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/returns.h"

#include "admin/lists.h"
#include "admin/pager.h"
#include "common/alloc.h"

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
	    admin_fail(a, EX_PROTOCOL, "Redis answered something else than records");
}

void returns_add(struct returns *r, const void *data, size_t len)
{
	char *sum = alloc_zero(1, 41), **found;

	message_sha1(data, len, sum);
	found = tsearch(sum, &r->sha1s, by_text);
	if (found == NULL)
		abort();	/* out of memory: there is no other reason */
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

/* ---- where it is ---- */

static bool is_it(const struct queue_bytes *message, const void *data, size_t len)
{
	struct message m;

	message_parse(&m, data, len);
	return len - m.wrapper_len == message->len && memcmp(m.raw + m.wrapper_len, message->data, message->len) == 0;
}

/* From the newest on. What moves meanwhile may be missed: who asks asks twice. */
static int is_in_list(struct admin *a, const char *key, const struct queue_bytes *message)
{
	struct pager pager = pager_of(16);
	int64_t first = 0;
	bool more = true;
	int found = 0;

	while (more && found == 0) {
		int64_t want = pager.count;
		struct page page;

		if (page_read(a, key, first, first + want - 1, &page) == -1)
			return -1;
		for (size_t i = 0; i < page.n && found == 0; i++)
			found = is_it(message, page.entries[i].data, page.entries[i].len);
		pager_learn(&pager, page.n, page.bytes);
		more = (int64_t)page.n == want;
		first += (int64_t)page.n;
		page_free(&page);
	}
	return found;
}

static int is_delayed(struct admin *a, const struct queue_bytes *message)
{
	struct pager pager = pager_of(16);
	struct redis_reply reply;
	int64_t first = 0, want;

	do {
		size_t bytes = 0;

		want = pager.count;
		redis_appendf(&a->redis, "ZRANGE %s %d %d", a->keys.delayed, first, first + want - 1);
		if (admin_reply(a, &reply, a->keys.delayed) == -1)
			return -1;
		if (!redis_is_strings(&reply))
			return admin_fail(a, EX_PROTOCOL, "Redis answered something else than a list");
		for (size_t i = 0; i < reply.n; i++) {
			struct redis_reply entry = redis_element(&reply, i);

			if (is_it(message, entry.str, entry.len))
				return 1;
			bytes += entry.len;
		}
		pager_learn(&pager, reply.n, bytes);
		first += want;
	} while ((int64_t)reply.n == want);
	return 0;
}

static int is_in_work(struct admin *a, const struct queue_bytes *message)
{
	struct lists l;
	int found = lists_read(a, &a->keys, LIST_BIT(LIST_TRANSIT), &l);

	for (size_t i = 0; found == 0 && i < l.nworkers; i++)
		for (int t = 0; found == 0 && t <= QUEUE_TRAYS; t++) {
			char *key = queue_tray_key(&a->keys, l.workers[i].incarnation, t);

			found = is_in_list(a, key, message);
			free(key);
		}
	lists_free(&l);
	return found;
}

int returns_is_under_way(struct admin *a, const struct queue_bytes *message)
{
	int found = is_in_list(a, a->keys.ingress, message);

	if (found == 0)
		found = is_in_work(a, message);
	if (found == 0)
		found = is_delayed(a, message);
	return found == 0 ? is_in_list(a, a->keys.ingress, message) : found;
}
