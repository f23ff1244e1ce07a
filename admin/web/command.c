/*
 * Commands of quredis over HTTP. A child runs the function of the command with --json, so the documents are the same as
 * on the command line. Its exit status becomes the status of HTTP, and its standard error the error.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/cli/cli.h"
#include "admin/web/call.h"

#include "common/base/base.h"

#define PREFIX "quredis: "
#define SLICE_MS 2500		/* of a retry at a pace: the client repeats it, shows how far it is, and may stop */

/* ---- in the child ---- */

int web_command_run(const struct admin *server, struct options *options, const char *command, char *const *operands,
    size_t noperands, FILE *file)
{
	struct admin a = { .options = *options, .commands = server->commands, .served = true };
	char *words = alloc_string(command), *rest = words;
	const struct command *c;
	int rc;

	a.options.conf_path = server->options.conf_path;
	a.options.host = server->options.host;
	a.options.port = server->options.port;
	a.options.url = server->options.url;
	a.options.json = a.options.yes = true;
	/* Operands are never parsed as options. */
	a.options.operands = a.operands = alloc_zero(noperands + 3, sizeof(*a.operands));
	while (rest != NULL)
		a.operands[a.noperands++] = strsep(&rest, " ");
	for (size_t i = 0; i < noperands; i++)
		a.operands[a.noperands++] = operands[i];
	output_init(&a.output, file, true, COLOUR_NEVER);
	c = command_find(&a);
	rc = c == NULL ? -1 : command_run(&a, c);
	if (rc == -1 && a.status == 0)
		a.status = EX_SOFTWARE;
	admin_close(&a);
	free(words);
	return a.answer_lost && a.status == EX_UNAVAILABLE ? WEB_ANSWER_LOST : a.status;
}

static struct options options_of(const struct web_call *call)
{
	const struct web_query *q = &call->query;
	struct options o = q->options;

	o.all = q->all;
	o.force = q->force;
	o.before = q->before;
	if (q->since != NULL)
		o.since = q->since;
	o.given |= (q->all ? OPTION_ALL : 0) | (q->before != NULL ? OPTION_BEFORE : 0) |
	    (q->since != NULL ? OPTION_SINCE : 0);
	if ((call->route->takes & WEB_LIMIT) != 0) {
		o.count = q->limit;
		o.given |= OPTION_COUNT;
	}
	o.dry_run = q->dry_run || !call->route->post;	/* GET changes nothing */
	return o;
}

static int work(void *arg)
{
	const struct web_call *call = arg;
	const struct web_query *q = &call->query;
	struct options options = options_of(call);
	char **operands = alloc_zero(q->nids + 2, sizeof(*operands));
	size_t n = 0;

	if (q->queue != NULL)
		operands[n++] = q->queue;
	if (q->schedule != NULL)
		operands[n++] = q->schedule;
	if (q->list != NULL)
		operands[n++] = q->list;
	for (size_t i = 0; i < q->nids; i++)
		operands[n++] = q->ids[i];
	return web_command_run(call->w->a, &options, call->route->command, operands, n, stdout);
}

/* ---- in the server ---- */

static int code_of(int status)
{
	static const struct { int status, code; } codes[] = {
		{ EX_OK, 200 }, { EX_USAGE, 400 }, { EX_DATAERR, 409 }, { EX_NOINPUT, 404 }, { EX_UNAVAILABLE, 503 },
		{ EX_TEMPFAIL, 503 },
		{ EX_PROTOCOL, 502 }, { EX_NOPERM, 403 }, { WEB_ANSWER_LOST, 504 },
	};

	for (size_t i = 0; i < nitems(codes); i++)
		if (codes[i].status == status)
			return codes[i].code;
	return 500;
}

/* True: the document is complete. Without its last rows it has no closing bracket. */
static bool is_document(const struct buffer *b)
{
	return b->len >= 3 && ((b->data[0] == '[' && b->data[b->len - 2] == ']') ||
	    (b->data[0] == '{' && b->data[b->len - 2] == '}')) && b->data[b->len - 1] == '\n';
}

/* The standard error of the child without "quredis: " before each line. A new string. */
static char *said_by(const struct web_job *job)
{
	struct buffer text = {0};
	char *all = alloc_copy(job->said.data == NULL ? "" : job->said.data, job->said.len), *rest = all, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		if (strncmp(line, PREFIX, strlen(PREFIX)) == 0)
			line += strlen(PREFIX);
		if (*line != '\0')
			buffer_format(&text, "%s%s", text.len > 0 ? "\n" : "", line);
	}
	free(all);
	buffer_append(&text, "", 1);
	return text.data;
}

/* Advice for an answer that is too large; call may be NULL. */
static const char *way_out(const struct web_call *call)
{
	unsigned takes = call == NULL ? 0 : call->route->takes;

	return (takes & WEB_LIMIT) != 0 ? ": request fewer with limit=" : (takes & WEB_QUEUE) != 0
	    ? ": request one queue with queue=" : "";
}

/* Explains why there is no document: returns the status of HTTP, and sets *why to a new string. call may be NULL. */
static int failure_of(const struct web_job *job, const struct web_call *call, char **why)
{
	int status = web_job_status(job);

	*why = NULL;
	if (job->late)
		*why = alloc_format("no answer within %d s: Redis may be slow or stopped", job->time_ms / 1000);
	else if (job->too_large)
		*why = alloc_format("the answer is larger than %zu MiB%s", job->answer_max / 1024 / 1024,
		    way_out(call));
	else if (!job->unstarted && status == -1)
		*why = alloc_format("signal %d killed the process that made the answer", WTERMSIG(job->status));
	if (*why != NULL)
		return job->late ? 504 : job->too_large ? 400 : 502;
	*why = said_by(job);
	if (**why == '\0') {
		free(*why);
		*why = alloc_format("no answer (exit status %d)", status);
	}
	return job->unstarted ? 503 : status == EX_OK ? 500 : code_of(status);
}

void web_command_failure(const struct web_job *job, struct buffer *document)
{
	char *why, *text;
	json_t *error;

	failure_of(job, NULL, &why);
	error = json_pack("{s:o}", "error", web_answer_words(why));
	text = json_dumps(error, JSON_COMPACT);
	buffer_format(document, "%s", text);
	free(text);
	free(why);
	json_decref(error);
}

static void answer_failure(const struct web_job *job, struct web_call *call)
{
	char *why;
	int code = failure_of(job, call, &why);

	if (code == 503)
		web_answer_header(call, "Retry-After", "1");
	web_answer_error(call, code, "%s", why);
	free(why);
}

/* Answers for an action that did only a part of its work: with its document, and the error in it. */
static void answer_half(const struct web_job *job, struct web_call *call)
{
	int status = web_job_status(job);
	json_t *document = json_loadb(job->answer.data, job->answer.len, 0, NULL);
	char *why, *text;

	if (!json_is_object(document)) {
		json_decref(document);
		answer_failure(job, call);
		return;
	}
	why = said_by(job);
	if (why[0] == '\0' && status != -1) {
		free(why);
		why = alloc_format("exit status %d", status);
	}
	if (why[0] != '\0')
		json_object_set_new(document, "error", web_answer_words(why));
	text = json_dumps(document, JSON_COMPACT);
	web_answer(call, status == -1 ? 200 : code_of(status), "application/json", text, strlen(text));
	free(text);
	free(why);
	json_decref(document);
}

/* Passes on the notices of the command, such as where a search ended. Each is one line, without control characters. */
static void header_with_notes(const struct web_job *job, struct web_call *call)
{
	char *notes = said_by(job);

	for (char *c = notes; *c != '\0'; c++)
		*c = *c == '\n' ? ';' : *c < ' ' || *c > '~' ? '?' : *c;
	if (*notes != '\0')
		web_answer_header(call, "Quredis-Note", notes);
	free(notes);
}

/* The exit status of health and doctor is a verdict, not a failure; the document contains it. */
static void answer_command(const struct web_job *job, void *arg)
{
	struct web_call *call = arg;

	if (job->unstarted || job->too_large || !is_document(&job->answer))
		answer_failure(job, call);
	else if (call->route->post && web_job_status(job) != EX_OK)
		answer_half(job, call);
	else {
		header_with_notes(job, call);
		web_answer(call, 200, "application/json", job->answer.data, job->answer.len);
	}
}

void web_command(struct web_call *call)
{
	const struct web_query *q = &call->query;

	if ((call->route->takes & WEB_ALL) != 0 && q->all == (q->nids > 0)) {
		web_answer_error(call, 400, "expected id, once or more, or all=true");
		return;
	}
	if ((call->route->takes & WEB_ALL) != 0 && (q->options.given & ~OPTION_ANEW) != 0 && q->nids > 0) {
		web_answer_error(call, 400, "%s requires all=true",
		    option_of_bit(q->options.given & -q->options.given)->name);
		return;
	}
	if (web_job_start(&call->w->jobs, &(struct web_question){ .work = work, .done = answer_command,
	    .drop = web_call_drop, .arg = call,
	    .time_ms = (q->options.given & OPTION_PACE) != 0 ? SLICE_MS : 0, .stranger = !call->is_known }) == 0)
		return;
	web_answer_header(call, "Retry-After", "1");
	web_answer_error(call, 503, "too many requests are waiting");
}

/* Without a list, the answer is that of quredis stale: only a supervisor applies the rules of purge{}. */
void web_purge(struct web_call *call)
{
	if (call->query.list == NULL && call->query.dry_run)
		web_call_reroute(call, web_route_find("/api/v1/queue/stale", false));
	else if (call->query.list == NULL) {
		web_answer_error(call, 400,
		    "the parameter list is required; only with dry_run=true it may be missing, to see what the rules "
		    "of purge{} would take");
		return;
	} else if (call->query.queue == NULL) {
		web_answer_error(call, 400, "the parameter queue is required");
		return;
	}
	web_command(call);
}
