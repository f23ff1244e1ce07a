/*
 * Reads long lists in bounded steps, however large their entries are, and finds a message again that has moved. Errors
 * of Redis are printed by the function that gets them, which returns -1.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/queues/entries.h"

#include "common/base/base.h"
#include "common/message/message.h"

static struct queue_bytes copy_of(const struct redis_reply *r)
{
	return (struct queue_bytes){ alloc_copy(r->str, r->len), r->len };
}

bool entry_is_large(const struct list_entry *e)
{
	return e->size > QUEUE_BY_VALUE_MAX;
}

struct queue_entry entry_name(const struct list_entry *e)
{
	if (!entry_is_large(e))
		return (struct queue_entry){ .raw = e->head.data, .len = e->size, .at = QUEUE_ANYWHERE };
	return (struct queue_entry){ .raw = e->head.data, .len = e->size, .at = e->at, .tail = e->tail.data };
}

static void take_entry(struct list_entry *e, const struct queue_looked *l, int64_t at)
{
	*e = (struct list_entry){ .size = l->size, .head = copy_of(&l->head), .tail = copy_of(&l->tail), .at = at };
	if (entry_is_large(e))
		strlcpy(e->sha1, l->sha1.str, sizeof(e->sha1));
	else
		encode_sha1(e->head.data, e->head.len, e->sha1);
}

int entries_read(struct admin *a, const char *key, int64_t first, bool backwards, int64_t most, struct entries *out)
{
	struct redis_reply reply;
	size_t n;

	*out = (struct entries){0};
	queue_look(&a->redis, &(struct queue_look){ .key = key, .first = first, .backwards = backwards,
	    .most = most < ENTRIES_MAX ? most : ENTRIES_MAX, .bytes = ENTRIES_STEP_BYTES, .shown = QUEUE_BY_VALUE_MAX,
	    .ends = QUEUE_ENTRY_ENDS, .sums = true });
	if (admin_reply(a, &reply, key) == -1)
		return -1;
	n = queue_look_count(&reply);
	if (n == SIZE_MAX)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis to a look at %s", key);
	out->all = alloc_zero(n, sizeof(*out->all));
	for (; out->n < n; out->n++) {
		struct queue_looked l;

		queue_looked(&reply, out->n, &l);
		if (!queue_looked_is_named(&l, QUEUE_BY_VALUE_MAX)) {
			entries_free(out);
			return admin_fail(a, EX_PROTOCOL, "Redis sent too few bytes of an entry of %s", key);
		}
		take_entry(&out->all[out->n], &l, backwards ? first - (int64_t)out->n : first + (int64_t)out->n);
	}
	return 0;
}

void entry_free(struct list_entry *e)
{
	free((void *)(uintptr_t)e->head.data);
	free((void *)(uintptr_t)e->tail.data);
	*e = (struct list_entry){0};
}

void entries_free(struct entries *e)
{
	for (size_t i = 0; i < e->n; i++)
		entry_free(&e->all[i]);
	free(e->all);
	*e = (struct entries){0};
}

int entries_sum(struct admin *a, const char *key, struct list_entry *e)
{
	struct queue_entry named = entry_name(e);
	struct redis_reply reply, sum;
	char *none;

	if (e->sha1[0] != '\0')
		return 0;
	none = queue_lease_key(&a->keys, NULL);
	queue_digest(&a->redis, none, key, &named, &(size_t){ 0 }, 1);
	free(none);
	if (admin_reply(a, &reply, key) == -1)
		return -1;
	if (!redis_is_strings(&reply) || reply.n != 1)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis to a digest of %s", key);
	sum = redis_element(&reply, 0);
	strlcpy(e->sha1, sum.str, sizeof(e->sha1));
	return 0;
}

/* 1: the entry is the message; 0: another one; -1: error of Redis */
static int entry_is(struct admin *a, const char *key, struct list_entry *e, size_t size, const char *sha1)
{
	if (e->size != size)
		return 0;
	if (sha1[0] != '\0' && entries_sum(a, key, e) == -1)
		return -1;
	return strcmp(e->sha1, sha1) == 0;
}

/*
 * Counts entries with this size and sha1, up to `most`, and copies the first one to out. The list may change meanwhile:
 * an entry that moves towards the end already searched may be missed. The first pages are small, because Redis computes
 * the sha1 of each large entry in a page.
 */
static int find_entries(struct admin *a, const char *key, int64_t first, size_t size, const char *sha1, int most,
    struct list_entry *out)
{
	bool backwards = first < 0;
	int64_t page_max = 1;
	int found = 0, is = 0;
	size_t n;

	do {
		struct entries page;

		if (entries_read(a, key, first, backwards, page_max, &page) == -1)
			return -1;
		for (size_t i = 0; i < page.n && found < most && is != -1; i++) {
			struct list_entry *e = &page.all[i];

			is = entry_is(a, key, e, size, sha1);
			if (is != 1 || found++ > 0)
				continue;
			*out = *e;
			*e = (struct list_entry){0};
		}
		n = page.n;
		first += backwards ? -(int64_t)n : (int64_t)n;
		page_max = page_max < ENTRIES_MAX ? 4 * page_max : ENTRIES_MAX;
		entries_free(&page);
	} while (is != -1 && found < most && n > 0);
	return is == -1 ? -1 : found;
}

int entry_find(struct admin *a, const char *key, int64_t first, size_t size, const char *sha1, struct list_entry *out)
{
	int found = sha1[0] == '\0' ? 0 : find_entries(a, key, first, size, sha1, 1, out);
	int64_t end = first < 0 ? -1 : 0;

	return found == 0 && sha1[0] != '\0' && first != end ? find_entries(a, key, end, size, sha1, 1, out) : found;
}

int entry_find_by_size(struct admin *a, const char *key, size_t size, struct list_entry *out)
{
	int found;

	*out = (struct list_entry){0};
	found = find_entries(a, key, 0, size, "", 2, out);
	if (found != 1)
		entry_free(out);
	return found;
}
