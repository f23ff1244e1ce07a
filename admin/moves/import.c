/*
 * quredis dlq import: pushes the messages of a file of dead letters into ingress. dead_letter.archive and dlq export
 * write such files. One script pushes a batch and notes the position behind it, so that a repeated command continues,
 * and pushes no message twice. Redis finds the position by the first line of the file: the archive renames a full file,
 * and lines may be added to one. The position counts only if all bytes before it are the same as then. A file with
 * another first line may still be one whose beginning was changed: then it has the record that was imported last.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>
#include <jansson.h>

#include "admin/moves/moves.h"

#include "common/base/base.h"

#define BATCH_BYTES (256 * 1024)
#define POSITION_SIZE 128
#define FIELD_SUFFIX ":imported"
#define SLOWEST_BYTES_PER_MS 1024		/* a slower connection times out */

struct import {
	struct admin *a;
	char *shown;				/* the name of the file, for messages */
	FILE *file;
	char *line;				/* the present one, with its newline if it has one; getline()'s */
	size_t room, len;			/* len 0: none */
	/* the present line is the first one: it was read, and is not added yet */
	bool holds_first;
	int64_t start;				/* where the file begins, for ftello(); -1: it cannot be read twice */
	bool names_record;			/* the line that was added last does */
	struct sha1_ctx hash;			/* of all bytes before the present line */
	/* of the present line from 1 on, and the byte of the file where its text ends */
	int64_t number, end;
	char field[48];				/* under which Redis remembers the position */
	/*
	 * The position in Redis: "END SHA1 RECORD". END: of the last line; SHA1: of all bytes before END; RECORD: the
	 * SHA1 of the last line, if it names a record, which is in one dead letter only; else "-". "": the import has
	 * not begun.
	 */
	char position[POSITION_SIZE];
	/* the same of the last line that is pushed, passed over, or in the batch */
	char behind[POSITION_SIZE];
	struct buffer bytes;			/* of the batch */
	size_t ends[QUEUE_BATCH], n;
	size_t message_at;			/* of the last message, behind its wrapper */
	int64_t pushed, without_message;	/* without_message: lines of records that have lost their message */
	struct progress progress;
};

/* ---- lines of the file ---- */

static int fail_line(struct import *t, int status, const char *why)
{
	return admin_fail(t->a, status, "%s:%" PRId64 ": %s", t->shown, t->number, why);
}

static bool line_is_cut(const struct import *t)
{
	return t->line[t->len - 1] != '\n';
}

/* Without its newline: the last line may get it later. */
static size_t text_length(const struct import *t)
{
	return t->len - !line_is_cut(t);
}

/* Returns 1; 0: the end of the file, or an interrupt; -1: error. */
static int read_line(struct import *t)
{
	int64_t start = t->end + (t->len > 0);
	ssize_t n;

	if (interrupt_asked())
		return 0;
	t->number++;
	errno = 0;
	n = getline(&t->line, &t->room, t->file);
	t->len = n > 0 ? (size_t)n : 0;
	if (n > 0)
		t->end = start + (int64_t)text_length(t);
	return n > 0 ? 1 : ferror(t->file) && !interrupt_asked() ? fail_line(t, EX_IOERR, strerror(errno)) : 0;
}

/* Adds the present line to the hash, and writes "END SHA1" to out. Call it once for each line, in order. */
static void pass_line(struct import *t, char out[POSITION_SIZE])
{
	char before[ENCODE_SHA1_SIZE];
	struct sha1_ctx hash;

	sha1_update(&t->hash, text_length(t), (const uint8_t *)t->line);
	hash = t->hash;
	encode_sha1_end(&hash, before);
	snprintf(out, POSITION_SIZE, "%" PRId64 " %s", t->end, before);
	sha1_update(&t->hash, 1, (const uint8_t *)"\n");
}

/* The message of the present line is pushed with the batch, or passed over. */
static void move_position(struct import *t)
{
	char sha1[ENCODE_SHA1_SIZE] = "-";

	if (t->names_record)
		encode_sha1(t->line, text_length(t), sha1);
	pass_line(t, t->behind);
	strlcat(t->behind, " ", sizeof(t->behind));
	strlcat(t->behind, sha1, sizeof(t->behind));
}

/* ---- a line ---- */

/* Before the message, so that it keeps its depth: a circle of handlers must end although its messages are imported. */
static void append_lineage(struct import *t, const json_t *object)
{
	const char *root = json_string_value(json_object_get(object, "root")),
	    *traceparent = json_string_value(json_object_get(object, "traceparent"));
	struct wrapper w = {0};
	char depth[24];

	snprintf(depth, sizeof(depth), "%" PRId64, (int64_t)json_integer_value(json_object_get(object, "depth")));
	if (root != NULL && !t->a->keys.shared && !t->a->options.dry_run)
		message_lineage_read(&w.lineage, root, depth, traceparent == NULL ? "" : traceparent);
	if (w.lineage.depth > 0)
		message_wrapper(&t->bytes, &t->a->keys.lines, &w);
	t->message_at = t->bytes.len;
}

/*
 * Appends the message of the present line, and notes whether it names its record. Returns NULL, or why the line has
 * none. *none: its record has lost its message.
 */
static const char *append_message(struct import *t, bool *none)
{
	const char *why = NULL;
	size_t size;
	void *bytes;
	json_t *object, *text, *encoded;

	object = json_loadb(t->line, t->len, JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
	text = json_object_get(object, "message");
	encoded = json_object_get(object, "message_base64");
	*none = json_is_null(text) && encoded == NULL;
	t->names_record = json_is_string(json_object_get(object, "record"));
	append_lineage(t, object);
	if (object == NULL)
		why = line_is_cut(t) ? "the line is incomplete" : "not a line of JSON";
	else if (json_is_string(text) == json_is_string(encoded) && !*none)
		why = "no dead letter: expected an object with \"message\" or \"message_base64\"";
	else if (json_is_string(text))
		buffer_append(&t->bytes, json_string_value(text), json_string_length(text));
	else if (!*none) {
		bytes = encode_base64_undo(json_string_value(encoded), json_string_length(encoded), &size);
		if (bytes == NULL)
			why = "\"message_base64\" is not base64";
		else
			buffer_append(&t->bytes, bytes, size);
		free(bytes);
	}
	json_decref(object);
	return why;
}

/*
 * Adds the message of the present line to the batch. Returns 1, also if the line is passed over; 0: the import ends
 * before it, since it is not written to its end yet; -1: the line is broken.
 */
static int add_line(struct import *t)
{
	size_t before = t->bytes.len;
	const struct conf_queue *q = t->a->queue;
	bool none = false;
	const char *why = append_message(t, &none);

	if (why == NULL && q != NULL && t->bytes.len - t->message_at > (size_t)q->message_max)
		why = "the message is larger than message_max of the queue: its workers would move it to escape unread";
	if (why == NULL && !none) {
		t->ends[t->n++] = t->bytes.len;
		return 1;
	}
	t->bytes.len = before;
	t->without_message += why == NULL;
	if (why != NULL && !t->a->options.skip)
		return admin_fail(t->a, EX_DATAERR, "%s:%" PRId64 ": %s%s", t->shown, t->number, why,
		    line_is_cut(t) ? "" : ": --skip leaves out such lines");
	if (why != NULL)
		admin_note("%s:%" PRId64 ": %s%s", t->shown, t->number, why, line_is_cut(t) ? "" : ": skipped");
	return why == NULL || !line_is_cut(t);
}

/* ---- batches ---- */

/* Pushes the batch, which may be empty, and notes the position behind the last good line. */
static int push_batch(struct import *t)
{
	struct queue_bytes messages[QUEUE_BATCH];
	size_t start = 0;
	int64_t is_pushed;

	for (size_t i = 0; i < t->n; start = t->ends[i++])
		messages[i] = (struct queue_bytes){ t->bytes.data + start, t->ends[i] - start };
	if (!t->a->options.dry_run) {
		queue_import(&t->a->redis, &t->a->keys, t->field, t->position, t->behind, messages, t->n);
		t->a->extra_ms = (int64_t)(t->bytes.len / SLOWEST_BYTES_PER_MS);
		if (admin_integer(t->a, &is_pushed, t->a->keys.ingress) == -1)
			return -1;
		if (is_pushed == 0)
			return admin_fail(t->a, EX_TEMPFAIL,
			    "another command imports this file, or Redis went back to an earlier state: run the "
			    "command again to continue");
	}
	strlcpy(t->position, t->behind, sizeof(t->position));
	t->pushed += (int64_t)t->n;
	t->n = 0;
	buffer_clear(&t->bytes);
	progress_show(&t->progress, t->pushed);
	return 0;
}

/* Before the first message that is pushed: a command that pushes none writes no secret. */
static int may_seal(struct import *t)
{
	return t->a->options.dry_run || t->a->keys.shared ? 0 : admin_seals(t->a);
}

/* Where a line ends the work, the lines before it are pushed. */
static int import_lines(struct import *t)
{
	bool full;
	int rc;

	while ((rc = t->holds_first ? 1 : read_line(t)) == 1) {
		t->holds_first = false;
		rc = may_seal(t) == -1 ? -1 : add_line(t);
		if (rc != 1)
			break;
		move_position(t);
		full = t->n == QUEUE_BATCH || t->bytes.len >= BATCH_BYTES;
		if (full && push_batch(t) == -1)
			return -1;
	}
	if (strcmp(t->behind, t->position) != 0 && push_batch(t) == -1)
		return -1;
	return rc;
}

/* ---- start and end ---- */

/* sha1: of a line. True: an earlier import, of a file with another first line, ended with this line. */
static bool is_last_of_an_import(const struct redis_reply *all, const char sha1[ENCODE_SHA1_SIZE])
{
	for (size_t i = 0; i + 1 < all->n; i += 2) {
		struct redis_reply field = redis_element(all, i), value = redis_element(all, i + 1);
		size_t n = strlen(FIELD_SUFFIX);

		if (field.len > n && strcmp(field.str + field.len - n, FIELD_SUFFIX) == 0 &&
		    value.len > ENCODE_SHA1_SIZE && strcmp(value.str + value.len - (ENCODE_SHA1_SIZE - 1), sha1) == 0)
			return true;
	}
	return false;
}

/* The file is not known. Fails if it has the last record of another import: it may be the same file, changed. */
static int check_overlap(struct import *t)
{
	char sha1[ENCODE_SHA1_SIZE];
	struct redis_reply all;
	int rc = 1;

	redis_appendf(&t->a->redis, "HGETALL %s", t->a->keys.operations);
	if (admin_reply(t->a, &all, t->a->keys.operations) == -1)
		return -1;
	if (!redis_is_strings(&all) || all.n == 0 || t->start == -1)
		return 0;
	for (; rc == 1; rc = read_line(t)) {
		encode_sha1(t->line, text_length(t), sha1);
		if (is_last_of_an_import(&all, sha1))
			return fail_line(t, EX_DATAERR,
			    "an earlier import ended with this line, so the messages before it may already have been "
			    "pushed; --anew pushes all of them again");
	}
	if (rc == -1 || fseeko(t->file, t->start, SEEK_SET) == -1)
		return rc == -1 ? -1 : fail_line(t, EX_IOERR, strerror(errno));
	t->number = t->end = 0;
	t->len = 0;
	rc = read_line(t);
	t->holds_first = rc == 1;
	return rc == -1 ? -1 : 0;
}

/* Reads up to the position that Redis holds. The bytes before it must be the same as then. */
static int skip_imported(struct import *t)
{
	int64_t until = strtoll(t->position, NULL, 10);
	char now[POSITION_SIZE] = "";
	int rc = 1;

	if (t->position[0] == '\0')
		return t->a->options.anew ? 0 : check_overlap(t);
	for (; rc == 1; rc = read_line(t)) {
		pass_line(t, now);
		if (t->end >= until)
			break;
	}
	t->holds_first = false;		/* also after an interrupt: the first line was imported before */
	if (rc == -1 || interrupt_asked())
		return rc == -1 ? -1 : 0;
	if (rc == 0)
		return admin_fail(t->a, EX_DATAERR,
		    "%s begins with the same line as a file that was imported further than its %" PRId64 " line%s: "
		    "--anew imports it from its first line", t->shown, t->number - 1, t->number == 2 ? "" : "s");
	if (strncmp(now, t->position, strlen(now)) != 0)
		return admin_fail(t->a, EX_DATAERR,
		    "%s has changed up to line %" PRId64 " since its import began: --anew begins with its first line",
		    t->shown, t->number);
	admin_note("continues behind line %" PRId64, t->number);
	return 0;
}

static int read_position(struct import *t)
{
	const struct admin *a = t->a;
	struct redis_reply reply;

	redis_appendf(&t->a->redis, a->options.anew && !a->options.dry_run ? "HDEL %s %s" : "HGET %s %s",
	    a->keys.operations, t->field);
	if (admin_reply(t->a, &reply, a->keys.operations) == -1)
		return -1;
	if (reply.type == REDIS_STRING && !a->options.anew)
		strlcpy(t->position, reply.str, sizeof(t->position));
	strlcpy(t->behind, t->position, sizeof(t->behind));
	return 0;
}

static int begin_import(struct import *t, const char *path)
{
	char sha1[ENCODE_SHA1_SIZE];
	int rc;

	t->file = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (t->file == NULL)
		return admin_fail(t->a, EX_NOINPUT, "%s: %s", t->shown, strerror(errno));
	t->start = ftello(t->file);
	sha1_init(&t->hash);
	rc = read_line(t);
	if (rc != 1)
		return rc;
	t->holds_first = true;
	encode_sha1(t->line, text_length(t), sha1);
	snprintf(t->field, sizeof(t->field), "%.16s" FIELD_SUFFIX, sha1);
	return read_position(t) == -1 || skip_imported(t) == -1 ? -1 : 0;
}

int cmd_dlq_import(struct admin *a)
{
	const char *path = a->operands[1];
	struct import t = { .a = a, .shown =
	    strcmp(path, "-") == 0 ? alloc_string("standard input") : visible(path, strlen(path), 200) };
	int rc;

	interrupt_begin();
	progress_begin(&t.progress, "dlq import", 0, 0);
	rc = begin_import(&t, path);
	if (rc == 0)
		rc = import_lines(&t);
	progress_end(&t.progress);
	if (rc == 0 || t.pushed > 0)
		outcome_say(a, &(struct outcome){ .action = "dlq import", .did = "pushed", .would = "would push",
		    .count = t.pushed, .interrupted = interrupt_asked() });
	if (t.without_message > 0)
		admin_note(t.without_message == 1 ? "%" PRId64 " line is a record without a message" :
		    "%" PRId64 " lines are records without a message", t.without_message);
	interrupt_end();
	if (t.file != NULL && t.file != stdin)
		fclose(t.file);
	free(t.line);
	free(t.shown);
	buffer_free(&t.bytes);
	return rc;
}
