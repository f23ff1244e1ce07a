/* Takes the dead letters of an operation out of a list in which most may stay. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "admin/operations/selection.h"

#include "admin/operations/redriven.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"

#define TOGETHER_MAX (64 * 1024)	/* a longer message is taken alone: Redis copies it */
#define TOGETHER_BYTES (1024 * 1024)
#define SEARCHES 2
#define READ_MAX 2000			/* records that do not match, before the operation is renewed */

void selection_begin(struct selection *s, struct operation *op, struct filter *f, bool retry, struct redriven *redriven)
{
	*s = (struct selection){ .op = op, .filter = f, .retry = retry, .redriven = redriven, .done = s->done };
	snprintf(s->gone, sizeof(s->gone), "quredis:gone:%08" PRIx32 "%08" PRIx32 "%08" PRIx32, arc4random(),
	    arc4random(), arc4random());
}

/* ---- reading records ---- */

struct reading {
	struct selection *s;
	int64_t read;
};

static void add_selected(struct selection *s, const struct dead_letter *d)
{
	const struct queue_bytes *sha1 = dead_letter_field(d, "sha1");
	struct selected *one = &s->page[s->n++];
	char cause[CAUSE_SIZE];

	*one = (struct selected){ .before = s->seen };
	strlcpy(one->size_text, dead_letter_value(d, "size").data, sizeof(one->size_text));
	one->size = strtoull(one->size_text, NULL, 10);
	strlcpy(one->record_id, d->record_id, sizeof(one->record_id));
	one->lineage = dead_letter_brief(d).lineage;
	if (sha1 != NULL && sha1->len == sizeof(one->sha1) - 1)
		memcpy(one->sha1, sha1->data, sha1->len);
	if (s->redriven != NULL)
		one->cause_hash = redriven_cause_hash(cause_of(d, cause));
	one->single = one->sha1[0] == '\0' || one->size > TOGETHER_MAX || s->op->a->keys.shared;
}

static int read_record(void *arg, const struct dead_letter *d)
{
	struct reading *r = arg;
	struct selection *s = r->s;

	if (filter_matches(s->filter, d))
		add_selected(s, d);
	s->seen++;
	if (!operation_step_behind(s->op, d->record_id))
		return 0;		/* the walk ends here */
	return s->n == nitems(s->page) || interrupt_asked() || (++r->read >= READ_MAX && s->n == 0) ? 1 : 0;
}

/* Reads the next page. op->next is behind it then. */
static int read_page(struct selection *s)
{
	const char *fields[QUEUE_LOOK_FIELDS] = { "sha1", "size", "root", "depth", "traceparent", CAUSE_FIELDS };
	size_t n = filter_add_fields(s->filter, fields, s->redriven != NULL ? 5 + CAUSE_NFIELDS : 5);
	int rc = 1;

	s->n = s->at = 0;
	while (rc == 1 && s->n == 0 && !interrupt_asked()) {
		if (operation_renew(s->op) == -1)
			return -1;
		rc = dead_letter_walk(s->op->a,
		    &(struct dead_letter_walk){ .up = true, .from = s->op->next, .to = s->op->bound, .fields = fields,
		    .nfields = n }, read_record, &(struct reading){ .s = s });
	}
	s->at_end = rc == 0;
	return rc == -1 ? -1 : 0;
}

int selection_next(struct selection *s, const struct selected **next)
{
	if (s->at == s->n && !s->at_end && read_page(s) == -1)
		return -1;
	*next = &s->page[s->at];
	return s->at < s->n;
}

void selection_step_back(struct selection *s)
{
	if (s->at < s->n)
		operation_step_to(s->op, s->page[s->at].record_id);
}

int64_t selection_place(const struct selection *s, const struct selected *one)
{
	int64_t at = -1 - (one->before - s->removed + s->shift);

	return at > -1 ? -1 : at;
}

/* ---- taking one ---- */

static void pass_over(struct selection *s, bool is_removed)
{
	s->removed += is_removed;
	s->at++;
}

static struct record_sum sum_of(const struct selected *one)
{
	return (struct record_sum){ one->sha1, one->size_text };
}

static int note_redriven(struct selection *s, const struct selected *one)
{
	char fingerprint[FINGERPRINT_SIZE];
	struct admin *a = s->op->a;
	int64_t length, expires;

	if (s->redriven == NULL)
		return 0;
	redriven_add(s->redriven, sum_of(one), one->cause_hash);
	queue_redriven_add(&a->redis, &a->keys, s->op->id, redriven_fingerprint(sum_of(one), fingerprint));
	return admin_integer(a, &length, a->keys.redriven) == -1 || admin_integer(a, &expires, a->keys.redriven) == -1
	    ? -1 : 0;
}

/* moved: 1; 0: it is gone; -1: an archive has claimed it */
static int move_entry(struct selection *s, const struct dead_letter *d, const struct list_entry *e, int64_t *moved)
{
	struct record_brief record = dead_letter_brief(d);
	struct admin *a = s->op->a;
	int rc;

	if (s->retry)
		return note_redriven(s, &s->page[s->at]) == -1 ? -1 : take_redrive(a, e, &record, moved);
	rc = take_delete(a, d, e);
	*moved = rc == 1;
	return rc == -1 && a->status != EX_NOINPUT ? -1 : 0;
}

/* Leaves a message that cannot be told from another one: the error was printed, and the work goes on. */
static int leave_unsure(struct selection *s)
{
	s->unsure++;
	pass_over(s, false);
	return 0;
}

static int take_single(struct selection *s, const struct dead_letter *d)
{
	struct list_entry e;
	int64_t moved = 0;
	int found = dead_letter_entry(s->op->a, d, selection_place(s, &s->page[s->at]), &e), rc = 0;

	if (found == -1)
		return s->op->a->status == EX_NOINPUT ? leave_unsure(s) : -1;
	if (found == 0 && !s->retry)
		rc = move_entry(s, d, NULL, &moved);
	if (found == 1) {
		if (e.at < 0)
			s->shift += selection_place(s, &s->page[s->at]) - e.at;
		rc = operation_note_next(s->op, d->record_id) == -1 ? -1 : move_entry(s, d, &e, &moved);
	}
	entry_free(&e);
	if (rc == -1)		/* a repeated command begins with this one */
		return -1;
	s->done += moved == 1;
	if (moved == 1)
		rc = operation_count(s->op);
	s->missing += moved == 0;
	s->claimed += moved == -1;
	pass_over(s, moved != -1);
	return rc;
}

/* Searches for the message of a record. 1: it has another place, which is known now; 0: it has this one, is not there,
 * or Redis cannot tell; -1: error */
static int search_place(struct selection *s, const struct dead_letter *d)
{
	const struct queue_bytes *message = dead_letter_field(d, "message");
	struct selected *one = &s->page[s->at];
	struct admin *a = s->op->a;
	int64_t was = selection_place(s, one);
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
	s->shift += was - reply.integer;
	return 1;
}

/* The first one of the page was not at its place, has no record any more, or is to be handled alone. */
static int take_first(struct selection *s)
{
	struct dead_letter d;
	int found = dead_letter_read(s->op->a, s->page[s->at].record_id, TOGETHER_MAX, &d), rc = 0, place;

	if (found == 0) {
		s->missing++;
		pass_over(s, true);
	} else if (found == 1) {
		place = s->page[s->at].single ? 0 : search_place(s, &d);
		rc = place == -1 ? -1 : place == 0 ? take_single(s, &d) : 0;
	}
	dead_letter_free(&d);
	return found == -1 ? -1 : rc;
}

/* ---- taking many ---- */

static size_t prepare_batch(struct selection *s, int64_t most, int64_t now_ms,
    struct queue_taken taken[QUEUE_TAKEN_MAX])
{
	struct wrapper w = { .own_ms = now_ms, .redriven_ms = now_ms };
	size_t n = 0, bytes = 0;
	struct queue_note note;
	struct message m;

	while (n < QUEUE_TAKEN_MAX && (int64_t)n < most && s->at + n < s->n && !s->page[s->at + n].single &&
	    bytes < TOGETHER_BYTES) {
		const struct selected *one = &s->page[s->at + n];

		taken[n] = (struct queue_taken){ .at = selection_place(s, one), .size = one->size, .sha1 = one->sha1,
		    .record_id = one->record_id };
		if (s->retry) {
			message_parse(&m, &s->op->a->keys.lines, "", 0);
			w.lineage = one->lineage;
			queue_remember(&s->op->a->keys, &m, &w, &taken[n].line, &note);
			if (s->redriven != NULL)
				redriven_add(s->redriven, sum_of(one), one->cause_hash);
		}
		bytes += one->size;
		n++;
	}
	return n;
}

static int take_answer(struct selection *s, size_t n)
{
	struct operation *op = s->op;
	struct redis_reply reply, count, done;

	if (admin_reply(op->a, &reply, op->a->keys.escape) == -1)
		return -1;
	count = redis_element(&reply, 0);
	done = redis_element(&reply, 1);
	if (reply.type != REDIS_ARRAY || reply.n < 2 || count.type != REDIS_INTEGER || done.type != REDIS_INTEGER ||
	    count.integer > (int64_t)n)
		return admin_fail(op->a, EX_PROTOCOL,
		    "unexpected reply from Redis: expected how many dead letters it took");
	if (count.integer < 0)
		return operation_lost(op);
	s->went_back = !operation_took(op, count.integer, done.integer) || s->went_back;
	s->done += count.integer;
	s->removed += count.integer;
	s->at += (size_t)count.integer;
	return count.integer == (int64_t)n ? 0 : take_first(s);
}

int selection_take(struct selection *s, int64_t most)
{
	struct queue_taken taken[QUEUE_TAKEN_MAX];
	struct admin *a = s->op->a;
	const struct selected *next;
	int64_t now_ms;
	size_t n;
	int rc = selection_next(s, &next);

	if (rc != 1)
		return rc == 0 && interrupt_asked() ? 1 : rc;
	if (operation_renew(s->op) == -1 || (s->retry && admin_seals(a) == -1) || admin_server_time(a, &now_ms) == -1)
		return -1;
	n = prepare_batch(s, most, now_ms, taken);
	if (n == 0)
		return take_first(s) == -1 ? -1 : 1;
	queue_dead_letters_take(&a->redis, &a->keys, s->op->id, s->op->holder, s->retry, s->redriven != NULL, s->gone,
	    next->record_id, taken, n);
	for (size_t i = 0; i < n; i++)
		buffer_free(&taken[i].line);
	return take_answer(s, n) == -1 ? -1 : 1;
}
