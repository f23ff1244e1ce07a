/*
 * Reads dead letters and records from their old end, removes pairs, and adds records for dead letters that have none.
 * The sweeper decides which of them leave, and when. A walk reads all of them and removes none.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/dead_letters/removal.h"
#include "common/dead_letters/walk.h"

#include "common/queue/queue.h"

/* ---- reads ---- */

void queue_dead_letters_glance(struct redis *r, const struct queue_keys *k)
{
	const char *keys[] = { k->escape, k->log, k->claimed };

	queue_script(r, QUEUE_SCRIPT_dead_letters_glance, 3, keys, 0, NULL);
}

static bool is_number(const struct redis_reply *reply)
{
	return reply->type == REDIS_INTEGER;
}

int queue_dead_letters_glanced(const struct redis_reply *reply, struct queue_dead_letters_glance *out)
{
	struct redis_reply part[5];
	uint64_t ms, serial;

	if (reply->type != REDIS_ARRAY || reply->n != 5)
		return -1;
	for (size_t i = 0; i < 5; i++)
		part[i] = redis_element(reply, i);
	if (!is_number(&part[0]) || !is_number(&part[1]) || part[2].type != REDIS_STRING || !is_number(&part[3]) ||
	    part[4].type != REDIS_STRING)
		return -1;
	*out = (struct queue_dead_letters_glance){ part[0].integer, part[1].integer, 0, part[3].integer, part[4].str };
	if (queue_record_id_parse(part[2].str, &ms, &serial) == 0)
		out->oldest_ms = ms > INT64_MAX ? INT64_MAX : (int64_t)ms;
	return 0;
}

void queue_dead_letters_page(struct redis *r, const struct queue_keys *k, int64_t entries, int64_t most, int64_t bytes)
{
	queue_dead_letters_page_of(r, k, entries, most, bytes, "-", NULL, 0);
}

void queue_dead_letters_page_of(struct redis *r, const struct queue_keys *k, int64_t entries, int64_t most,
    int64_t bytes, const char *from, const char *const *ids, size_t n)
{
	const char *keys[] = { k->escape, k->log };
	struct script_arg args[4 + QUEUE_DEAD_LETTERS_PAGE_MAX];
	struct script_number limits[3];

	args[0] = script_number(&limits[0], most);
	args[1] = script_number(&limits[1], bytes);
	args[2] = script_number(&limits[2], entries);
	args[3] = script_string(from);
	for (size_t i = 0; i < n; i++)
		args[4 + i] = script_string(ids[i]);
	queue_script(r, QUEUE_SCRIPT_dead_letters_page, 2, keys, 4 + n, args);
}

static bool is_record(const struct redis_reply *reply)
{
	struct redis_reply id, fields;

	if (reply->type != REDIS_ARRAY || reply->n != 2)
		return false;
	id = redis_element(reply, 0);
	fields = redis_element(reply, 1);
	return id.type == REDIS_STRING && id.len < QUEUE_RECORD_ID_SIZE && redis_is_strings(&fields) &&
	    fields.n % 2 == 0;
}

/* Returns 0 if the elements from `first` on are records, else -1. */
static int are_records(const struct redis_reply *reply, size_t first)
{
	if (reply->type != REDIS_ARRAY)
		return -1;
	for (size_t i = first; i < reply->n; i++) {
		struct redis_reply record = redis_element(reply, i);

		if (!is_record(&record))
			return -1;
	}
	return 0;
}

int queue_dead_letters_paged(const struct redis_reply *reply, struct queue_dead_letters_page *out)
{
	struct redis_reply part[6];

	if (reply->type != REDIS_ARRAY || reply->n != 6)
		return -1;
	for (size_t i = 0; i < 6; i++)
		part[i] = redis_element(reply, i);
	if (!is_number(&part[0]) || !is_number(&part[1]) || !is_number(&part[2]) || !redis_is_strings(&part[3]) ||
	    part[4].type != REDIS_ARRAY || part[5].type != REDIS_STRING)
		return -1;
	if (are_records(&part[4], 0) == -1)
		return -1;
	*out = (struct queue_dead_letters_page){ part[0].integer, part[1].integer, part[2].integer, part[3], part[4],
	    part[5].str };
	return 0;
}

/* ---- forwarding ---- */

/* before NULL: nothing changes. */
static void append_forward(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes, const char *before,
    const char *last)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->log, k->forwarded };
	struct script_number limits[2];
	struct script_arg args[4] = { script_number(&limits[0], most), script_number(&limits[1], bytes) };

	if (before != NULL) {
		args[2] = script_string(before);
		args[3] = script_string(last);
	}
	queue_script(r, QUEUE_SCRIPT_forward, 3, keys, before == NULL ? 2 : 4, args);
	free(none);
}

void queue_forward_page(struct redis *r, const struct queue_keys *k, int64_t most, int64_t bytes)
{
	append_forward(r, k, most, bytes, NULL, NULL);
}

void queue_forwarded(struct redis *r, const struct queue_keys *k)
{
	append_forward(r, k, 0, 0, NULL, NULL);
}

void queue_forward_done(struct redis *r, const struct queue_keys *k, const char *before, const char *last)
{
	append_forward(r, k, 0, 0, before, last);
}

int queue_forward_paged(const struct redis_reply *reply)
{
	struct redis_reply position;

	if (reply->type != REDIS_ARRAY || reply->n == 0)
		return -1;
	position = redis_element(reply, 0);
	return position.type == REDIS_STRING && position.len < QUEUE_RECORD_ID_SIZE ? are_records(reply, 1) : -1;
}

/* ---- removal ---- */

void queue_dead_letters_remove(struct redis *r, const struct queue_keys *k, int64_t depth,
    const struct queue_dead_letter *letters, size_t n)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->escape, k->log, k->claimed };
	struct script_arg args[1 + 2 * QUEUE_DEAD_LETTERS_GROUP];
	struct script_number from;

	args[0] = script_number(&from, -depth);
	for (size_t i = 0; i < n; i++) {
		args[1 + 2 * i] = (struct script_arg){ letters[i].message.data, letters[i].message.len };
		args[2 + 2 * i] = script_string(letters[i].record_id);
	}
	queue_script(r, QUEUE_SCRIPT_dead_letters_remove, 4, keys, 1 + 2 * n, args);
	free(none);
}

void queue_dead_letters_claim(struct redis *r, const struct queue_keys *k, const struct queue_claimer *who, bool fresh,
    int64_t depth, const struct queue_dead_letter *letters, size_t n)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->escape, k->log, k->claimed, k->sweeper };
	struct script_arg args[4 + 3 * QUEUE_DEAD_LETTERS_GROUP];
	struct script_number from;

	args[0] = script_string(who->lead);
	args[1] = script_string(who->node);
	args[2] = script_string(fresh ? "1" : "0");
	args[3] = script_number(&from, -depth);
	for (size_t i = 0; i < n; i++) {
		args[4 + 3 * i] = (struct script_arg){ letters[i].message.data, letters[i].message.len };
		args[5 + 3 * i] = script_string(letters[i].sha1);
		args[6 + 3 * i] = script_string(letters[i].record_id);
	}
	queue_script(r, QUEUE_SCRIPT_dead_letters_claim, 5, keys, 4 + 3 * n, args);
	free(none);
}

void queue_dead_letters_release(struct redis *r, const struct queue_keys *k, const char *node)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->claimed };

	queue_script(r, QUEUE_SCRIPT_dead_letters_release, 2, keys, 1, (struct script_arg[]){ script_string(node) });
	free(none);
}

void queue_dead_letters_adopt(struct redis *r, const struct queue_keys *k, int64_t depth, struct message *m,
    const char *newest, const struct record *record)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->escape, k->log };
	struct script_arg args[3 + 2 * RECORD_FIELDS];
	struct script_number from;
	struct record_text text;

	args[0] = script_number(&from, -depth);
	args[1] = (struct script_arg){ m->raw, m->raw_len };
	args[2] = script_string(newest);
	queue_script(r, QUEUE_SCRIPT_dead_letters_adopt, 3, keys, 3 + queue_record_args(record, m, &text, args + 3),
	    args);
	free(none);
}

void queue_records_remove(struct redis *r, const struct queue_keys *k, const char *const *ids, size_t n)
{
	const char *argv[2 + QUEUE_RECORDS_GROUP] = { "XDEL", k->log };

	memcpy(argv + 2, ids, n * sizeof(*ids));
	redis_append(r, n + 2, argv, NULL);
}

/* ---- a walk ---- */

void dead_letters_walk_weigh(struct redis *r, const struct queue_keys *k)
{
	char *no_lease = queue_lease_key(k, NULL);

	queue_weigh(r, no_lease, k->escape, QUEUE_END_RIGHT, DEAD_LETTERS_PAGE, DEAD_LETTERS_PAGE_BYTES);
	free(no_lease);
}

void dead_letters_walk_ask(struct redis *r, const struct queue_keys *k, const struct dead_letters_walk *w,
    int64_t entries)
{
	const char *ids[DEAD_LETTERS_PAGE];

	for (size_t i = 0; i < w->nstay; i++)
		ids[i] = w->stay[i];
	queue_dead_letters_page_of(r, k, entries, DEAD_LETTERS_PAGE, DEAD_LETTERS_PAGE_BYTES,
	    w->from[0] == '\0' ? "-" : w->from, ids, w->nstay);
}

struct dead_letters *dead_letters_walk_page(const struct dead_letters_walk *w,
    const struct queue_dead_letters_page *page)
{
	struct queue_dead_letters_page rest = *page;

	rest.records -= w->left;
	return dead_letters_new(&rest);
}

void dead_letters_walk_on(struct dead_letters_walk *w, const struct dead_letters *judged)
{
	w->nstay = 0;
	for (size_t i = 0; i < judged->nrecords; i++) {
		const struct dead_letter_record *r = &judged->records[i];

		if (r->fate == DEAD_LETTER_LEAVES)
			w->left++;
		else
			strlcpy(w->stay[w->nstay++], r->id, sizeof(w->stay[0]));
		queue_record_id_next(r->id, w->from);
	}
}
