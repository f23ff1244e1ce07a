/*
 * quredis run: runs the queue's handler on a copy of one message, as a worker would (trial.c), and shows the outcome. Nothing
 * in Redis changes, whatever the outcome is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/stdlib.h>

#include "admin/cli/cli.h"
#include "admin/trial/trial.h"

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/queue/queue.h"

/* ---- the message ---- */

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

	queue_look(&a->redis, &(struct queue_look){ .key = a->keys.delayed, .apart = a->keys.delayed_apart, .most = 1, .bytes = 1, .shown = INT64_MAX });
	if (admin_reply(a, &reply, a->keys.delayed) == -1)
		return -1;
	if (queue_look_count(&reply) != 1)
		return admin_fail(a, EX_NOINPUT, "there is no message in %s", a->keys.delayed);
	queue_looked(&reply, 0, &first);
	buffer_append(message, first.head.str, first.head.len);
	return 0;
}

static int copy_from(struct admin *a, const char *type, struct buffer *message)
{
	enum admin_list list;

	if (admin_list_parse(a, type, LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_ESCAPE) | LIST_BIT(LIST_DELAYED), &list) == -1 ||
	    admin_connect(a) == -1)
		return -1;
	queue_keys_from_conf(&a->keys, a->conf, a->queue);
	if (list == LIST_DELAYED)
		return copy_delayed(a, message);
	return copy_newest(a, list == LIST_INGRESS ? a->keys.ingress : a->keys.escape, message);
}

static int get_message(struct admin *a, struct buffer *message)
{
	if (a->options.from != NULL && a->noperands > 1)
		return admin_fail(a, EX_USAGE, "a MESSAGE and --from exclude each other");
	buffer_append(message, "", 0);
	if (a->options.from != NULL)
		return copy_from(a, a->options.from, message);
	if (a->noperands == 1)
		return read_input(a, message);
	buffer_append(message, a->operands[1], strlen(a->operands[1]));
	return 0;
}

/* ---- the run ---- */

/* The limits of the queue cap those of the header, as in a worker. */
static struct handler_job job_of(const struct conf_queue *q, struct message *m, const char *incarnation)
{
	struct handler_job job = { .message = m, .incarnation = incarnation, .attempt = m->wrapper.attempts + 1,
		.max_attempts = q->max_attempts, .redelivered = m->wrapper.redelivered > 0, .timeout_ms = conf_timeout_ms(q) };

	if (m->max_attempts > 0 && m->max_attempts < job.max_attempts)
		job.max_attempts = m->max_attempts;
	if (m->timeout_ms >= 0 && (job.timeout_ms < 0 || m->timeout_ms < job.timeout_ms))
		job.timeout_ms = m->timeout_ms;
	return job;
}

/* ---- the outcome ---- */

static void print_outcome(struct admin *a, struct message *m, const struct handler_job *job, const struct trial *t)
{
	static const struct column columns[] = {
		{ "queue", "queue", false }, { "id", "id", false }, { "attempt", "attempt", false }, { "outcome", "outcome", false },
		{ "reason", "reason", false }, { "class", "class", false }, { "exit_code", "exit_code", false }, { "signal", "signal", false },
		{ "duration_ms", "duration", false }, { "stderr", NULL, false },
	};

	output_object(&a->output, columns, nitems(columns),
	    (struct cell[]){ cell_str(a->queue->name), cell_str(message_id(m)), cell_int(job->attempt), cell_str(t->outcome),
		cell_bytes(t->reason, strlen(t->reason)), cell_str(t->class), t->code >= 0 ? cell_int(t->code) : cell_none(),
		cell_str(t->signal != 0 ? process_signal_name(t->signal) : NULL), cell_elapsed(t->duration_ms),
		cell_bytes(t->stderr_tail.data, t->stderr_tail.len) });
}

static int run_message(struct admin *a, const struct buffer *raw)
{
	char incarnation[INCARNATION_SIZE];
	struct incarnation self = { .node = TRIAL_WORKER };	/* not the name of a supervisor's node: no sweeper takes the run for one of its workers */
	const struct message_keys lines = message_keys_of(a->queue->ingress, a->queue->headers);
	struct trial t = { .code = -1 };
	struct message m;
	int rc;

	arc4random_buf(&self.boot, sizeof(self.boot));
	incarnation_format(&self, incarnation);
	message_parse(&m, &lines, raw->data == NULL ? "" : raw->data, raw->len);
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
	struct buffer raw = {0};
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
	if (get_message(a, &raw) == 0) {
		if (a->options.dry_run) {
			admin_note("would run %s on a message of %zu bytes", a->queue->handler[0], raw.len);
			rc = 0;
		} else {
			rc = run_message(a, &raw);
		}
	}
	buffer_free(&raw);
	return rc;
}
