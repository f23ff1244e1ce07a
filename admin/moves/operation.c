/* Operations of an operator that a repeated command continues. common/queue/operations.h says what Redis remembers. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "admin/moves/operation.h"

#include "common/base/base.h"

#define RENEW_MS 1000
#define LOOK_MS 250

/* In the order of operation_hold.lua. */
static const char *const fields[] = { "begun", "since", "bound", "total", "acted", "next", "first", "passed", "from", "last" };
enum { AT_BEGUN, AT_SINCE, AT_BOUND, AT_TOTAL, AT_ACTED, AT_NEXT, AT_FIRST, AT_PASSED, AT_FROM, AT_LAST, FIELDS };

/* "HOST PID RANDOM" */
static void name_holder(char out[128])
{
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	snprintf(out, 128, "%s %d %08" PRIx32, host, (int)getpid(), arc4random());
}

/* True: the process was on this host, and is gone. */
static bool is_dead(const char *holder)
{
	char host[65] = "";
	size_t len;

	gethostname(host, sizeof(host) - 1);
	len = strlen(host);
	return strncmp(holder, host, len) == 0 && holder[len] == ' ' && kill((pid_t)strtol(holder + len, NULL, 10), 0) == -1 && errno == ESRCH;
}

static void take_fields(struct operation *o, const struct redis_reply *reply, size_t from)
{
	const char *text[FIELDS];

	for (size_t i = 0; i < FIELDS; i++) {
		struct redis_reply field = redis_element(reply, from + i);

		text[i] = field.type == REDIS_STRING ? field.str : "";
	}
	o->begun_ms = strtoll(text[AT_BEGUN], NULL, 10);
	strlcpy(o->since, text[AT_SINCE], sizeof(o->since));
	strlcpy(o->bound, text[AT_BOUND], sizeof(o->bound));
	strlcpy(o->next, text[AT_NEXT][0] != '\0' ? text[AT_NEXT] : text[AT_SINCE], sizeof(o->next));
	o->total = text[AT_TOTAL][0] == '\0' ? -1 : strtoll(text[AT_TOTAL], NULL, 10);
	o->acted = strtoll(text[AT_ACTED], NULL, 10);
	free(o->first);
	o->first = alloc_string(text[AT_FIRST]);
	o->passed = text[AT_PASSED][0] != '\0';
	o->last_ms = strtoll(text[AT_LAST], NULL, 10);
	o->from = text[AT_FROM][0] == '\0' ? -1 : strtoll(text[AT_FROM], NULL, 10);
}

int operation_find(struct admin *a, const char *action, const struct filter *f, struct operation *o)
{
	char *text = filter_text(f), sum[ENCODE_SHA1_SIZE];
	struct redis_reply reply;

	*o = (struct operation){ .a = a, .verb = strcmp(action, "dlq rm") == 0 ? "deletion" : "retry", .total = -1, .from = -1 };
	o->what = alloc_format("%s%s", action, text);
	free(text);
	encode_sha1(o->what, strlen(o->what), sum);
	strlcpy(o->id, sum, sizeof(o->id));
	name_holder(o->holder);
	queue_operation_read(&a->redis, &a->keys, o->id, fields, FIELDS);
	if (admin_reply(a, &reply, a->keys.operations) == -1)
		return -1;
	if (reply.type != REDIS_ARRAY || reply.n != FIELDS)
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
	take_fields(o, &reply, 0);
	o->continues = o->bound[0] != '\0';
	return o->continues;
}

/* ---- holding ---- */

static int ask_hold(struct operation *o, const char *instead, struct redis_reply *reply)
{
	static const char *const begin[] = { "what", "since", "bound", "total" };
	struct admin *a = o->a;
	char total[24] = "";

	if (o->total >= 0)
		snprintf(total, sizeof(total), "%" PRId64, o->total);
	queue_operation_hold(&a->redis, &a->keys, o->id, o->holder, instead, begin, (const char *[]){ o->what, o->since, o->bound, total }, nitems(begin));
	if (admin_reply(a, reply, a->keys.operations) == -1)
		return -1;
	return redis_is_strings(reply) && reply->n >= 3 ? 0 : admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
}

static int held_by(struct operation *o, const char *holder)
{
	const char *end = strrchr(holder, ' ');		/* behind host and process: name_holder() */

	return admin_fail(o->a, EX_TEMPFAIL, "the same %s is running (host and process %.*s): wait until it ends, or interrupt it there", o->verb,
	    (int)(end == NULL ? strlen(holder) : (size_t)(end - holder)), holder);
}

/* A holder on another host may have died: then its time ends, and nobody extends it. */
int operation_hold(struct operation *o)
{
	int64_t until_ms = clock_monotonic_ms() + QUEUE_OPERATION_HOLD_MS + LOOK_MS;
	char instead[128] = "";
	struct redis_reply reply;

	for (;;) {
		struct redis_reply first, second;

		if (ask_hold(o, instead, &reply) == -1)
			return -1;
		first = redis_element(&reply, 0);
		second = redis_element(&reply, 1);
		if (strcmp(first.str, "held") != 0)
			break;
		if (is_dead(second.str) && strcmp(instead, second.str) != 0)
			strlcpy(instead, second.str, sizeof(instead));
		else if (clock_monotonic_ms() >= until_ms || interrupt_asked())
			return held_by(o, second.str);
		else
			clock_pause_ms(LOOK_MS);
	}
	if (reply.n != 1 + FIELDS)
		return admin_fail(o->a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
	o->continues = strcmp(redis_element(&reply, 0).str, "on") == 0;
	take_fields(o, &reply, 1);
	o->renewed_ms = clock_monotonic_ms();
	return 0;
}

int operation_lost(struct operation *o)
{
	o->is_lost = true;
	return admin_fail(o->a, EX_TEMPFAIL, "another command took over this %s, or Redis went back to an earlier state: run the command again to continue",
	    o->verb);
}

#define ANY_NUMBER (-1)

/* acted: how many it has taken, or ANY_NUMBER */
static int send_note(struct operation *o, int64_t hold_ms, int64_t acted, const char *field, const char *value)
{
	int64_t held;

	queue_operation_note(&o->a->redis, &o->a->keys, o->id, o->holder, hold_ms, acted, &field, &value, field == NULL ? 0 : 1);
	if (admin_integer(o->a, &held, o->a->keys.operations) == -1)
		return -1;
	o->renewed_ms = clock_monotonic_ms();
	return held == 1 ? 0 : operation_lost(o);
}

int operation_renew(struct operation *o)
{
	return clock_monotonic_ms() - o->renewed_ms < RENEW_MS ? 0 : send_note(o, QUEUE_OPERATION_HOLD_MS, ANY_NUMBER, NULL, NULL);
}

int operation_note(struct operation *o, const char *field, const char *value)
{
	return send_note(o, QUEUE_OPERATION_HOLD_MS, ANY_NUMBER, field, value);
}

int operation_note_number(struct operation *o, const char *field, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return operation_note(o, field, text);
}

int operation_passed(struct operation *o)
{
	o->passed = send_note(o, QUEUE_OPERATION_HOLD_MS, o->acted, "passed", "1") == 0;
	return o->passed ? 0 : -1;
}

int operation_count(struct operation *o)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, o->acted + 1);
	if (send_note(o, QUEUE_OPERATION_HOLD_MS, o->acted, "acted", text) == -1)
		return -1;
	o->acted++;
	return 0;
}

int operation_release(struct operation *o)
{
	return o->is_lost ? -1 : send_note(o, 0, ANY_NUMBER, "next", o->next);
}

int operation_end(struct operation *o)
{
	return send_note(o, -1, o->acted, NULL, NULL);
}

void operation_free(struct operation *o)
{
	free(o->what);
	free(o->first);
	*o = (struct operation){0};
}
