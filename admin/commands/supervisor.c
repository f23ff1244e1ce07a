/* quredis reload, stop, restart, scale, quiet: send orders to the supervisor on this host. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/holds/holds.h"

/*
 * a stop may take longer than drain_timeout and kill_grace by this: hand-backs, the end of the sweeper, and the
 * embedded Redis, which saves its data
 */
#define STOP_MORE_MS 60000
#define RENEWAL_LOOK_MS 100
/* the configuration has errors, so the drain_timeout of the supervisor is not known */
#define STOP_UNKNOWN_MS INT64_C(86400000)

/* Prints the texts of an answer on standard error, also with --json. */
static void say_texts(const json_t *answer, const char *member, const char *prefix)
{
	const json_t *text;
	size_t i;

	json_array_foreach(json_object_get(answer, member), i, text)
		admin_note("%s%s", prefix, json_string_value(text));
}

static void print_text(struct admin *a, const char *action, const char *text)
{
	static const struct column columns[] =
	    { { "action", "", COLUMN_NAME }, { "ok", "", COLUMN_NAME }, { "dry_run", "", COLUMN_NAME } };

	if (a->options.json)
		output_object(&a->output, columns, 3, (struct cell[]){ cell_str(action), cell_bool(true),
		    cell_bool(a->options.dry_run) });
	else
		notice_say("%s%s", a->options.dry_run ? "would be done: " : "", text);
}

/* Warns of messages in a queue that left the configuration. The master never talks to Redis; its sweeper logs the same
 * a moment later. */
static void warn_of_queue(struct admin *a, const json_t *left)
{
	const char *name, *ingress, *transit, *escape;
	struct lists l = {0};
	struct queue_keys k;

	if (json_unpack((json_t *)(uintptr_t)left, "{s:s,s:s,s:s,s:s}", "queue", &name, "ingress", &ingress, "transit",
	    &transit, "escape", &escape) == -1)
		return;
	queue_keys_init(&k, a->conf->redis.prefix, name, ingress, transit, escape);
	if (a->redis.state != REDIS_READY || lists_read(a, &k, 0, &l) == -1)
		admin_note(
		    "warning: queue %s left the configuration, and quredis could not read whether messages wait in it",
		    name);
	else if (l.ingress + l.delayed + l.transit + l.escape > 0)
		admin_note("warning: queue %s left the configuration while messages wait in it: %" PRId64
		    " in ingress, %" PRId64 " delayed, %"
		    PRId64 " in transit, %" PRId64 " in escape", name, l.ingress, l.delayed, l.transit, l.escape);
	lists_free(&l);
	queue_keys_free(&k);
}

static void warn_of_left(struct admin *a, const json_t *answer)
{
	int status = a->status;
	const json_t *left;
	size_t i;

	if (json_array_size(json_object_get(answer, "left")) > 0 && !a->flawed && a->options.socket == NULL)
		connection_open(a);
	json_array_foreach(json_object_get(answer, "left"), i, left)
		warn_of_queue(a, left);
	a->status = status;	/* the reload succeeded, even if Redis could not be read */
}

/* ---- new handlers that have to be ready ---- */

static const json_t *find_queue(const json_t *status, const char *name)
{
	const json_t *queue;
	size_t i;

	json_array_foreach(json_object_get(status, "queues"), i, queue)
		if (strcmp(json_string_value(json_object_get(queue, "name")), name) == 0)
			return queue;
	return NULL;
}

/* An order, and why the supervisor did not do it, or not yet. */
struct sent_order {
	struct admin *a;
	json_t *errors;			/* texts, for --json */
	bool renewed;			/* the command waited until a new handler was ready */
};

static int fail_order(struct sent_order *o, int status, char *text)
{
	admin_fail(o->a, status, "%s", text);
	json_array_append_new(o->errors, json_string(text));
	free(text);
	return -1;
}

static bool is_draining(const json_t *status)
{
	const char *state = json_string_value(json_object_get(status, "state"));

	return state != NULL && strcmp(state, "draining") == 0;
}

/* late: it lasts too long. 1: the new handler is not ready yet; 0: it is, or no worker is wanted; -1: it failed. */
static int judge_load(struct sent_order *o, const json_t *queue, const char *name, bool late)
{
	const json_t *renewal = json_object_get(queue, "renewal");
	const char *failed = json_string_value(json_object_get(renewal, "failed"));

	if (json_is_true(json_object_get(renewal, "ready"))) {
		o->renewed = true;
		return 0;
	}
	if (json_integer_value(json_object_get(json_object_get(queue, "workers"), "wanted")) == 0) {
		admin_note("%s: no worker is wanted, so none has tried the new handler", name);
		return 0;
	}
	if (failed != NULL)
		return fail_order(o, EX_CONFIG, alloc_format("%s: the new handler is not ready: %s", name, failed));
	return !late ? 1 : fail_order(o, EX_TEMPFAIL,
	    alloc_format("%s: no worker has the new handler ready yet; see: quredis status %s", name, name));
}

/* 1: the workers are not all replaced yet; 0: they are; -1: they will not be, or it lasts too long. */
static int judge_renewal(struct sent_order *o, const json_t *status, const char *name, json_int_t generation, bool late)
{
	const json_t *queue = find_queue(status, name), *renewal = json_object_get(queue, "renewal");
	const char *not_ready = json_string_value(json_object_get(renewal, "not_ready"));

	if (is_draining(status))
		return fail_order(o, EX_TEMPFAIL,
		    alloc_format("%s: the supervisor stops before the new handler is ready", name));
	if (json_integer_value(json_object_get(renewal, "generation")) != generation)
		return fail_order(o, EX_TEMPFAIL,
		    alloc_format("%s: another reload or restart came meanwhile", name));
	if (not_ready != NULL)
		return fail_order(o, EX_CONFIG, alloc_format("%s: the " HOLD_NOT_READY_WORDS ": %s", name, not_ready));
	if (json_integer_value(json_object_get(renewal, "outdated")) == 0)
		return judge_load(o, queue, name, late);
	return !late ? 1 : fail_order(o, EX_TEMPFAIL, alloc_format("%s: workers with the old handler still serve: the "
	    "new one waits for %s; see: quredis status %s", name,
	    json_string_value(json_object_get(renewal, "waits_for")), name));
}

/*
 * error: why the supervisor did not answer. 1: it is asked again; -1: it ended, or is silent for too long. A supervisor
 * that lives is silent when it is stopped or busy, and drops clients when there are many, so only a socket where nobody
 * listens proves an end.
 */
static int judge_silence(struct sent_order *o, const char *name, int error, bool late)
{
	if (error == ENOENT || error == ECONNREFUSED)
		return fail_order(o, EX_TEMPFAIL,
		    alloc_format("%s: the supervisor ended before the new handler was ready", name));
	return !late ? 1 : fail_order(o, EX_TEMPFAIL, alloc_format("%s: the supervisor does not answer, so it is not "
	    "known whether the new handler is ready: %s", name, control_silence(error)));
}

static int await_renewal(struct sent_order *o, const json_t *of)
{
	const char *name = json_string_value(json_object_get(of, "queue"));
	int64_t until_ms = clock_monotonic_ms() + json_integer_value(json_object_get(of, "limit_ms"));
	int rc = 1;

	while (rc == 1) {
		json_t *status = control_status(o->a);
		int error = errno;
		bool late = clock_monotonic_ms() >= until_ms;

		rc = status == NULL ? judge_silence(o, name, error, late) : judge_renewal(o, status, name,
		    json_integer_value(json_object_get(of, "generation")), late);
		json_decref(status);
		if (rc == 1)
			poll(NULL, 0, RENEWAL_LOOK_MS);
	}
	return rc;
}

static int await_renewals(struct sent_order *o, const json_t *answer)
{
	const json_t *of;
	size_t i;
	int rc = 0;

	if (o->a->options.no_wait)
		return 0;
	json_array_foreach(json_object_get(answer, "renewals"), i, of)
		if (await_renewal(o, of) == -1)
			rc = -1;
	return rc;
}

/* ---- orders ---- */

enum order_end { ORDER_DONE, ORDER_REFUSED, ORDER_NOT_RENEWED };

static enum order_end take_answer(struct sent_order *o, const json_t *answer)
{
	const char *error = json_string_value(json_object_get(answer, "error"));

	say_texts(answer, "problems", "");
	say_texts(answer, "warnings", "warning: ");
	warn_of_left(o->a, answer);
	if (json_is_true(json_object_get(answer, "ok")))
		return await_renewals(o, answer) == -1 ? ORDER_NOT_RENEWED : ORDER_DONE;
	json_array_extend(o->errors, json_object_get(answer, "problems"));
	if (json_array_size(o->errors) == 0)
		json_array_append_new(o->errors, json_string(error == NULL ? "refused" : error));
	return ORDER_REFUSED;
}

static void print_failure(const struct sent_order *o, const char *action)
{
	json_t *document = json_pack("{s:s, s:b, s:b, s:O}", "action", action, "ok", 0, "dry_run", 0, "errors",
	    o->errors);

	output_json_document(&o->a->output, document);
	json_decref(document);
}

/* Sends an order and prints the answer. renewed: what was done if new handlers had to be ready; NULL: the same. */
static enum order_end send_order(struct admin *a, const char *command, json_t *more, const char *done,
    const char *renewed)
{
	struct sent_order o = { .a = a };
	enum order_end end;
	json_t *answer;

	if (a->options.dry_run) {
		json_decref(more);
		print_text(a, command, done);
		return ORDER_DONE;
	}
	answer = control_ask(a, command, more);
	if (answer == NULL)
		return ORDER_REFUSED;
	o.errors = json_array();
	end = take_answer(&o, answer);
	if (end == ORDER_DONE)
		print_text(a, command, o.renewed && renewed != NULL ? renewed : done);
	else if (a->options.json)
		print_failure(&o, command);
	json_decref(o.errors);
	json_decref(answer);
	return end;
}

int cmd_reload(struct admin *a)
{
	enum order_end end = send_order(a, "reload", NULL, "the new configuration is in use", NULL);

	/* The file has errors: a repetition would fail, too. */
	if (end == ORDER_REFUSED && a->status == EX_TEMPFAIL)
		a->status = EX_CONFIG;
	return end == ORDER_DONE ? 0 : -1;
}

int cmd_stop(struct admin *a)
{
	const struct conf *c = a->conf;
	int64_t wait_ms = a->flawed ? STOP_UNKNOWN_MS
	    : c->supervisor.drain_timeout_ms + c->supervisor.kill_grace_ms + STOP_MORE_MS;

	if (!a->options.dry_run && control_stop(a, a->options.fast, a->options.no_wait ? 0 : wait_ms) == -1)
		return -1;
	print_text(a, "stop", a->options.no_wait ? "the supervisor is stopping" : "the supervisor is stopped");
	return 0;
}

static json_t *queue_member(const struct admin *a)
{
	return a->noperands > 0 ? json_pack("{s:s}", "queue", a->operands[0]) : NULL;
}

/* Translates the refusal of a supervisor that does not run this queue. */
static int no_queue(struct admin *a, enum order_end end)
{
	bool known = a->flawed || a->options.socket != NULL || a->noperands == 0 ||
	    conf_queue_find(a->conf, a->operands[0]) != NULL;

	if (end == ORDER_REFUSED && a->status == EX_TEMPFAIL && !known)
		a->status = EX_NOINPUT;
	return end == ORDER_DONE ? 0 : -1;
}

int cmd_restart(struct admin *a)
{
	return no_queue(a, send_order(a, "restart", queue_member(a),
	    "new workers are started, the old ones finish what they run",
	    "its workers have the new handler, which is ready; the old ones finish what they run"));
}

int cmd_scale(struct admin *a)
{
	const char *why;
	long long n = strtonum(a->operands[1], 0, CONF_WORKERS_MAX, &why);
	enum order_end end;
	char *done;

	if (why != NULL || a->operands[1][strspn(a->operands[1], "0123456789")] != '\0') {
		admin_fail(a, EX_USAGE, "workers: expected a whole number, 0 to %d, not %s", CONF_WORKERS_MAX,
		    a->operands[1]);
		return -1;
	}
	done = alloc_format("%s: %lld worker%s here until the next reload or start", a->operands[0], n,
	    n == 1 ? "" : "s");
	end = send_order(a, "scale", json_pack("{s:s, s:I}", "queue", a->operands[0], "workers", (json_int_t)n), done,
	    NULL);
	free(done);
	return no_queue(a, end);
}

int cmd_quiet(struct admin *a)
{
	if (a->options.off)
		return no_queue(a, send_order(a, "resume", queue_member(a), "workers fetch again", NULL));
	return no_queue(a, send_order(a, "quiet", queue_member(a),
	    "workers finish what they run and fetch nothing more", NULL));
}
