/* quredis dlq ls, dlq show, dlq export: read and show the records of dead letters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/dead_letters/dead_letter.h"
#include "admin/dead_letters/dead_letters.h"

#include "common/base/base.h"

#define LIMIT 50
#define CLASSES 32		/* classes that are remembered, to suggest one of them */

/* ---- ls ---- */

static const struct column ls_columns[] = {
	{ "record", "Record", false },
	{ "failed_at", "Failed at", false },
	{ "error_class", "Class", false },
	{ "exit_code", "Exit", true },
	{ "signal", "Signal", false },
	{ "attempts", "Attempts", true },
	{ "size", "Size", true },
	{ "error_message", "Error", false },
	{ "id", NULL, false },
	{ "queue_from", NULL, false },
	{ "retry_count", NULL, false },
	{ "crashes", NULL, false },
	{ "duration_ms", NULL, false },
	{ "node", NULL, false },
	{ "worker", NULL, false },
	{ "handler", NULL, false },
	{ "first_failed_at", NULL, false },
	{ "request_id", NULL, false },
	{ "sha1", NULL, false },
};

struct listing {
	struct admin *a;
	const char *class;	/* NULL: all */
	int64_t left, shown;
	char *others[CLASSES];	/* other classes that the listing met */
	size_t nothers;
};

static void note_class(struct listing *l, const struct dead_letter *d)
{
	const struct queue_bytes *class = record_field_of(d->fields, d->nfields, "error_class");

	for (size_t i = 0; i < l->nothers; i++)
		if (dead_letter_is(d, "error_class", l->others[i]))
			return;
	if (class != NULL && l->nothers < CLASSES)
		l->others[l->nothers++] = alloc_copy(class->data, class->len);
}

/* If no dead letter has the class, its name may be misspelt. */
static void suggest_class(const struct listing *l)
{
	const char *near = l->class == NULL || l->shown > 0 ? NULL : nearest(l->class, (const char *const *)l->others, l->nothers);

	if (near != NULL)
		admin_note("no dead letter of %s has the class %s (did you mean %s?)", l->a->keys.name, l->class, near);
	else if (l->class != NULL && l->shown == 0 && l->nothers > 0)
		admin_note("no dead letter of %s has the class %s", l->a->keys.name, l->class);
}

static int show_row(void *arg, const struct dead_letter *d)
{
	struct listing *l = arg;
	struct cell cells[nitems(ls_columns)];

	if (l->class != NULL && !dead_letter_is(d, "error_class", l->class)) {
		note_class(l, d);
		return 0;
	}
	if (l->left == 0)
		return 1;
	cells[0] = cell_str(d->record_id);
	for (size_t i = 1; i < nitems(cells); i++)
		cells[i] = dead_letter_cell(d, ls_columns[i].key);
	output_row(&l->a->output, cells);
	l->left--;
	l->shown++;
	return 0;
}

/* Counting the dead letters without a record would require reading the list and the log. The difference of their lengths is a lower bound. */
static int print_totals(const struct listing *l)
{
	struct admin *a = l->a;
	int64_t entries, records;

	redis_appendf(&a->redis, "LLEN %s", a->keys.escape);
	redis_appendf(&a->redis, "XLEN %s", a->keys.log);
	if (admin_integer(a, &entries, a->keys.escape) == -1 || admin_integer(a, &records, a->keys.log) == -1)
		return -1;
	if (entries > records)
		admin_note("%" PRId64 " shown of %" PRId64 " dead letters; %" PRId64 " or more have no record (peek %s escape shows them)",
		    l->shown, entries, entries - records, a->keys.name);
	else
		admin_note("%" PRId64 " shown of %" PRId64 " dead letters", l->shown, entries);
	return 0;
}

int cmd_dlq_ls(struct admin *a)
{
	struct listing l = { .a = a, .class = a->options.class, .left = a->options.count >= 0 ? a->options.count : LIMIT };
	int rc;

	a->output.keep_first = true;
	output_begin(&a->output, ls_columns, nitems(ls_columns));
	rc = a->options.before != NULL ? dead_letter_each_before(a, a->options.before, show_row, &l) : dead_letter_each(a, show_row, &l);
	rc = rc == -1 ? -1 : 0;
	output_end(&a->output, rc == 0);
	if (rc == 0)
		suggest_class(&l);
	while (l.nothers > 0)
		free(l.others[--l.nothers]);
	return rc == 0 && !a->options.json ? print_totals(&l) : rc;
}

/* ---- show ---- */

static int show_one(struct admin *a, const struct dead_letter *d)
{
	struct column columns[RECORD_FIELDS + 1];
	struct cell cells[RECORD_FIELDS + 1];
	struct queue_bytes message;

	columns[0] = (struct column){ "record", "record", false };
	cells[0] = cell_str(d->record_id);
	for (size_t i = 0; i < RECORD_FIELDS; i++) {
		columns[i + 1] = (struct column){ record_fields[i], record_fields[i], false };
		cells[i + 1] = dead_letter_cell(d, record_fields[i]);
	}
	if (dead_letter_message(a, d, &message) == -1)
		return -1;
	if (message.data == NULL)
		admin_note("the message is too large for the record, and is not in %s", a->keys.escape);
	cells[RECORD_FIELDS] = cell_bytes(message.data, message.len);
	output_object(&a->output, columns, RECORD_FIELDS + 1, cells);
	free((void *)(uintptr_t)message.data);
	return 0;
}

int cmd_dlq_show(struct admin *a)
{
	struct dead_letter d;
	int rc = dead_letter_find(a, a->operands[1], DEAD_LETTER_WHOLE, &d);

	if (rc == 0)
		rc = show_one(a, &d);
	dead_letter_free(&d);
	return rc;
}

/* ---- export: with their messages as lines of JSON, oldest first, as the archive has them ---- */

struct export {
	struct admin *a;
	int64_t left;		/* -1: all */
	int64_t lost;		/* messages that are neither in their record nor in escape */
	struct buffer line;
};

static int write_line(void *arg, const struct dead_letter *d)
{
	struct export *e = arg;
	struct queue_bytes message;

	if (e->a->options.class != NULL && !dead_letter_is(d, "error_class", e->a->options.class))
		return 0;
	if (e->left == 0 || interrupt_asked())
		return 1;
	if (dead_letter_message(e->a, d, &message) == -1)
		return -1;
	e->lost += message.data == NULL;
	buffer_clear(&e->line);
	record_line(&e->line, &(struct record_line){ .record_id = d->record_id, .fields = d->fields, .nfields = d->nfields,
	    .message = message.data == NULL ? NULL : &message });
	free((void *)(uintptr_t)message.data);
	fwrite(e->line.data, 1, e->line.len, e->a->output.file);
	e->left -= e->left > 0;
	return ferror(e->a->output.file) ? 1 : 0;
}

int cmd_dlq_export(struct admin *a)
{
	struct export e = { .a = a, .left = a->options.count };
	int rc;

	interrupt_begin();
	rc = dead_letter_each_oldest(a, NULL, DEAD_LETTER_WHOLE, write_line, &e);
	buffer_free(&e.line);
	if (e.lost > 0)
		admin_note("%" PRId64 " messages were too large for their record, and are no longer in %s", e.lost, a->keys.escape);
	interrupt_end();
	return rc == -1 ? -1 : 0;
}
