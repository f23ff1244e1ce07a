/*
 * quredis run: runs the queue's handler on a copy of one message, as a worker would (trial.c), and shows the outcome.
 * Nothing in Redis changes, whatever the outcome is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/string.h>
#include <jansson.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/trial/trial.h"

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/queue/queue.h"

/* ---- the message ---- */

struct source {
	struct buffer message;		/* with its wrapper and header */
	const char *list;		/* it is a copy from this list; NULL: from the command line or standard input */
	char record_id[RECORD_ID_SIZE];	/* of a dead letter; "": not asked for by its id */
};

static int read_input(struct admin *a, struct buffer *message)
{
	char chunk[64 * 1024];
	ssize_t n;

	if (isatty(STDIN_FILENO) == 1)
		admin_note("the message is read from the terminal; Ctrl-D ends it");
	while ((n = read(STDIN_FILENO, chunk, sizeof(chunk))) != 0) {
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1)
			return admin_fail(a, EX_IOERR, "standard input: %s", strerror(errno));
		buffer_append(message, chunk, (size_t)n);
	}
	return 0;
}

static int copy_newest(struct admin *a, const char *key, struct buffer *message)
{
	struct redis_reply reply;

	redis_appendf(&a->redis, "LINDEX %s 0", key);
	if (admin_reply(a, &reply, key) == -1)
		return -1;
	if (reply.type != REDIS_STRING)
		return admin_fail(a, EX_NOINPUT, "there is no message in %s", key);
	buffer_append(message, reply.str, reply.len);
	return 0;
}

static int copy_delayed(struct admin *a, struct buffer *message)
{
	struct redis_reply reply;
	struct queue_looked first;

	queue_look(&a->redis, &(struct queue_look){ .key = a->keys.delayed, .apart = a->keys.delayed_apart, .most = 1,
	    .bytes = 1, .shown = INT64_MAX });
	if (admin_reply(a, &reply, a->keys.delayed) == -1)
		return -1;
	if (queue_look_count(&reply) != 1)
		return admin_fail(a, EX_NOINPUT, "there is no message in %s", a->keys.delayed);
	queue_looked(&reply, 0, &first);
	buffer_append(message, first.head.str, first.head.len);
	return 0;
}

/* The record has the message; of a large one only the list has all of it. */
static int copy_dead_letter(struct admin *a, const char *id, struct source *from)
{
	struct queue_bytes message = {0};
	struct dead_letter d;
	int rc = dead_letter_find(a, id, DEAD_LETTER_WHOLE, &d);

	if (rc == 0)
		rc = dead_letter_message(a, &d, &message);
	if (rc == 0 && message.data == NULL)
		rc = admin_fail(a, EX_NOINPUT,
		    "the message of record %s is too large for the record, and is not in %s any more", d.record_id,
		    a->keys.escape);
	if (rc == 0) {
		strlcpy(from->record_id, d.record_id, sizeof(from->record_id));
		buffer_append(&from->message, message.data, message.len);
	}
	free((void *)(uintptr_t)message.data);
	dead_letter_free(&d);
	return rc;
}

static int copy_from(struct admin *a, struct source *from)
{
	enum admin_list list;

	if (admin_list_parse(a, a->options.from,
	    LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_ESCAPE) | LIST_BIT(LIST_DELAYED), &list) == -1)
		return -1;
	if (a->options.id != NULL && list != LIST_ESCAPE)
		return admin_fail(a, EX_USAGE,
		    "--id names a dead letter, by its record or its message: it requires --from escape");
	if (connection_open(a) == -1)
		return -1;
	queue_keys_from_conf(&a->keys, a->conf, a->queue);
	from->list = admin_list_name(list);
	if (a->options.id != NULL)
		return copy_dead_letter(a, a->options.id, from);
	if (list == LIST_DELAYED)
		return copy_delayed(a, &from->message);
	return copy_newest(a, list == LIST_INGRESS ? a->keys.ingress : a->keys.escape, &from->message);
}

static int get_message(struct admin *a, struct source *from)
{
	if (a->options.from != NULL && a->noperands > 1)
		return admin_fail(a, EX_USAGE, "MESSAGE and --from cannot be combined");
	if (a->options.id != NULL && a->options.from == NULL)
		return admin_fail(a, EX_USAGE, "--id names a dead letter: it requires --from escape");
	buffer_append(&from->message, "", 0);
	if (a->options.from != NULL)
		return copy_from(a, from);
	if (a->noperands == 1)
		return read_input(a, &from->message);
	buffer_append(&from->message, a->operands[1], strlen(a->operands[1]));
	return 0;
}

/* ---- the run ---- */

/* The limits of the queue cap those of the header, as in a worker. */
static struct handler_job job_of(const struct conf_queue *q, struct message *m, const char *incarnation)
{
	struct handler_job job = { .message = m, .incarnation = incarnation, .attempt = m->wrapper.attempts + 1,
		.max_attempts = q->max_attempts, .redelivered = m->wrapper.redelivered > 0,
		.timeout_ms = conf_timeout_ms(q) };

	if (m->max_attempts > 0 && m->max_attempts < job.max_attempts)
		job.max_attempts = m->max_attempts;
	if (m->timeout_ms >= 0 && (job.timeout_ms < 0 || m->timeout_ms < job.timeout_ms))
		job.timeout_ms = m->timeout_ms;
	return job;
}

/* ---- the outcome ---- */

static struct queue_bytes emitted_bytes(const struct handler_emissions *e, size_t i)
{
	return (struct queue_bytes){ e->bytes.data == NULL ? "" : e->bytes.data + e->list[i].at, e->list[i].len };
}

/* As output_json.c writes bytes. NULL: a worker would push nothing. */
static json_t *emitted_json(const struct conf_queue *q, const struct handler_emissions *e)
{
	json_t *all = e == NULL ? NULL : json_array();

	for (size_t i = 0; e != NULL && i < e->n; i++) {
		struct queue_bytes m = emitted_bytes(e, i);
		json_t *text = json_stringn(m.data, m.len), *row = json_pack("{s:s, s:I, s:I}", "queue",
		    q->emit.queues[e->list[i].target], "delay_ms", (json_int_t)e->list[i].delay_ms, "size",
		    (json_int_t)m.len);
		char *base64 = text == NULL ? encode_base64(m.data, m.len) : NULL;

		json_object_set_new(row, text == NULL ? "message_base64" : "message",
		    text == NULL ? json_string(base64) : text);
		json_array_append_new(all, row);
		free(base64);
	}
	return all;
}

static void print_emitted(struct admin *a, const struct conf_queue *q, const struct handler_emissions *e)
{
	static const struct column columns[] = {
		{ NULL, "Emitted to", COLUMN_NAME }, { NULL, "Delay", COLUMN_NUMBER }, { NULL, "Size", COLUMN_NUMBER },
		{ NULL, "Message", COLUMN_LINE },
	};

	putchar('\n');
	output_begin(&a->output, columns, nitems(columns));
	for (size_t i = 0; i < e->n; i++) {
		struct queue_bytes m = emitted_bytes(e, i);
		int64_t delay_ms = e->list[i].delay_ms;

		output_row(&a->output, (struct cell[]){ cell_str(q->emit.queues[e->list[i].target]),
		    delay_ms > 0 ? cell_elapsed(delay_ms) : cell_none(), cell_int((int64_t)m.len),
		    cell_bytes(m.data, m.len) });
	}
	output_end(&a->output, true);
}

static void print_outcome(struct admin *a, struct message *m, const struct handler_job *job, const struct trial *t)
{
	static const struct column columns[] = {
		{ "queue", "queue", COLUMN_NAME }, { "id", "id", COLUMN_NAME }, { "attempt", "attempt", COLUMN_NAME },
		{ "outcome", "outcome", COLUMN_NAME }, { "delay_ms", "delay", COLUMN_NAME },
		{ "reason", "reason", COLUMN_NAME }, { "class", "class", COLUMN_NAME },
		{ "exit_code", "exit_code", COLUMN_NAME },
		{ "signal", "signal", COLUMN_NAME }, { "duration_ms", "duration", COLUMN_NAME },
		{ "stderr", NULL, COLUMN_NAME }, { "emitted", NULL, COLUMN_NAME },
	};
	json_t *emitted = emitted_json(a->queue, t->emitted);

	output_object(&a->output, columns, nitems(columns),
	    (struct cell[]){ cell_str(a->queue->name), cell_str(message_id(m)), cell_int(job->attempt),
	    cell_str(t->outcome), t->has_delay ? cell_elapsed(t->delay_ms) : cell_none(),
		cell_bytes(t->reason, strlen(t->reason)), cell_str(t->class),
		    t->code >= 0 ? cell_int(t->code) : cell_none(),
		cell_str(t->signal != 0 ? process_signal_name(t->signal) : NULL), cell_elapsed(t->duration_ms),
		cell_bytes(t->stderr_tail.data, t->stderr_tail.len),
		emitted == NULL ? cell_none() : (struct cell){ .type = CELL_JSON, .json = emitted } });
	json_decref(emitted);
	if (t->emitted != NULL && !a->options.json)
		print_emitted(a, a->queue, t->emitted);
}

/* Names the message from a list, and says what becomes of it there: the run is no test for the handler, which sends the
 * real mail. */
static void note_what_runs(struct admin *a, const struct source *from, struct message *m)
{
	bool is_dead_letter = strcmp(from->list, admin_list_name(LIST_ESCAPE)) == 0;
	char *id = visible(message_id(m), strlen(message_id(m)), 200);
	const char *id_to_delete = from->record_id[0] != '\0' ? from->record_id : id;
	char *then = is_dead_letter ? alloc_format("if the handler succeeds, delete it: quredis dlq rm %s %s",
	    a->queue->name, id_to_delete) : alloc_string("a worker runs it again when its turn comes");

	admin_note("%s %s for real, with all its effects, on a copy of message %s%s%s (%zu bytes). The message stays "
	    "in %s: %s",
	    a->options.dry_run ? "would run" : "runs", conf_handler_name(a->queue), id,
	    from->record_id[0] != '\0' ? ", record " : "", from->record_id, message_payload_len(m), from->list, then);
	free(then);
	free(id);
}

static int run_message(struct admin *a, const struct source *from)
{
	char incarnation[INCARNATION_SIZE];
	const struct message_keys lines = message_keys_of(a->queue->ingress, a->queue->headers);
	struct trial t = { .code = -1 };
	struct message m;
	int rc;

	trial_incarnation(incarnation);
	message_parse(&m, &lines, from->message.data == NULL ? "" : from->message.data, from->message.len);
	if (m.doubtful)
		return admin_fail(a, EX_DATAERR, "the message was not run: " MESSAGE_UNKNOWN_SEAL_WHY);
	if (from->list != NULL)
		note_what_runs(a, from, &m);
	else if (a->options.dry_run)
		admin_note("would run %s on a message of %zu bytes", conf_handler_name(a->queue), from->message.len);
	if (a->options.dry_run)
		return 0;
	const struct handler_job job = job_of(a->queue, &m, incarnation);
	if (log_open("stderr", LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO) == -1)
		return admin_fail(a, EX_OSERR, "standard error: %s", strerror(errno));
	log_process(TRIAL_WORKER);
	log_bind(a->queue->name, TRIAL_WORKER);
	rc = trial_run(a, &job, &t);
	if (rc == 0)
		print_outcome(a, &m, &job, &t);
	trial_free(&t);
	return rc == 0 && a->status != 0 ? -1 : rc;
}

int cmd_run(struct admin *a)
{
	struct source from = {0};
	int rc = -1;

	/* The user and the executable of this handler are checked. */
	if (admin_load_to_run(a, a->operands[0]) == -1)
		return -1;
	a->queue = conf_queue_find(a->conf, a->operands[0]);
	if (a->queue == NULL) {
		char *shown = visible(a->operands[0], strlen(a->operands[0]), 200);

		admin_fail(a, EX_NOINPUT, "no queue %s in the configuration: no handler is known", shown);
		free(shown);
		return -1;
	}
	if (get_message(a, &from) == 0)
		rc = run_message(a, &from);
	buffer_free(&from.message);
	return rc;
}
