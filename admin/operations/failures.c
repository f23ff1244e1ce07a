/*
 * Says why messages that were moved back are dead letters again. If they have the cause that they had before, the
 * outage is still there; if not, it is another fault. redriven.c knows which messages these are, and the cause that
 * each had.
 */
#include <inttypes.h>
#include <string.h>

#include "admin/operations/failures.h"

#include "common/base/base.h"

#define RECORDS_MAX 2000	/* records read: those of other messages lie between them */

/* The command that moved them may have named the cause, or its shape. */
static bool is_same_cause(const char *cause, uint32_t before)
{
	char shape[CAUSE_SIZE];

	cause_shape(cause, shape);
	return before == redriven_cause_hash(cause) || before == redriven_cause_hash(shape);
}

static int read_record(void *arg, const struct dead_letter *d)
{
	struct record_sum sum = { dead_letter_value(d, "sha1").data, dead_letter_value(d, "size").data };
	struct failures *f = arg;
	enum failure_kind kind;
	char cause[CAUSE_SIZE];
	uint32_t before;

	if (redriven_has(f->redriven, sum)) {
		before = redriven_hash_before(f->redriven, sum);
		cause_of(d, cause);
		kind = before == 0 ? FAILURE_UNKNOWN : is_same_cause(cause, before) ? FAILURE_SAME : FAILURE_OTHER;
		groups_count(&f->causes[kind], cause, 0);
		f->n[kind]++;
		f->read++;
	}
	return ++f->records >= RECORDS_MAX || f->read >= FAILURES_MAX ? 1 : 0;
}

int failures_read(struct admin *a, const struct redriven *r, struct failures *f)
{
	static const char *const fields[] = { "sha1", "size", CAUSE_FIELDS };
	int rc;

	*f = (struct failures){ .redriven = r };
	if (r->failed == 0)
		return 0;
	rc = dead_letter_walk(a, &(struct dead_letter_walk){ .from = r->last, .to = r->first, .fields = fields,
	    .nfields = nitems(fields) }, read_record, f);
	for (int i = 0; i < FAILURE_KINDS; i++)
		groups_sort(&f->causes[i]);
	return rc == -1 ? -1 : 0;
}

/* ---- as text ---- */

static void add_subject(const struct failures *f, int64_t n, struct buffer *text)
{
	if (f->read == 1)
		buffer_format(text, "It");
	else if (n == f->read)
		buffer_format(text, "%s %" PRId64, f->read < f->redriven->failed ? "The newest" : "All", n);
	else
		buffer_format(text, "%s%" PRId64, text->len == 0 ? "" : "; ", n);
}

char *failures_text(const struct failures *f)
{
	static const char *const what[FAILURE_KINDS] =
	    { "the same cause as before", "another cause than before", "a cause that cannot be compared" };
	struct buffer text = {0};

	for (int i = 0; i < FAILURE_KINDS; i++) {
		const struct groups *causes = &f->causes[i];

		if (f->n[i] == 0)
			continue;
		add_subject(f, f->n[i], &text);
		buffer_format(&text, " %s %s%s: ", f->n[i] == 1 ? "has" : "have", what[i],
		    causes->n > 1 ? ", mostly" : "");
		options_append_quoted(&text, causes->all[0]->key);
	}
	buffer_append(&text, "", 1);
	return text.data;
}

const char *failures_most_frequent(const struct failures *f)
{
	const struct group *most = NULL;

	for (int i = 0; i < FAILURE_KINDS; i++)
		if (f->causes[i].n > 0 && (most == NULL || f->causes[i].all[0]->count > most->count))
			most = f->causes[i].all[0];
	return most == NULL ? NULL : most->key;
}

void failures_free(struct failures *f)
{
	for (int i = 0; i < FAILURE_KINDS; i++)
		groups_free(&f->causes[i]);
}
