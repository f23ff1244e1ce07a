/* Takes the dead letters of an operation out of a list in which most may stay. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "admin/moves/letters.h"

#include "admin/moves/bulk.h"
#include "admin/moves/redriven.h"
#include "admin/moves/retry.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"

#define TOGETHER_MAX (64 * 1024)	/* a longer message is taken alone: Redis copies it */
#define TOGETHER_BYTES (1024 * 1024)
#define SEARCHES 2
#define READ_MAX 2000			/* records that do not match, before the operation is renewed */

void letters_begin(struct letters *l, struct operation *op, struct filter *f, bool retry)
{
	*l = (struct letters){ .op = op, .filter = f, .retry = retry, .acted = l->acted };
	snprintf(l->gone, sizeof(l->gone), "quredis:gone:%08" PRIx32 "%08" PRIx32 "%08" PRIx32, arc4random(), arc4random(), arc4random());
}

/* ---- reading records ---- */

struct reading {
	struct letters *l;
	int64_t read;
};

static void add_letter(struct letters *l, const struct dead_letter *d)
{
	const struct queue_bytes *sha1 = record_field_of(d->fields, d->nfields, "sha1");
	const struct queue_bytes *size = record_field_of(d->fields, d->nfields, "size");
	struct letter *one = &l->page[l->n++];
	char cause[CAUSE_SIZE];

	*one = (struct letter){ .before = l->seen, .size = size == NULL ? 0 : strtoull(size->data, NULL, 10) };
	strlcpy(one->record_id, d->record_id, sizeof(one->record_id));
	if (sha1 != NULL && sha1->len == sizeof(one->sha1) - 1)
		memcpy(one->sha1, sha1->data, sha1->len);
	if (l->redriven != NULL)
		one->cause = redriven_cause(cause_of(d, cause));
	one->single = one->sha1[0] == '\0' || one->size > TOGETHER_MAX || l->op->a->keys.shared;
}

static int read_one(void *arg, const struct dead_letter *d)
{
	struct reading *r = arg;
	struct letters *l = r->l;

	if (filter_matches(l->filter, d))
		add_letter(l, d);
	l->seen++;
	record_id_next(d->record_id, l->op->next);
	return l->n == nitems(l->page) || interrupt_asked() || (++r->read >= READ_MAX && l->n == 0) ? 1 : 0;
}

/* Reads the next page. op->next is behind it then. */
static int fill(struct letters *l)
{
	const char *fields[QUEUE_LOOK_FIELDS] = { "sha1", "size", CAUSE_FIELDS };
	size_t n = filter_add_fields(l->filter, fields, l->redriven != NULL ? 2 + CAUSE_NFIELDS : 2);
	int rc = 1;

	l->n = l->at = 0;
	while (rc == 1 && l->n == 0 && !interrupt_asked()) {
		if (operation_renew(l->op) == -1)
			return -1;
		rc = dead_letter_walk(l->op->a, &(struct dead_letter_walk){ .up = true, .from = l->op->next, .to = l->op->bound, .fields = fields,
		    .nfields = n }, read_one, &(struct reading){ .l = l });
	}
	l->at_end = rc == 0;
	return rc == -1 ? -1 : 0;
}

int letters_next(struct letters *l, const struct letter **next)
{
	if (l->at == l->n && !l->at_end && fill(l) == -1)
		return -1;
	*next = &l->page[l->at];
	return l->at < l->n;
}

void letters_step_back(struct letters *l)
{
	if (l->at < l->n)
		strlcpy(l->op->next, l->page[l->at].record_id, sizeof(l->op->next));
}

int letters_release(struct letters *l)
{
	letters_step_back(l);
	return operation_release(l->op);
}

int64_t letters_place(const struct letters *l, const struct letter *one)
{
	int64_t at = -1 - (one->before - l->left + l->shift);

	return at > -1 ? -1 : at;
}

/* ---- taking one ---- */

static void pass(struct letters *l, bool leaves)
{
	l->left += leaves;
	l->at++;
}

static int note_redriven(struct letters *l, const struct letter *one)
{
	struct admin *a = l->op->a;
	int64_t length, expires;

	if (l->redriven == NULL)
		return 0;
	redriven_add(l->redriven, one->sha1, one->cause);
	queue_operation_redriven(&a->redis, &a->keys, one->sha1);
	return admin_integer(a, &length, a->keys.redriven) == -1 || admin_integer(a, &expires, a->keys.redriven) == -1 ? -1 : 0;
}

/* moved: 1; 0: it is gone; -1: an archive has claimed it */
static int move_entry(struct letters *l, const struct dead_letter *d, const struct list_entry *e, int64_t *moved)
{
	struct admin *a = l->op->a;
	int rc;

	if (l->retry)
		return note_redriven(l, &l->page[l->at]) == -1 ? -1 : retry_redrive_one(a, e, d->record_id, moved);
	rc = purge_dead_letter(a, d, e);
	*moved = rc != -1;
	return rc == -1 && a->status != EX_NOINPUT ? -1 : 0;
}

static int take_single(struct letters *l, const struct dead_letter *d)
{
	struct list_entry e;
	int64_t moved = 0;
	int found = dead_letter_entry(l->op->a, d, letters_place(l, &l->page[l->at]), &e), rc = 0;

	if (found == -1 && l->op->a->status == EX_NOINPUT)
		found = 0;		/* one of several without a sha1: it stays */
	else if (found == -1)
		return -1;
	else if (found == 0 && !l->retry)
		rc = move_entry(l, d, NULL, &moved);
	if (found == 1) {
		if (e.at < 0)
			l->shift += letters_place(l, &l->page[l->at]) - e.at;
		rc = operation_note(l->op, OPERATION_NEXT, d->record_id) == -1 ? -1 : move_entry(l, d, &e, &moved);
	}
	entry_free(&e);
	l->acted += moved == 1;
	if (rc == 0 && moved == 1)
		rc = operation_count(l->op);
	l->missing += moved == 0;
	l->claimed += moved == -1;
	pass(l, moved != -1);
	return rc;
}

/* Searches for the message of a record. 1: it has another place, which is known now; 0: it has this one, is not there, or Redis cannot tell; -1: error */
static int search(struct letters *l, const struct dead_letter *d)
{
	const struct queue_bytes *message = record_field_of(d->fields, d->nfields, "message");
	struct letter *one = &l->page[l->at];
	struct admin *a = l->op->a;
	int64_t was = letters_place(l, one);
	struct redis_reply reply;

	if (message == NULL || message->len != one->size || one->searches++ >= SEARCHES)
		return 0;
	queue_dead_letter_place(&a->redis, &a->keys, message->data, message->len);
	if (admin_reply(a, &reply, a->keys.escape) == -1)
		return -1;
	if (reply.type != REDIS_INTEGER || reply.integer > 1)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected a place");
	if (reply.integer >= 0 || reply.integer == was)
		return 0;
	l->shift += was - reply.integer;
	return 1;
}

/* The first one of the page was not at its place, has no record any more, or is to be handled alone. */
static int take_first(struct letters *l)
{
	struct dead_letter d;
	int found = dead_letter_read(l->op->a, l->page[l->at].record_id, TOGETHER_MAX, &d), rc = 0, place;

	if (found == 0) {
		l->missing++;
		pass(l, true);
	} else if (found == 1) {
		place = l->page[l->at].single ? 0 : search(l, &d);
		rc = place == -1 ? -1 : place == 0 ? take_single(l, &d) : 0;
	}
	dead_letter_free(&d);
	return found == -1 ? -1 : rc;
}

/* ---- taking many ---- */

static size_t prepare(struct letters *l, int64_t most, int64_t now_ms, struct queue_taken taken[QUEUE_TAKEN_MAX])
{
	struct wrapper w = { .own_ms = now_ms, .redriven_ms = now_ms };
	size_t n = 0, bytes = 0;
	struct queue_note note;
	struct message m;

	while (n < QUEUE_TAKEN_MAX && (int64_t)n < most && l->at + n < l->n && !l->page[l->at + n].single && bytes < TOGETHER_BYTES) {
		const struct letter *one = &l->page[l->at + n];

		taken[n] = (struct queue_taken){ .at = letters_place(l, one), .size = one->size, .sha1 = one->sha1, .record_id = one->record_id };
		if (l->retry) {
			message_parse(&m, &l->op->a->keys.lines, "", 0);
			queue_remember(&l->op->a->keys, &m, &w, &taken[n].line, &note);
			if (l->redriven != NULL)
				redriven_add(l->redriven, one->sha1, one->cause);
		}
		bytes += one->size;
		n++;
	}
	return n;
}

static int take_answer(struct letters *l, size_t n)
{
	struct operation *op = l->op;
	struct redis_reply reply, count, acted;

	if (admin_reply(op->a, &reply, op->a->keys.escape) == -1)
		return -1;
	count = redis_element(&reply, 0);
	acted = redis_element(&reply, 1);
	if (reply.type != REDIS_ARRAY || reply.n < 2 || count.type != REDIS_INTEGER || acted.type != REDIS_INTEGER || count.integer > (int64_t)n)
		return admin_fail(op->a, EX_PROTOCOL, "unexpected reply from Redis: expected how many dead letters it took");
	if (count.integer < 0)
		return operation_lost(op);
	l->again = l->again || acted.integer != op->acted + count.integer;
	op->acted = acted.integer;
	l->acted += count.integer;
	l->left += count.integer;
	l->at += (size_t)count.integer;
	return count.integer == (int64_t)n ? 0 : take_first(l);
}

int letters_take(struct letters *l, int64_t most)
{
	struct queue_taken taken[QUEUE_TAKEN_MAX];
	struct admin *a = l->op->a;
	const struct letter *next;
	int64_t now_ms;
	size_t n;
	int rc = letters_next(l, &next);

	if (rc != 1)
		return rc == 0 && interrupt_asked() ? 1 : rc;
	if (operation_renew(l->op) == -1 || (l->retry && admin_seals(a) == -1) || admin_server_time(a, &now_ms) == -1)
		return -1;
	n = prepare(l, most, now_ms, taken);
	if (n == 0)
		return take_first(l) == -1 ? -1 : 1;
	queue_dead_letters_take(&a->redis, &a->keys, l->op->id, l->op->holder, l->retry, l->redriven != NULL, l->gone, next->record_id, taken, n);
	for (size_t i = 0; i < n; i++)
		buffer_free(&taken[i].line);
	return take_answer(l, n) == -1 ? -1 : 1;
}
