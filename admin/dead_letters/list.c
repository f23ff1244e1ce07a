/* quredis dlq ls, dlq show, dlq export: read and show the records of dead letters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/dead_letters/dead_letter.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/dead_letters/filter.h"

#include "common/base/base.h"

#define LIMIT 50
/* bytes of a message in a list: 1000 rows stay far below what an answer may have */
#define MESSAGE_SHOWN "512"

/* ---- ls ---- */

static const struct column ls_columns[] = {
	{ "record", "Record", COLUMN_ID },
	{ "failed_at", "Failed at", COLUMN_STATE },
	{ "error_class", "Class", COLUMN_NAME },
	{ "exit_code", "Exit", COLUMN_NUMBER },
	{ "signal", "Signal", COLUMN_NAME },
	{ "attempts", "Attempts", COLUMN_NUMBER | YIELDS(2) },
	{ "size", "Size", COLUMN_NUMBER | YIELDS(1) },
	{ "error_message", "Error", COLUMN_TEXT },
	{ "id", NULL, COLUMN_NAME },
	{ "queue_from", NULL, COLUMN_NAME },
	{ "retry_count", NULL, COLUMN_NAME },
	{ "crashes", NULL, COLUMN_NAME },
	{ "duration_ms", NULL, COLUMN_NAME },
	{ "node", NULL, COLUMN_NAME },
	{ "worker", NULL, COLUMN_NAME },
	{ "handler", NULL, COLUMN_NAME },
	{ "first_failed_at", NULL, COLUMN_NAME },
	{ "request_id", NULL, COLUMN_NAME },
	{ "root", NULL, COLUMN_NAME },
	{ "depth", NULL, COLUMN_NAME },
	{ "traceparent", NULL, COLUMN_NAME },
	{ "sha1", NULL, COLUMN_NAME },
	{ "message", NULL, COLUMN_NAME },
	{ "cut", NULL, COLUMN_NAME },
};
#define LS_FIELDS (nitems(ls_columns) - 2)	/* those before the message are fields of a record, as they are */

struct listing {
	struct admin *a;
	struct filter filter;
	int64_t left, shown;
};

/* How many of the bytes do not belong to a character of UTF-8 that was cut. */
static size_t whole_characters(const char *s, size_t len)
{
	size_t rest = 0, all;
	unsigned char first;

	while (rest < 3 && rest < len && ((unsigned char)s[len - 1 - rest] & 0xC0) == 0x80)
		rest++;
	if (rest == len)
		return len;
	first = (unsigned char)s[len - 1 - rest];
	all = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC0 ? 2 : 1;
	return all > rest + 1 ? len - rest - 1 : len;
}

/* The beginning of the message, and whether there is more. A record without a message that is too large for it has
 * neither. */
static void message_cells(const struct dead_letter *d, struct cell *message, struct cell *cut)
{
	struct cell size = dead_letter_cell(d, "size");
	bool more;

	*message = dead_letter_cell(d, "message");
	*cut = cell_none();
	if (message->type == CELL_NONE || size.type != CELL_INT || (message->len == 0 && size.value > 0)) {
		*message = cell_none();
		return;
	}
	more = size.value > (int64_t)message->len;
	if (more)
		message->len = whole_characters(message->data, message->len);
	*cut = cell_bool(more);
}

static int show_row(void *arg, const struct dead_letter *d)
{
	struct listing *l = arg;
	struct cell cells[nitems(ls_columns)];

	if (!filter_matches(&l->filter, d))
		return 0;
	if (l->left == 0)
		return 1;
	cells[0] = cell_str(d->record_id);
	for (size_t i = 1; i < LS_FIELDS; i++)
		cells[i] = dead_letter_cell(d, ls_columns[i].key);
	message_cells(d, &cells[LS_FIELDS], &cells[LS_FIELDS + 1]);
	output_row(&l->a->output, cells);
	l->left--;
	l->shown++;
	return 0;
}

/* Counting the dead letters without a record would require reading the list and the log. The difference of their
 * lengths is a lower bound. */
static int print_totals(const struct listing *l)
{
	const char *which = filter_is_empty(&l->filter) ? "" : ", of those that match,";
	struct admin *a = l->a;
	int64_t entries, records;

	redis_appendf(&a->redis, "LLEN %s", a->keys.escape);
	redis_appendf(&a->redis, "XLEN %s", a->keys.log);
	if (admin_integer(a, &entries, a->keys.escape) == -1 || admin_integer(a, &records, a->keys.log) == -1)
		return -1;
	if (entries > 0 && l->shown == 0 && !filter_is_empty(&l->filter))
		admin_note("none of %" PRId64 " dead letters matches", entries);
	else if (entries == 0)
		admin_note("no dead letters");
	else if (entries > records)
		admin_note("%" PRId64 " shown%s of %" PRId64 " dead letters; %" PRId64 " or more have no record (peek "
		    "%s escape shows them)", l->shown, which, entries, entries - records, a->keys.name);
	else
		admin_note("%" PRId64 " shown%s of %" PRId64 " dead letters", l->shown, which, entries);
	return 0;
}

/* Where the listing begins: at --until, or before the record --before, whichever is older. */
static int first_of(const struct listing *l, char first[RECORD_ID_SIZE])
{
	const char *before = l->a->options.before;

	strlcpy(first, l->filter.until, RECORD_ID_SIZE);
	if (before == NULL)
		return 0;
	if (!record_id_valid(before))
		return admin_fail(l->a, EX_USAGE, "--before: expected the id of a record, such as 1700000000000-0");
	if (l->filter.until[0] == '+' || queue_record_id_compare(before, l->filter.until) <= 0)
		records_id_before(before, first);
	return 0;
}

/* Redis sends only the fields that are shown, and those that the filter reads. */
static int list(struct listing *l)
{
	const char *fields[QUEUE_LOOK_FIELDS];
	char first[RECORD_ID_SIZE];
	size_t n = 0;

	if (first_of(l, first) == -1)
		return -1;
	for (size_t i = 1; i < LS_FIELDS; i++)
		fields[n++] = ls_columns[i].key;
	if (l->a->options.json)
		fields[n++] = "message:" MESSAGE_SHOWN;
	n = filter_add_fields(&l->filter, fields, n);
	return dead_letter_walk(l->a, &(struct dead_letter_walk){ .from = first, .to = l->filter.since,
	    .fields = fields, .nfields = n }, show_row, l);
}

int cmd_dlq_ls(struct admin *a)
{
	struct listing l = { .a = a, .left = a->options.count >= 0 ? a->options.count : LIMIT };
	int rc = filter_read(a, &l.filter) == -1 || admin_show_ages(a) == -1 ? -1 : 0;

	if (rc == 0) {
		output_begin(&a->output, ls_columns, nitems(ls_columns));
		rc = list(&l) == -1 ? -1 : 0;
		output_end_list(&a->output, rc == 0);
	}
	if (rc == 0)
		filter_suggest(&l.filter);
	filter_free(&l.filter);
	return rc == 0 && !a->options.json ? print_totals(&l) : rc;
}

/* ---- show ---- */

static int show_one(struct admin *a, const struct dead_letter *d)
{
	struct column columns[RECORD_FIELDS + 1];
	struct cell cells[RECORD_FIELDS + 1];
	struct queue_bytes message;

	columns[0] = (struct column){ "record", "record", COLUMN_NAME };
	cells[0] = cell_str(d->record_id);
	for (size_t i = 0; i < RECORD_FIELDS; i++) {
		columns[i + 1] = (struct column){ record_fields[i], record_fields[i],
			strcmp(record_fields[i], "stderr") == 0 ? COLUMN_LINES : COLUMN_NAME };
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
	int rc;

	if (admin_show_ages(a) == -1)
		return -1;
	rc = dead_letter_find(a, a->operands[1], DEAD_LETTER_WHOLE, &d);
	if (rc == 0)
		rc = show_one(a, &d);
	dead_letter_free(&d);
	return rc;
}

/* ---- export: with their messages as lines of JSON, oldest first, as the archive has them ---- */

struct export {
	struct admin *a;
	struct filter filter;
	bool whole;		/* the walk reads whole records; false: only what the filter reads */
	int64_t left;		/* -1: all */
	int64_t lost;		/* messages that are neither in their record nor in escape */
	struct buffer line;
};

static int write_line(struct export *e, const struct dead_letter *d)
{
	struct queue_bytes message;

	if (dead_letter_message(e->a, d, &message) == -1)
		return -1;
	e->lost += message.data == NULL;
	buffer_clear(&e->line);
	record_line(&e->line, &(struct record_line){ .record_id = d->record_id, .fields = d->fields,
	    .nfields = d->nfields, .message = message.data == NULL ? NULL : &message });
	free((void *)(uintptr_t)message.data);
	output_json_line(&e->a->output, e->line.data, e->line.len);
	e->left -= e->left > 0;
	return ferror(e->a->output.file) ? 1 : 0;
}

static int export_one(void *arg, const struct dead_letter *d)
{
	struct export *e = arg;
	struct dead_letter whole;
	int rc;

	if (!filter_matches(&e->filter, d))
		return interrupt_asked() ? 1 : 0;
	if (e->left == 0 || interrupt_asked())
		return 1;
	if (e->whole)
		return write_line(e, d);
	rc = dead_letter_read(e->a, d->record_id, DEAD_LETTER_WHOLE, &whole);
	if (rc == 1)
		rc = write_line(e, &whole);
	dead_letter_free(&whole);
	return rc;
}

int cmd_dlq_export(struct admin *a)
{
	struct export e = { .a = a, .left = a->options.count };
	const char *fields[QUEUE_LOOK_FIELDS];
	size_t n;
	int rc = filter_read(a, &e.filter);

	if (rc == -1) {
		filter_free(&e.filter);
		return -1;
	}
	n = filter_add_fields(&e.filter, fields, 0);
	e.whole = n == 0;
	interrupt_begin();
	rc = dead_letter_walk(a, &(struct dead_letter_walk){ .up = true, .from = e.filter.since, .to = e.filter.until,
	    .fields = fields, .nfields = n, .shown = e.whole ? DEAD_LETTER_WHOLE : 0 }, export_one, &e);
	buffer_free(&e.line);
	if (e.lost > 0)
		admin_note("%" PRId64 " messages were too large for their record, and are no longer in %s", e.lost,
		    a->keys.escape);
	if (rc == 0)
		filter_suggest(&e.filter);
	filter_free(&e.filter);
	interrupt_end();
	return rc == -1 ? -1 : 0;
}
