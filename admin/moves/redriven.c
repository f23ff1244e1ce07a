/*
 * Follows messages that were put back: which of them have failed again, and whether some are still under way. paced.c decides what to do about that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/moves/redriven.h"

#include "admin/queues/queues.h"
#include "common/base/base.h"

#define WITH_WRAPPER (2 * QUEUE_BY_VALUE_MAX)		/* bytes read of an entry: all of a small message, whatever wrapper it has */
#define NOTED_PAGE (4096 * NAME_DIGITS)

/* ---- names ---- */

static uint64_t name_of(const char *digits)
{
	char text[NAME_DIGITS + 1];
	uint64_t name;

	strlcpy(text, digits, sizeof(text));
	name = strtoull(text, NULL, 16);
	return name == 0 ? 1 : name;
}

static void name_set_free(struct name_set *s)
{
	free(s->slots);
	free(s->cause_hashes);
	*s = (struct name_set){0};
}

static size_t slot_of(const struct name_set *s, uint64_t name)
{
	size_t i = (size_t)name & (s->room - 1);

	while (s->slots[i] != 0 && s->slots[i] != name)
		i = (i + 1) & (s->room - 1);
	return i;
}

static void make_room(struct name_set *s)
{
	struct name_set more = { .n = s->n, .room = s->room == 0 ? 1024 : 2 * s->room };

	more.slots = alloc_zero(more.room, sizeof(*more.slots));
	more.cause_hashes = alloc_zero(more.room, sizeof(*more.cause_hashes));
	for (size_t i = 0; i < s->room; i++) {
		size_t at = s->slots[i] == 0 ? 0 : slot_of(&more, s->slots[i]);

		if (s->slots[i] != 0) {
			more.slots[at] = s->slots[i];
			more.cause_hashes[at] = s->cause_hashes[i];
		}
	}
	name_set_free(s);
	*s = more;
}

static void name_set_add(struct name_set *s, const char *digits, uint32_t cause_hash)
{
	uint64_t name = name_of(digits);
	size_t at;

	if (2 * s->n >= s->room)
		make_room(s);
	at = slot_of(s, name);
	s->n += s->slots[at] == 0;
	s->slots[at] = name;
	s->cause_hashes[at] = cause_hash;
}

static bool name_set_has(const struct name_set *s, const char *digits)
{
	return s->room > 0 && s->slots[slot_of(s, name_of(digits))] != 0;
}

bool redriven_has(const struct redriven *r, const char *sha1)
{
	return name_set_has(&r->names, sha1);
}

uint32_t redriven_cause_hash(const char *cause)
{
	char sum[ENCODE_SHA1_SIZE];
	uint32_t name;

	encode_sha1(cause, strlen(cause), sum);
	sum[8] = '\0';
	name = (uint32_t)strtoul(sum, NULL, 16);
	return name == 0 ? 1 : name;
}

uint32_t redriven_hash_before(const struct redriven *r, const char *sha1)
{
	if (r->cause != NULL)
		return redriven_cause_hash(r->cause);
	return redriven_has(r, sha1) ? r->names.cause_hashes[slot_of(&r->names, name_of(sha1))] : 0;
}

/* ---- failures ---- */

static int read_noted(struct admin *a, struct redriven *r)
{
	struct redis_reply reply;
	size_t from = 0;

	do {
		redis_appendf(&a->redis, "GETRANGE %s %d %d", a->keys.redriven, (int64_t)from, (int64_t)(from + NOTED_PAGE - 1));
		if (admin_reply(a, &reply, a->keys.redriven) == -1)
			return -1;
		if (reply.type != REDIS_STRING)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a string");
		for (size_t i = 0; i + NAME_DIGITS <= reply.len; i += NAME_DIGITS)
			name_set_add(&r->names, reply.str + i, 0);
		from += NOTED_PAGE;
	} while (reply.len == NOTED_PAGE);
	return 0;
}

int redriven_begin(struct admin *a, struct redriven *r, const char *bound, const char *cause)
{
	*r = (struct redriven){ .next = "-", .cause = cause };
	if (record_id_next(bound, r->next) == 0)
		r->next[0] = '\0';
	return read_noted(a, r);
}

void redriven_add(struct redriven *r, const char *sha1, uint32_t cause_hash)
{
	if (strlen(sha1) >= NAME_DIGITS)
		name_set_add(&r->names, sha1, cause_hash);
}

static void note_failed(void *arg, const char *id, const char *sha1)
{
	struct redriven *r = arg;

	if (!redriven_has(r, sha1))
		return;
	if (r->failed++ == 0)
		strlcpy(r->first, id, sizeof(r->first));
	strlcpy(r->last, id, sizeof(r->last));
}

int redriven_look(struct admin *a, struct redriven *r)
{
	int more;

	do {
		more = records_page(a, r->next, note_failed, r);
	} while (more == 1);
	return more;
}

void redriven_free(struct redriven *r)
{
	name_set_free(&r->names);
}

/* ---- searching for a message ---- */

/* A small message counts whole, a large one with its length and its ends. */
static void write_name(const char *data, size_t size, const char *tail, char name[NAME_DIGITS + 1])
{
	char ends[2 * QUEUE_ENTRY_ENDS + 24], sum[ENCODE_SHA1_SIZE];
	int n;

	if (size <= QUEUE_BY_VALUE_MAX) {
		encode_sha1(data, size, sum);
	} else {
		n = snprintf(ends, sizeof(ends), "%zu ", size);
		memcpy(ends + n, data, QUEUE_ENTRY_ENDS);
		memcpy(ends + n + QUEUE_ENTRY_ENDS, tail, QUEUE_ENTRY_ENDS);
		encode_sha1(ends, (size_t)n + 2 * QUEUE_ENTRY_ENDS, sum);
	}
	strlcpy(name, sum, NAME_DIGITS + 1);
}

void redriven_name_of(const struct list_entry *message, char name[NAME_DIGITS + 1])
{
	const char *tail = message->tail.data;

	if (entry_is_large(message) && message->tail.len < QUEUE_ENTRY_ENDS)
		tail = (const char *)message->head.data + message->head.len - QUEUE_ENTRY_ENDS;
	write_name(message->head.data, message->size, tail, name);
}

static bool is_one_of(const struct admin *a, const struct name_set *names, const struct queue_looked *l)
{
	char name[NAME_DIGITS + 1];
	struct message m;
	size_t size;

	message_parse(&m, &a->keys.lines, l->head.str, l->head.len);
	size = l->size - m.wrapper_len;
	if (size > QUEUE_BY_VALUE_MAX ? l->head.len < m.wrapper_len + QUEUE_ENTRY_ENDS : l->head.len < l->size)
		return false;
	write_name(m.raw + m.wrapper_len, size, l->tail.len == QUEUE_ENTRY_ENDS ? l->tail.str : l->head.str + l->head.len - QUEUE_ENTRY_ENDS, name);
	return name_set_has(names, name);
}

/*
 * Reads a list from the newest entry on, a sorted set from the first. A message that moves meanwhile may be missed, so callers
 * check twice.
 */
static int is_in_list(struct admin *a, const char *key, bool sorted, const struct name_set *names)
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
			if (is_one_of(a, names, &l))
				return 1;
		}
		first += (int64_t)n;
	} while (n > 0);
	return 0;
}

static int is_in_flight(struct admin *a, const struct name_set *names)
{
	struct lists l;
	int found = lists_read(a, &a->keys, LIST_BIT(LIST_TRANSIT), &l);

	for (size_t i = 0; found == 0 && i < l.nworkers; i++)
		for (int t = 0; found == 0 && t <= QUEUE_TRAYS; t++) {
			char *key = queue_tray_key(&a->keys, l.workers[i].incarnation, t);

			found = is_in_list(a, key, false, names);
			free(key);
		}
	lists_free(&l);
	return found;
}

int redriven_are_under_way(struct admin *a, const char *names)
{
	struct name_set set = {0};
	int found;

	for (; strlen(names) >= NAME_DIGITS; names += NAME_DIGITS)
		name_set_add(&set, names, 0);
	found = is_in_list(a, a->keys.ingress, false, &set);
	if (found == 0)
		found = is_in_flight(a, &set);
	if (found == 0)
		found = is_in_list(a, a->keys.delayed, true, &set);
	if (found == 0)
		found = is_in_list(a, a->keys.aside, false, &set);
	found = found == 0 ? is_in_list(a, a->keys.ingress, false, &set) : found;
	name_set_free(&set);
	return found;
}
