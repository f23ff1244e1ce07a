/*
 * Follows messages that were moved back: which of them have failed again, and whether some are still under way. paced.c
 * decides what to do about that.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/operations/redriven.h"

#include "admin/operations/operation.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"

/* bytes read of an entry: all of a small message, whatever wrapper it has */
#define WITH_WRAPPER (2 * QUEUE_BY_VALUE_MAX)
#define NOTED_PAGE (4096 * QUEUE_FINGERPRINT_DIGITS)

/* ---- fingerprints ---- */

static uint64_t number_of(const char *digits)
{
	char text[FINGERPRINT_SIZE];
	uint64_t number;

	strlcpy(text, digits, sizeof(text));
	number = strtoull(text, NULL, 16);
	return number == 0 ? 1 : number;
}

static void fingerprints_free(struct fingerprints *s)
{
	free(s->slots);
	free(s->cause_hashes);
	*s = (struct fingerprints){0};
}

static size_t slot_of(const struct fingerprints *s, uint64_t number)
{
	size_t i = (size_t)number & (s->room - 1);

	while (s->slots[i] != 0 && s->slots[i] != number)
		i = (i + 1) & (s->room - 1);
	return i;
}

static void make_room(struct fingerprints *s)
{
	struct fingerprints more = { .n = s->n, .room = s->room == 0 ? 1024 : 2 * s->room };

	more.slots = alloc_zero(more.room, sizeof(*more.slots));
	more.cause_hashes = alloc_zero(more.room, sizeof(*more.cause_hashes));
	for (size_t i = 0; i < s->room; i++) {
		size_t at = s->slots[i] == 0 ? 0 : slot_of(&more, s->slots[i]);

		if (s->slots[i] != 0) {
			more.slots[at] = s->slots[i];
			more.cause_hashes[at] = s->cause_hashes[i];
		}
	}
	fingerprints_free(s);
	*s = more;
}

static void fingerprints_add(struct fingerprints *s, const char *digits, uint32_t cause_hash)
{
	uint64_t number = number_of(digits);
	size_t at;

	if (2 * s->n >= s->room)
		make_room(s);
	at = slot_of(s, number);
	s->n += s->slots[at] == 0;
	s->slots[at] = number;
	s->cause_hashes[at] = cause_hash;
}

static bool fingerprints_has(const struct fingerprints *s, const char *digits)
{
	return s->room > 0 && s->slots[slot_of(s, number_of(digits))] != 0;
}

/* Its first digits. */
static void fingerprint_of_bytes(const void *data, size_t len, char out[FINGERPRINT_SIZE])
{
	char sum[ENCODE_SHA1_SIZE];

	encode_sha1(data, len, sum);
	strlcpy(out, sum, FINGERPRINT_SIZE);
}

const char *redriven_fingerprint(struct record_sum sum, char out[FINGERPRINT_SIZE])
{
	if (strlen(sum.sha1) >= QUEUE_FINGERPRINT_DIGITS)
		strlcpy(out, sum.sha1, FINGERPRINT_SIZE);
	else
		fingerprint_of_bytes(sum.size, strlen(sum.size), out);
	return out;
}

bool redriven_has(const struct redriven *r, struct record_sum sum)
{
	char fingerprint[FINGERPRINT_SIZE];

	return fingerprints_has(&r->fingerprints, redriven_fingerprint(sum, fingerprint));
}

uint32_t redriven_cause_hash(const char *cause)
{
	char digits[FINGERPRINT_SIZE];
	uint32_t hash;

	fingerprint_of_bytes(cause, strlen(cause), digits);
	digits[8] = '\0';
	hash = (uint32_t)strtoul(digits, NULL, 16);
	return hash == 0 ? 1 : hash;
}

uint32_t redriven_hash_before(const struct redriven *r, struct record_sum sum)
{
	const struct fingerprints *s = &r->fingerprints;
	char fingerprint[FINGERPRINT_SIZE];

	if (r->cause != NULL)
		return redriven_cause_hash(r->cause);
	redriven_fingerprint(sum, fingerprint);
	return fingerprints_has(s, fingerprint) ? s->cause_hashes[slot_of(s, number_of(fingerprint))] : 0;
}

/* ---- failures ---- */

static int read_noted(struct admin *a, struct redriven *r, const char *id)
{
	struct redis_reply reply;
	size_t from = 0;

	do {
		queue_redriven_read(&a->redis, &a->keys, id, from, NOTED_PAGE);
		if (admin_reply(a, &reply, a->keys.redriven) == -1)
			return -1;
		if (reply.type != REDIS_STRING)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a string");
		for (size_t i = 0; i + QUEUE_FINGERPRINT_DIGITS <= reply.len; i += QUEUE_FINGERPRINT_DIGITS)
			fingerprints_add(&r->fingerprints, reply.str + i, 0);
		from += NOTED_PAGE;
	} while (reply.len == NOTED_PAGE);
	return 0;
}

int redriven_begin(struct admin *a, struct redriven *r, const struct operation *o, const char *cause)
{
	*r = (struct redriven){ .next = "-", .cause = cause };
	if (record_id_next(o->bound, r->next) == 0)
		r->next[0] = '\0';
	return read_noted(a, r, o->id);
}

void redriven_add(struct redriven *r, struct record_sum sum, uint32_t cause_hash)
{
	char fingerprint[FINGERPRINT_SIZE];

	fingerprints_add(&r->fingerprints, redriven_fingerprint(sum, fingerprint), cause_hash);
}

static void note_failed(void *arg, const struct record_row *row)
{
	struct redriven *r = arg;

	if (!redriven_has(r, (struct record_sum){ row->sha1, row->size }))
		return;
	if (r->failed++ == 0)
		strlcpy(r->first, row->id, sizeof(r->first));
	strlcpy(r->last, row->id, sizeof(r->last));
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
	fingerprints_free(&r->fingerprints);
}

/* ---- searching for a message ---- */

/* A small message counts whole, a large one with its length and its ends. */
static void fingerprint_of(const char *data, size_t size, const char *tail, char out[FINGERPRINT_SIZE])
{
	char ends[2 * QUEUE_ENTRY_ENDS + 24];
	int n;

	if (size <= QUEUE_BY_VALUE_MAX) {
		fingerprint_of_bytes(data, size, out);
		return;
	}
	n = snprintf(ends, sizeof(ends), "%zu ", size);
	memcpy(ends + n, data, QUEUE_ENTRY_ENDS);
	memcpy(ends + n + QUEUE_ENTRY_ENDS, tail, QUEUE_ENTRY_ENDS);
	fingerprint_of_bytes(ends, (size_t)n + 2 * QUEUE_ENTRY_ENDS, out);
}

void redriven_fingerprint_of(const struct list_entry *message, char out[FINGERPRINT_SIZE])
{
	const char *tail = message->tail.data;

	if (entry_is_large(message) && message->tail.len < QUEUE_ENTRY_ENDS)
		tail = (const char *)message->head.data + message->head.len - QUEUE_ENTRY_ENDS;
	fingerprint_of(message->head.data, message->size, tail, out);
}

/* Without its wrapper. false: the look has too little of it */
static bool fingerprint_of_looked(const struct admin *a, const struct queue_looked *l, char out[FINGERPRINT_SIZE])
{
	struct message m;
	size_t size;

	message_parse(&m, &a->keys.lines, l->head.str, l->head.len);
	size = l->size - m.wrapper_len;
	if (size > QUEUE_BY_VALUE_MAX ? l->head.len < m.wrapper_len + QUEUE_ENTRY_ENDS : l->head.len < l->size)
		return false;
	fingerprint_of(m.raw + m.wrapper_len, size,
	    l->tail.len == QUEUE_ENTRY_ENDS ? l->tail.str : l->head.str + l->head.len - QUEUE_ENTRY_ENDS, out);
	return true;
}

/* Asks for a page of a list or, apart not NULL, of a sorted set. *n: its entries. -1: error of Redis */
static int read_looked(struct admin *a, const char *key, const char *apart, int64_t first, int64_t most,
    struct redis_reply *reply, size_t *n)
{
	queue_look(&a->redis, &(struct queue_look){ .key = key, .apart = apart, .first = first, .most = most,
	    .bytes = ENTRIES_STEP_BYTES, .shown = WITH_WRAPPER, .ends = QUEUE_ENTRY_ENDS });
	if (admin_reply(a, reply, key) == -1)
		return -1;
	*n = queue_look_count(reply);
	return *n == SIZE_MAX ? admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis to a look at %s", key) : 0;
}

/* Looks through a page. *found: a message is there. Returns whether the search ends here: at a message, or with `last`
 * not "" only at that one */
static bool search_page(const struct admin *a, const struct redis_reply *reply, size_t n,
    const struct fingerprints *wanted, const char *last, bool *found)
{
	char fingerprint[FINGERPRINT_SIZE];

	for (size_t i = 0; i < n; i++) {
		struct queue_looked l;

		queue_looked(reply, i, &l);
		if (!fingerprint_of_looked(a, &l, fingerprint))
			continue;
		if (strcmp(fingerprint, last) == 0)
			return true;
		*found = *found || fingerprints_has(wanted, fingerprint);
		if (*found && last[0] == '\0')
			return true;
	}
	return false;
}

/*
 * Reads a list from the newest entry on, a sorted set from the first, to the end, or only up to the message `last`: if
 * that one is gone, it is not known which entries are newer, so none counts. A message that moves meanwhile may be
 * missed, so callers check twice. 1: one of them is there; 0: none is; -1: error of Redis
 */
static int search(struct admin *a, const char *key, const char *apart, const struct fingerprints *wanted,
    const char *last)
{
	struct redis_reply reply;
	bool found = false, ends = false;
	int64_t first = 0;
	size_t n;

	do {
		if (read_looked(a, key, apart, first, ENTRIES_MAX, &reply, &n) == -1)
			return -1;
		ends = search_page(a, &reply, n, wanted, last, &found);
		first += (int64_t)n;
	} while (!ends && n > 0);
	return found && ends;
}

static int is_in_list(struct admin *a, const char *key, const struct fingerprints *wanted)
{
	return search(a, key, NULL, wanted, "");
}

static int is_in_flight(struct admin *a, const struct fingerprints *wanted)
{
	struct lists l;
	int found = lists_read(a, &a->keys, LIST_BIT(LIST_TRANSIT), &l);

	for (size_t i = 0; found == 0 && i < l.nworkers; i++)
		for (int t = 0; found == 0 && t <= QUEUE_TRAYS; t++) {
			char *key = queue_tray_key(&a->keys, l.workers[i].incarnation, t);

			found = is_in_list(a, key, wanted);
			free(key);
		}
	lists_free(&l);
	return found;
}

static void read_digits(struct fingerprints *s, const char *digits)
{
	for (; strlen(digits) >= QUEUE_FINGERPRINT_DIGITS; digits += QUEUE_FINGERPRINT_DIGITS)
		fingerprints_add(s, digits, 0);
}

int redriven_are_under_way(struct admin *a, const char *fingerprints)
{
	struct fingerprints wanted = {0};
	int found;

	read_digits(&wanted, fingerprints);
	found = is_in_list(a, a->keys.ingress, &wanted);
	if (found == 0)
		found = is_in_flight(a, &wanted);
	if (found == 0)
		found = search(a, a->keys.delayed, a->keys.delayed_apart, &wanted, "");
	if (found == 0)
		found = is_in_list(a, a->keys.aside, &wanted);
	found = found == 0 ? is_in_list(a, a->keys.ingress, &wanted) : found;
	fingerprints_free(&wanted);
	return found;
}

int redriven_find_in_escape(struct admin *a, struct redriven *r, const char *fingerprints, const char *newest)
{
	struct fingerprints wanted = {0};
	int found;

	if (newest[0] == '\0')
		return 0;
	read_digits(&wanted, fingerprints);
	found = search(a, a->keys.escape, NULL, &wanted, newest);
	fingerprints_free(&wanted);
	r->failed += found == 1;
	return found;
}

int redriven_newest(struct admin *a, char out[FINGERPRINT_SIZE])
{
	struct redis_reply reply;
	struct queue_looked l;
	size_t n;

	out[0] = '\0';
	if (read_looked(a, a->keys.escape, NULL, 0, 1, &reply, &n) == -1)
		return -1;
	if (n > 0) {
		queue_looked(&reply, 0, &l);
		if (!fingerprint_of_looked(a, &l, out))
			out[0] = '\0';
	}
	return 0;
}
