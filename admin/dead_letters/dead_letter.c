/* Reads records from the log of escape, and finds the message of a record. quredis(1) and docs/design.md describe the
 * fields. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "admin/dead_letters/dead_letter.h"

#include "admin/cli/cli.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define COMPARED_MAX 1000	/* the newest records, to find an id that is similar to one that does not exist */
#define BEGINNING_LEAST 4	/* a shorter text is the beginning of too many ids */
#define LOOKS 3			/* searches for a message that changes its place meanwhile */

const struct queue_bytes *dead_letter_field(const struct dead_letter *d, const char *name)
{
	return record_field_of(d->fields, d->nfields, name);
}

struct queue_bytes dead_letter_value(const struct dead_letter *d, const char *name)
{
	const struct queue_bytes *b = dead_letter_field(d, name);

	return b == NULL ? (struct queue_bytes){ "", 0 } : *b;
}

bool dead_letter_is(const struct dead_letter *d, const char *field, const char *value)
{
	const struct queue_bytes *b = dead_letter_field(d, field);

	return b != NULL && b->len == strlen(value) && memcmp(b->data, value, b->len) == 0;
}

/* Every value ends with a NUL: it is of a reply, or a copy. */
struct record_brief dead_letter_brief(const struct dead_letter *d)
{
	struct record_brief brief = {0};

	strlcpy(brief.id, d->record_id, sizeof(brief.id));
	message_lineage_read(&brief.lineage, dead_letter_value(d, "root").data, dead_letter_value(d, "depth").data,
	    dead_letter_value(d, "traceparent").data);
	return brief;
}

/* True: a time as quredis writes it, so that JSON has the same bytes. */
static bool is_time(const char *field, const struct queue_bytes *b, int64_t *ms)
{
	size_t len = strlen(field);
	char again[CLOCK_RFC3339_SIZE];

	if (len < 3 || strcmp(field + len - 3, "_at") != 0)
		return false;
	*ms = clock_rfc3339_parse(b->data);
	if (*ms <= 0 || b->len != strlen("2026-11-20T14:31:07.123Z"))
		return false;
	*ms += strtol((const char *)b->data + strlen("2026-11-20T14:31:07."), NULL, 10);
	return strlen(clock_rfc3339(*ms, again)) == b->len && memcmp(again, b->data, b->len) == 0;
}

struct cell dead_letter_cell(const struct dead_letter *d, const char *field)
{
	const struct queue_bytes *b = dead_letter_field(d, field);
	const char *why = NULL;
	int64_t ms;
	long long n;

	if (b == NULL || (b->len == 0 && strcmp(field, "message") != 0 && strcmp(field, "stderr") != 0))
		return cell_none();
	if (record_field_is_number(field)) {
		n = strtonum(b->data, 0, INT64_MAX, &why);	/* every reply ends with a NUL */
		if (why == NULL)
			return cell_int(n);
	}
	return is_time(field, b, &ms) ? cell_time(ms) : cell_bytes(b->data, b->len);
}

/* ---- reading ---- */

static struct queue_bytes bytes_of(const struct redis_reply *r)
{
	return (struct queue_bytes){ r->str == NULL ? "" : r->str, r->len };
}

/* entry: [id, [field, value, ...]]. d gets views into the answer. */
static int parse_record(struct dead_letter *d, const struct redis_reply *entry)
{
	struct redis_reply id, fields;

	*d = (struct dead_letter){0};
	if (entry->type != REDIS_ARRAY || entry->n != 2)
		return -1;
	id = redis_element(entry, 0);
	fields = redis_element(entry, 1);
	if (id.type != REDIS_STRING || fields.type != REDIS_ARRAY || !record_id_valid(id.str))
		return -1;
	strlcpy(d->record_id, id.str, sizeof(d->record_id));
	d->fields = alloc_zero(fields.n / 2, sizeof(*d->fields));
	for (; d->nfields < fields.n / 2; d->nfields++) {
		struct redis_reply name = redis_element(&fields, 2 * d->nfields),
		    value = redis_element(&fields, 2 * d->nfields + 1);

		d->fields[d->nfields].name = bytes_of(&name);
		d->fields[d->nfields].value = bytes_of(&value);
	}
	return 0;
}

static struct queue_bytes copy(const struct queue_bytes *b)
{
	return (struct queue_bytes){ alloc_copy(b->data, b->len), b->len };
}

static void own(struct dead_letter *d)
{
	for (size_t i = 0; i < d->nfields; i++) {
		d->fields[i].name = copy(&d->fields[i].name);
		d->fields[i].value = copy(&d->fields[i].value);
	}
	d->owned = true;
}

void dead_letter_free(struct dead_letter *d)
{
	for (size_t i = 0; d->owned && i < d->nfields; i++) {
		free((void *)(uintptr_t)d->fields[i].name.data);
		free((void *)(uintptr_t)d->fields[i].value.data);
	}
	free(d->fields);
	*d = (struct dead_letter){0};
}

struct walk {
	const struct dead_letter_walk *what;
	int (*f)(void *arg, const struct dead_letter *d);
	void *arg;
	const char *stream;
	char from[RECORD_ID_SIZE];
	bool at_end;			/* the greatest id of all was read */
};

/* Requests a page from `from` on, in the direction of the walk. A record may be as large as dead_letter.payload_max
 * allows. */
static int ask_page(struct admin *a, const struct walk *w, struct redis_reply *reply)
{
	const struct dead_letter_walk *what = w->what;

	queue_look_records(&a->redis, &(struct queue_records_look){ .key = w->stream, .from = w->from,
	    .to = what->to != NULL ? what->to : what->up ? "+" : "-",
	    .up = what->up, .most = ENTRIES_MAX, .bytes = ENTRIES_STEP_BYTES,
	    .shown = what->shown > 0 ? what->shown : DEAD_LETTER_SHOWN,
	    .fields = what->fields, .nfields = what->nfields });
	if (admin_reply(a, reply, w->stream) == -1)
		return -1;
	return reply->type == REDIS_ARRAY ? 0
	    : admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
}

static int walk_page(struct admin *a, struct walk *w, const struct redis_reply *page)
{
	int stop = 0;

	for (size_t i = 0; i < page->n && stop == 0; i++) {
		struct redis_reply entry = redis_element(page, i);
		struct dead_letter d;

		if (parse_record(&d, &entry) == -1)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected records");
		if (w->what->up)
			w->at_end = record_id_next(d.record_id, w->from) == 0;
		else
			records_id_before(d.record_id, w->from);
		stop = w->f(w->arg, &d);
		free(d.fields);
	}
	return stop;
}

int dead_letter_walk(struct admin *a, const struct dead_letter_walk *what,
    int (*f)(void *arg, const struct dead_letter *d), void *arg)
{
	struct walk w = { .what = what, .f = f, .arg = arg, .stream = what->done ? a->keys.done : a->keys.log };
	struct redis_reply reply;
	void *kept;
	int rc;

	strlcpy(w.from, what->from != NULL ? what->from : what->up ? "-" : "+", sizeof(w.from));
	do {
		if (ask_page(a, &w, &reply) == -1)
			return -1;
		kept = redis_keep(&a->redis);
		rc = walk_page(a, &w, &reply);
		redis_let_go(kept);
	} while (rc == 0 && reply.n > 0 && !w.at_end);
	return rc;
}

int dead_letter_each(struct admin *a, int (*f)(void *arg, const struct dead_letter *d), void *arg)
{
	return dead_letter_walk(a, &(struct dead_letter_walk){ .up = false }, f, arg);
}

/* ---- finding one ---- */

struct search {
	const char *id;
	char record_id[RECORD_ID_SIZE];	/* of the newest match */
	size_t matches;
};

static int match_message_id(void *arg, const struct dead_letter *d)
{
	struct search *s = arg;

	if (dead_letter_is(d, "id", s->id) && s->matches++ == 0)
		strlcpy(s->record_id, d->record_id, sizeof(s->record_id));
	return 0;
}

int dead_letter_read(struct admin *a, const char *id, int64_t shown, struct dead_letter *d)
{
	struct redis_reply reply, entry;

	*d = (struct dead_letter){0};
	queue_look_records(&a->redis, &(struct queue_records_look){ .key = a->keys.log, .from = id, .to = id,
	    .up = true, .most = 1, .bytes = 1, .shown = shown });
	if (admin_reply(a, &reply, a->keys.log) == -1)
		return -1;
	if (reply.type == REDIS_ARRAY && reply.n == 0)
		return 0;
	if (reply.type == REDIS_ARRAY)
		entry = redis_element(&reply, 0);
	if (reply.type != REDIS_ARRAY || parse_record(d, &entry) == -1)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a record");
	own(d);
	return 1;
}

/* Ids of the newest records and of their messages; owned. */
struct ids {
	const char *all[2 * COMPARED_MAX];
	size_t n;
};

static int note_ids(void *arg, const struct dead_letter *d)
{
	const struct queue_bytes *id = dead_letter_field(d, "id");
	struct ids *ids = arg;

	ids->all[ids->n++] = alloc_string(d->record_id);
	ids->all[ids->n++] = id == NULL ? alloc_string("") : alloc_copy(id->data, id->len);
	return ids->n == nitems(ids->all);
}

/* An id that begins with this text, or is similar to it; NULL: none. */
static const char *similar_id(const struct ids *ids, const char *id)
{
	for (size_t i = 0; i < ids->n; i++)
		if (strlen(id) >= BEGINNING_LEAST && strncmp(ids->all[i], id, strlen(id)) == 0)
			return ids->all[i];
	return nearest(id, ids->all, ids->n);
}

/* what: "record". Names an id among the newest records that the operator may have meant. */
static int fail_to_find(struct admin *a, const char *what, const char *id)
{
	static const char *const fields[] = { "id" };
	struct ids ids = { .n = 0 };
	int rc = dead_letter_walk(a, &(struct dead_letter_walk){ .fields = fields, .nfields = nitems(fields) },
	    note_ids, &ids);
	const char *near = rc == -1 ? NULL : similar_id(&ids, id);
	char *shown_id = visible(id, strlen(id), 200),
	    *shown_near = visible(near == NULL ? "" : near, near == NULL ? 0 : strlen(near), 200);

	if (rc != -1)
		admin_fail(a, EX_NOINPUT, "%s has no %s %s%s%s%s", a->keys.name, what, shown_id,
		    near == NULL ? "" : " (did you mean ", shown_near, near == NULL ? "" : "?)");
	for (size_t i = 0; i < ids.n; i++)
		free((void *)(uintptr_t)ids.all[i]);
	free(shown_id);
	free(shown_near);
	return -1;
}

static int find_record(struct admin *a, const char *id, int64_t shown, struct dead_letter *d)
{
	int found = dead_letter_read(a, id, shown, d);

	return found == 0 ? fail_to_find(a, "record", id) : found == 1 ? 0 : -1;
}

int dead_letter_find(struct admin *a, const char *id, int64_t shown, struct dead_letter *d)
{
	static const char *const fields[] = { "id" };
	struct search s = { .id = id };
	char *named;

	*d = (struct dead_letter){0};
	if (record_id_valid(id))
		return find_record(a, id, shown, d);
	if (dead_letter_walk(a, &(struct dead_letter_walk){ .fields = fields, .nfields = nitems(fields) },
	    match_message_id, &s) == -1)
		return -1;
	if (s.matches == 0)
		return fail_to_find(a, "record or message", id);
	named = visible(id, strlen(id), 200);
	if (s.matches > 1)
		admin_note("%zu records have the id %s: this is the newest, %s", s.matches, named, s.record_id);
	free(named);
	return find_record(a, s.record_id, shown, d);
}

/* ---- its message ---- */

/* Returns the message in the record, if that has all of it; else NULL. size: of the message in bytes; 0: the record
 * does not say. */
static const struct queue_bytes *kept_whole(const struct dead_letter *d, size_t *size)
{
	const struct queue_bytes *kept = dead_letter_field(d, "message"), *text = dead_letter_field(d, "size");
	const char *why = NULL;

	*size = text == NULL ? 0 : (size_t)strtonum(text->data, 0, INT64_MAX, &why);
	return kept != NULL && text != NULL && why == NULL && *size == kept->len ? kept : NULL;
}

struct same_size {
	char size[24];
	size_t records;
};

static int count_same_size(void *arg, const struct dead_letter *d)
{
	struct same_size *s = arg;

	s->records += dead_letter_is(d, "size", s->size);
	return 0;
}

/*
 * Finds a message of more than QUEUE_LOOK_SUM_MAX bytes that no worker has read. Its record only has its size, which is
 * enough if no other record and no other message has the same size.
 */
static int find_by_size(struct admin *a, size_t size, struct list_entry *e)
{
	struct same_size s = { .records = 0 };
	int found;

	snprintf(s.size, sizeof(s.size), "%zu", size);
	if (dead_letter_each(a, count_same_size, &s) == -1)
		return -1;
	found = entry_find_by_size(a, a->keys.escape, size, e);
	if (found == 1 && s.records > 1) {
		entry_free(e);
		found = 2;
	}
	return found;
}

/* As entry_find_by_size(). */
static int find_message(struct admin *a, int64_t first, size_t size, const char *sha1, struct list_entry *e)
{
	if (sha1[0] == '\0' && size > QUEUE_LOOK_SUM_MAX)
		return find_by_size(a, size, e);
	return entry_find(a, a->keys.escape, first, size, sha1, e);
}

static bool is_message(const struct redis_reply *reply, size_t size, const char *sha1)
{
	char sum[ENCODE_SHA1_SIZE];

	if (reply->type != REDIS_STRING || reply->len != size)
		return false;
	encode_sha1(reply->str, reply->len, sum);
	return sha1[0] == '\0' || strcmp(sum, sha1) == 0;
}

/* A message that is too large for its record is only in the list. */
static int find_in_list(struct admin *a, size_t size, const char *sha1, struct queue_bytes *message)
{
	struct redis_reply reply;
	struct list_entry e;
	int found = 1;

	for (int i = 0; i < LOOKS && message->data == NULL && found == 1; i++) {
		found = find_message(a, 0, size, sha1, &e);
		if (found != 1)
			break;
		redis_appendf(&a->redis, "LINDEX %s %d", a->keys.escape, e.at);
		entry_free(&e);
		if (admin_reply(a, &reply, a->keys.escape) == -1)
			return -1;
		if (is_message(&reply, size, sha1))
			*message = copy(&(struct queue_bytes){ reply.str, reply.len });
	}
	return found == -1 ? -1 : 0;
}

int dead_letter_entry(struct admin *a, const struct dead_letter *d, int64_t first, struct list_entry *e)
{
	const struct queue_bytes *sha1 = dead_letter_field(d, "sha1"), *kept;
	size_t size;
	int found;

	kept = kept_whole(d, &size);
	*e = (struct list_entry){0};
	if (kept != NULL && size <= QUEUE_BY_VALUE_MAX) {
		*e = (struct list_entry){ .size = size, .head = copy(kept) };
		return 1;
	}
	found = sha1 == NULL ? 0 : find_message(a, first, size, sha1->data, e);
	if (found == 2)
		return admin_fail(a, EX_NOINPUT, "%s is one of several dead letters of %zu bytes without a sha1, and "
		    "cannot be told from the others: dlq retry --all moves all of them back", d->record_id, size);
	return found;
}

int dead_letter_message(struct admin *a, const struct dead_letter *d, struct queue_bytes *message)
{
	const struct queue_bytes *sha1 = dead_letter_field(d, "sha1"), *kept;
	size_t size;

	*message = (struct queue_bytes){0};
	kept = kept_whole(d, &size);
	if (kept != NULL) {
		*message = copy(kept);
		return 0;
	}
	return sha1 == NULL ? 0 : find_in_list(a, size, sha1->data, message);
}
