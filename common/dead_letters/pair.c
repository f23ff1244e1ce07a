/*
 * Decides which record belongs to which dead letter, and which of them leave. Pure: it reads a page and writes the
 * result into it.
 *
 * A record and a dead letter of the same sha1 form a pair, the oldest with the oldest. A record of a message that is
 * too long for a sha1 is paired by size. List and log are in the same order: one script adds a dead letter with its
 * record, one script removes both, and a dead letter that had no record becomes the newest when it gets one. Therefore
 * an entry or a record between two pairs that has no counterpart between them has none at all. If a page shows no pair,
 * the totals of list and log show which side has too many.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/dead_letters/pair.h"

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/queue.h"

/* ---- a page ---- */

static struct queue_bytes bytes_of(const struct redis_reply *r)
{
	return (struct queue_bytes){ r->str == NULL ? "" : r->str, r->len };
}

static void read_record(struct dead_letter_record *l, const struct redis_reply *record)
{
	struct redis_reply id = redis_element(record, 0), fields = redis_element(record, 1);
	const struct queue_bytes *sha1, *size;
	uint64_t ms = 0, serial;

	strlcpy(l->id, id.str, sizeof(l->id));
	queue_record_id_parse(l->id, &ms, &serial);
	l->ms = ms > INT64_MAX ? INT64_MAX : (int64_t)ms;
	l->nfields = fields.n / 2;
	l->fields = alloc_zero(l->nfields, sizeof(*l->fields));
	for (size_t i = 0; i < l->nfields; i++) {
		struct redis_reply name = redis_element(&fields, 2 * i), value = redis_element(&fields, 2 * i + 1);

		l->fields[i] = (struct record_field){ bytes_of(&name), bytes_of(&value) };
	}
	sha1 = record_field_of(l->fields, l->nfields, "sha1");
	if (sha1 != NULL && sha1->len == sizeof(l->sha1) - 1)
		memcpy(l->sha1, sha1->data, sha1->len);
	size = record_field_of(l->fields, l->nfields, "size");
	l->size = size == NULL ? 0 : strtoull(size->data, NULL, 10);
	l->entry = -1;
}

struct dead_letters *dead_letters_new(const struct queue_dead_letters_page *page)
{
	struct dead_letters *l = alloc_zero(1, sizeof(*l));

	l->entries_total = page->entries;
	l->records_total = page->records;
	for (; l->nentries < page->entry_list.n && l->nentries < DEAD_LETTERS_PAGE; l->nentries++) {
		struct redis_reply entry = redis_element(&page->entry_list, l->nentries);
		struct dead_letter_entry *e = &l->entries[l->nentries];

		e->message = bytes_of(&entry);
		encode_sha1(e->message.data, e->message.len, e->sha1);
		e->record = -1;
	}
	for (; l->nrecords < page->record_list.n && l->nrecords < DEAD_LETTERS_PAGE; l->nrecords++) {
		struct redis_reply record = redis_element(&page->record_list, l->nrecords);

		read_record(&l->records[l->nrecords], &record);
	}
	return l;
}

void dead_letters_free(struct dead_letters *l)
{
	for (size_t i = 0; i < l->nrecords; i++)
		free(l->records[i].fields);
	free(l);
}

/* ---- pairs ---- */

/* Among equal messages, the oldest entry is paired with the oldest record. */
static void find_entry(struct dead_letters *l, size_t record)
{
	struct dead_letter_record *r = &l->records[record];

	for (size_t i = 0; i < l->nentries && r->sha1[0] != '\0'; i++) {
		struct dead_letter_entry *e = &l->entries[i];

		if (e->record != -1 || strcmp(e->sha1, r->sha1) != 0)
			continue;
		r->entry = (int)i;
		e->record = (int)record;
		return;
	}
}

/* Different messages can have the same size. So a pair is certain only if this page shows one entry and one record of
 * that size. */
static void find_entry_by_size(struct dead_letters *l, size_t record)
{
	struct dead_letter_record *r = &l->records[record];
	size_t entries = 0, records = 0, last = 0;

	for (size_t i = 0; i < l->nentries; i++)
		if (l->entries[i].record == -1 && l->entries[i].message.len == r->size) {
			last = i;
			entries++;
		}
	for (size_t i = 0; i < l->nrecords; i++)
		records += l->records[i].sha1[0] == '\0' && l->records[i].size == r->size;
	if (entries != 1 || records != 1)
		return;
	r->entry = (int)last;
	l->entries[last].record = (int)record;
}

static size_t least(int64_t a, size_t b)
{
	return a < 0 ? 0 : (size_t)a < b ? (size_t)a : b;
}

/*
 * For a page without a pair: if one total is larger, marks as many of that side as it exceeds the other, since so many
 * have no counterpart. If both totals are equal, marks one entry as unrecorded: it gets a new record, and without that
 * the next page would show the same.
 */
static void decide_by_figures(struct dead_letters *l)
{
	int64_t more = l->entries_total - l->records_total;
	size_t entries = least(more > 0 ? more : 1, l->nentries), records = least(-more, l->nrecords);

	for (size_t i = 0; more >= 0 && i < entries; i++)
		l->entries[i].unrecorded = true;
	for (size_t i = 0; more < 0 && i < records; i++)
		l->records[i].orphan = true;
}

static void decide_unpaired(struct dead_letters *l)
{
	bool whole_list = (int64_t)l->nentries >= l->entries_total,
	    whole_log = (int64_t)l->nrecords >= l->records_total;
	size_t last_entry = 0, last_record = 0;		/* index after the last pair */

	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].entry != -1)
			last_record = i + 1;
	for (size_t i = 0; i < l->nentries; i++)
		if (l->entries[i].record != -1)
			last_entry = i + 1;
	for (size_t i = 0; i < l->nrecords; i++)
		l->records[i].orphan = l->records[i].archived_orphan ||
		    (l->records[i].entry == -1 && (whole_list || i < last_record));
	for (size_t i = 0; i < l->nentries; i++)
		l->entries[i].unrecorded = l->entries[i].record == -1 && (whole_log || i < last_entry);
	if (last_record == 0 && !whole_list && !whole_log)
		decide_by_figures(l);
}

/* ---- dead letters that leave ---- */

void dead_letter_digest(const struct dead_letter_record *l, char out[ENCODE_SHA1_SIZE])
{
	struct sha1_ctx hash;

	sha1_init(&hash);
	for (size_t i = 0; i < l->nfields; i++) {
		const struct record_field *f = &l->fields[i];
		/* the lengths, so that different fields cannot give the same bytes */
		const uint64_t lens[] = { f->name.len, f->value.len };

		sha1_update(&hash, sizeof(lens), (const uint8_t *)lens);
		sha1_update(&hash, f->name.len, (const uint8_t *)f->name.data);
		sha1_update(&hash, f->value.len, (const uint8_t *)f->value.data);
	}
	encode_sha1_end(&hash, out);
}

static bool is_named(const struct dead_letter_name *name, const struct dead_letter_record *l)
{
	char digest[ENCODE_SHA1_SIZE];

	if (strcmp(name->id, l->id) != 0 || name->digest[0] == '\0')
		return false;
	dead_letter_digest(l, digest);
	return strcmp(name->digest, digest) == 0 || strcmp(name->digest, l->sha1) == 0;
}

static const struct dead_letter_name *name_of(const struct dead_letters_bounds *b, const struct dead_letter_record *l)
{
	for (size_t i = 0; i < b->nnamed; i++)
		if (is_named(&b->named[i], l))
			return &b->named[i];
	return NULL;
}

bool dead_letters_hides_named(const struct dead_letters *l, const struct dead_letter_name *named, size_t nnamed)
{
	const struct dead_letters_bounds b = { .named = named, .nnamed = nnamed };

	for (size_t i = 0; i < l->nrecords; i++)
		if (name_of(&b, &l->records[i]) != NULL)
			return true;
	return false;
}

/* Does not pair a record that was archived without a message, even if an equal message is in the list now: that message
 * must stay. */
static void pair_records(struct dead_letters *l, const struct dead_letters_bounds *b)
{
	for (size_t i = 0; i < l->nrecords; i++) {
		const struct dead_letter_name *name = name_of(b, &l->records[i]);

		l->records[i].archived_orphan = name != NULL && name->orphan;
		if (!l->records[i].archived_orphan)
			find_entry(l, i);
	}
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].sha1[0] == '\0' && l->records[i].size > QUEUE_LOOK_SUM_MAX &&
		    !l->records[i].archived_orphan)
			find_entry_by_size(l, i);
}

static size_t judge_named(struct dead_letters *l, const struct dead_letters_bounds *b, int64_t *excess)
{
	size_t n = 0;

	for (size_t i = 0; i < l->nrecords && b->nnamed > 0; i++) {
		struct dead_letter_record *r = &l->records[i];

		if (name_of(b, r) == NULL || (r->entry == -1 && !r->orphan))
			continue;
		r->fate = DEAD_LETTER_NAMED;
		*excess -= r->entry != -1;
		n++;
	}
	return n;
}

/*
 * A removed record cannot be restored, so its place and the totals must both prove that its message is gone. This walk
 * adds no records for entries that have none, so such entries could hide entries that belong to records. A record
 * without a sha1 may belong to any entry.
 */
size_t dead_letters_judge_orphans(struct dead_letters *l, const struct dead_letters_bounds *b)
{
	bool whole_list = (int64_t)l->nentries >= l->entries_total, paired = false;
	size_t n = 0, orphans = 0;

	pair_records(l, b);
	decide_unpaired(l);
	for (size_t i = 0; i < l->nrecords; i++) {
		paired = paired || l->records[i].entry != -1;
		orphans += l->records[i].orphan;
	}
	if (!whole_list && (!paired || (int64_t)orphans > l->records_total - l->entries_total))
		return 0;
	for (size_t i = 0; i < l->nrecords; i++) {
		struct dead_letter_record *r = &l->records[i];

		if (r->ms > b->oldest_ms || (b->forwarded != NULL && queue_record_id_compare(r->id, b->forwarded) > 0))
			break;
		if (!r->orphan || (r->sha1[0] == '\0' && l->entries_total > 0))
			continue;
		r->fate = DEAD_LETTER_LEAVES;
		r->reason = "max_orphaned_age";
		n++;
	}
	return n;
}

/* Judges the records from the oldest on, up to the first one that stays, or whose message is not certain. */
size_t dead_letters_judge(struct dead_letters *l, const struct dead_letters_bounds *b)
{
	int64_t excess = b->max_entries < 0 ? 0 : l->entries_total - b->max_entries;
	size_t named;

	pair_records(l, b);
	decide_unpaired(l);
	named = judge_named(l, b, &excess);
	for (size_t i = 0; i < l->nrecords; i++) {
		struct dead_letter_record *r = &l->records[i];
		bool old = r->ms <= b->oldest_ms, ready = r->entry != -1 || r->orphan;

		if (r->fate == DEAD_LETTER_NAMED)
			continue;
		if ((!old && excess <= 0) || !ready ||
		    (b->forwarded != NULL && queue_record_id_compare(r->id, b->forwarded) > 0))
			break;
		r->fate = DEAD_LETTER_LEAVES;
		r->reason = old ? "ttl" : "max_entries";
		excess -= r->entry != -1;
	}
	return named;
}
