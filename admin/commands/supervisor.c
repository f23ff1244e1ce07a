/* quredis reload, stop, restart, scale, quiet: send orders to the supervisor on this host. */
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

/* late: it lasts too long. 1: the workers are not all replaced yet; 0: they are; -1: the reason was printed. */
static int judge_renewal(struct admin *a, const json_t *status, const char *name, json_int_t generation, bool late)
{
	const json_t *renewal = json_object_get(find_queue(status, name), "renewal");
	const char *refused = json_string_value(json_object_get(renewal, "refused"));
	const char *failed = json_string_value(json_object_get(renewal, "failed"));

	if (json_integer_value(json_object_get(renewal, "generation")) != generation)
		return admin_fail(a, EX_TEMPFAIL, "%s: another reload, restart or stop came meanwhile", name);
	if (refused != NULL)
		return admin_fail(a, EX_CONFIG, "%s: the " HOLD_REFUSED_WORDS ": %s", name, refused);
	if (json_integer_value(json_object_get(renewal, "outdated")) == 0 &&
	    json_is_true(json_object_get(renewal, "ready")))
		return 0;
	if (failed != NULL && json_integer_value(json_object_get(renewal, "outdated")) == 0)
		return admin_fail(a, EX_CONFIG, "%s: the new handler is not ready: %s", name, failed);
	if (late && json_integer_value(json_object_get(renewal, "outdated")) == 0)
		return admin_fail(a, EX_TEMPFAIL, "%s: no worker has the new handler ready yet; see: quredis status %s",
		    name, name);
	return late ? admin_fail(a, EX_TEMPFAIL, "%s: workers with the old handler still serve: the new one waits for "
	    "%s; see: quredis status %s", name, json_string_value(json_object_get(renewal, "waits_for")), name) : 1;
}

static int await_renewal(struct admin *a, const json_t *of)
{
	const char *name = json_string_value(json_object_get(of, "queue"));
	int64_t until_ms = clock_monotonic_ms() + json_integer_value(json_object_get(of, "limit_ms"));
	int rc = 1;

	while (rc == 1) {
		json_t *status = control_ask(a, "status", NULL);

		rc = status == NULL ? -1
		    : judge_renewal(a, status, name, json_integer_value(json_object_get(of, "generation")),
		    clock_monotonic_ms() >= until_ms);
		json_decref(status);
		if (rc == 1)
			poll(NULL, 0, RENEWAL_LOOK_MS);
	}
	return rc;
}

static int await_renewals(struct admin *a, const json_t *answer)
{
	const json_t *of;
	size_t i;
	int rc = 0;

	if (a->options.no_wait)
		return 0;
	json_array_foreach(json_object_get(answer, "renewals"), i, of)
		if (await_renewal(a, of) == -1)
			rc = -1;
	return rc;
}

/* ---- orders ---- */

enum order_end { ORDER_DONE, ORDER_REFUSED, ORDER_NOT_RENEWED };

/* Sends an order and prints the answer. */
static enum order_end send_order(struct admin *a, const char *command, json_t *more, const char *done)
{
	enum order_end end = ORDER_REFUSED;
	json_t *answer;

	if (a->options.dry_run) {
		json_decref(more);
		print_text(a, command, done);
		return ORDER_DONE;
	}
	answer = control_ask(a, command, more);
	if (answer == NULL)
		return ORDER_REFUSED;
	say_texts(answer, "problems", "");
	say_texts(answer, "warnings", "warning: ");
	warn_of_left(a, answer);
	if (json_is_true(json_object_get(answer, "ok")))
		end = await_renewals(a, answer) == -1 ? ORDER_NOT_RENEWED : ORDER_DONE;
	json_decref(answer);
	if (end == ORDER_DONE)
		print_text(a, command, done);
	return end;
}

int cmd_reload(struct admin *a)
{
	enum order_end end = send_order(a, "reload", NULL, "the new configuration is in use");

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
	    "new workers are started, the old ones finish what they run"));
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
	end = send_order(a, "scale", json_pack("{s:s, s:I}", "queue", a->operands[0], "workers", (json_int_t)n), done);
	free(done);
	return no_queue(a, end);
}

int cmd_quiet(struct admin *a)
{
	if (a->options.off)
		return no_queue(a, send_order(a, "resume", queue_member(a), "workers fetch again"));
	return no_queue(a, send_order(a, "quiet", queue_member(a),
	    "workers finish what they run and fetch nothing more"));
}
