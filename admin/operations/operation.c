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
#include <jansson.h>

#include "admin/operations/operation.h"

#include "common/base/base.h"

#define RENEW_MS 1000
#define LOOK_MS 250

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
	return strncmp(holder, host, len) == 0 && holder[len] == ' ' &&
	    kill((pid_t)strtol(holder + len, NULL, 10), 0) == -1 && errno == ESRCH;
}

int64_t operation_figure(const char *text, int64_t most, int64_t otherwise)
{
	const char *why = NULL;
	int64_t n = strtonum(text, 0, most, &why);

	return why == NULL ? n : otherwise;
}

static bool is_place(const char *id)
{
	return strcmp(id, "-") == 0 || record_id_valid(id);
}

/* The operation goes on at one of its records, or behind the last. From any other place it would take records that it
 * does not mean, or end early. */
static bool is_place_of(const struct operation *o, const char *id)
{
	char behind[RECORD_ID_SIZE];

	if (strcmp(id, o->since) == 0)
		return true;
	record_id_next(o->bound, behind);
	return record_id_valid(id) && queue_record_id_compare(id, behind) <= 0 &&
	    (!record_id_valid(o->since) || queue_record_id_compare(id, o->since) >= 0);
}

/* -1: the answer has no fields */
static int take_fields(struct operation *o, const struct redis_reply *reply, size_t from)
{
	const char *text[OPERATION_FIELDS];

	if (!queue_operation_parse(reply, from, text))
		return admin_fail(o->a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
	o->begun_ms = operation_figure(text[OPERATION_BEGUN], OPERATION_TIME_MAX_MS, 0);
	o->held_ms = operation_figure(text[OPERATION_HELD], OPERATION_TIME_MAX_MS, 0);
	strlcpy(o->since, text[OPERATION_SINCE], sizeof(o->since));
	strlcpy(o->bound, text[OPERATION_BOUND], sizeof(o->bound));
	strlcpy(o->next, text[OPERATION_NEXT][0] != '\0' ? text[OPERATION_NEXT] : o->since, sizeof(o->next));
	o->done = operation_figure(text[OPERATION_DONE], OPERATION_FIGURE_MAX,
	    text[OPERATION_DONE][0] == '\0' ? 0 : -1);
	o->total = operation_figure(text[OPERATION_TOTAL], OPERATION_FIGURE_MAX, -1);
	o->total = o->total < o->done ? -1 : o->total;
	strlcpy(o->canary_newest, text[OPERATION_CANARY_NEWEST], sizeof(o->canary_newest));
	o->canary_from = operation_figure(text[OPERATION_CANARY_FROM], OPERATION_FIGURE_MAX, -1);
	free(o->canary_fingerprints);
	o->canary_fingerprints = alloc_string(text[OPERATION_CANARY_FINGERPRINTS]);
	o->canary_done = text[OPERATION_CANARY_DONE][0] != '\0';
	o->last_at_ms = operation_figure(text[OPERATION_LAST_AT], OPERATION_TIME_MAX_MS, 0);
	strlcpy(o->wanted, text[OPERATION_WANTED], sizeof(o->wanted));
	free(o->result);
	o->result = alloc_string(text[OPERATION_RESULT]);
	o->is_damaged = o->bound[0] != '\0' &&
	    (o->done < 0 || !record_id_valid(o->bound) || !is_place(o->since) || !is_place_of(o, o->next));
	return 0;
}

int operation_look_again(struct operation *o)
{
	struct admin *a = o->a;
	struct redis_reply reply;

	queue_operation_read(&a->redis, &a->keys, o->id);
	if (admin_reply(a, &reply, a->keys.operations) == -1 || take_fields(o, &reply, 0) == -1)
		return -1;
	if (o->is_damaged && !a->options.anew)
		return admin_fail(a, EX_DATAERR, "the saved state of this %s (in %s) is damaged: --anew discards it",
		    o->verb, a->keys.operations);
	return o->bound[0] != '\0';
}

int operation_find(struct admin *a, const char *action, const struct filter *f, char *options, struct operation *o)
{
	char *text = filter_text(f), sum[ENCODE_SHA1_SIZE];

	*o = (struct operation){ .a = a, .verb = strcmp(action, "dlq rm") == 0 ? "deletion" : "retry", .total = -1,
	    .canary_from = -1, .options = options };
	o->what = alloc_format("%s%s", action, text);
	free(text);
	encode_sha1(o->what, strlen(o->what), sum);
	strlcpy(o->id, sum, sizeof(o->id));
	name_holder(o->holder);
	return operation_look_again(o);
}

int operation_forget_result(struct operation *o)
{
	int64_t removed;

	queue_operation_forget_result(&o->a->redis, &o->a->keys, o->id);
	return admin_integer(o->a, &removed, o->a->keys.operations);
}

int operation_idle(struct operation *o, int64_t *ms)
{
	int64_t last_ms = o->held_ms > 0 ? o->held_ms : o->begun_ms, now_ms;

	if (admin_server_time(o->a, &now_ms) == -1)
		return -1;
	*ms = now_ms > last_ms ? now_ms - last_ms : 0;
	return 0;
}

void operation_set_range(struct operation *o, const char *since, const char *bound)
{
	strlcpy(o->since, since, sizeof(o->since));
	strlcpy(o->next, since, sizeof(o->next));
	strlcpy(o->bound, bound, sizeof(o->bound));
}

void operation_set_total(struct operation *o, int64_t total)
{
	o->total = total;
}

/* ---- notes ---- */

int operation_lost(struct operation *o)
{
	o->is_lost = true;
	return admin_fail(o->a, EX_TEMPFAIL, "another command took over this %s, or Redis went back to an earlier "
	    "state: run the command again to continue", o->verb);
}

#define ANY_NUMBER (-1)

/* done: how many are done, or ANY_NUMBER */
static int send_note(struct operation *o, int64_t hold_ms, int64_t done, enum queue_operation_field field,
    const char *value)
{
	int64_t held;

	queue_operation_note(&o->a->redis, &o->a->keys, o->id, o->holder, hold_ms, done, field, value);
	if (admin_integer(o->a, &held, o->a->keys.operations) == -1)
		return -1;
	o->renewed_ms = clock_monotonic_ms();
	if (held == 2 && !o->is_stopped) {
		o->is_stopped = true;
		interrupt_ask();
	}
	return held >= 1 ? 0 : operation_lost(o);
}

static int note(struct operation *o, enum queue_operation_field field, const char *value)
{
	return send_note(o, QUEUE_OPERATION_HOLD_MS, ANY_NUMBER, field, value);
}

static int note_number(struct operation *o, enum queue_operation_field field, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	return note(o, field, text);
}

/* ---- holding ---- */

static int ask_hold(struct operation *o, const char *instead, struct redis_reply *reply)
{
	char total[24] = "";
	const char *const values[OPERATION_FIELDS] =
	    { [OPERATION_WHAT] = o->what, [OPERATION_OPTIONS] = o->options, [OPERATION_SINCE] = o->since,
		[OPERATION_BOUND] = o->bound, [OPERATION_TOTAL] = total };
	struct admin *a = o->a;

	if (o->total >= 0)
		snprintf(total, sizeof(total), "%" PRId64, o->total);
	queue_operation_hold(&a->redis, &a->keys, o->id, o->holder, instead, values);
	if (admin_reply(a, reply, a->keys.operations) == -1)
		return -1;
	return redis_is_strings(reply) && reply->n >= 2 ? 0
	    : admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
}

static int held_by(struct operation *o, const char *holder)
{
	const char *end = strrchr(holder, ' ');		/* behind host and process: name_holder() */

	return admin_fail(o->a, EX_TEMPFAIL,
	    "the same %s is running (host and process %.*s): wait until it ends, or stop it: "
	    "quredis operations %s --stop %s", o->verb,
	    (int)(end == NULL ? strlen(holder) : (size_t)(end - holder)), holder, o->a->keys.name, o->id);
}

/* The command that continues an operation may have another pace than the one before: doctor shows the last one. */
static int note_options(struct operation *o)
{
	return note(o, OPERATION_OPTIONS, o->options);
}

/* The operation is held. While the operator was asked, another command may have begun it anew, with another period. */
static int begin_held(struct operation *o, const struct redis_reply *reply)
{
	bool is_new = strcmp(redis_element(reply, 0).str, "new") == 0;
	char since[RECORD_ID_SIZE], bound[RECORD_ID_SIZE];

	strlcpy(since, o->since, sizeof(since));
	strlcpy(bound, o->bound, sizeof(bound));
	if (take_fields(o, reply, 1) == -1)
		return -1;
	o->renewed_ms = clock_monotonic_ms();
	if (o->swept && strcmp(o->wanted, "run") != 0) {
		operation_release(o, NULL);
		return admin_fail(o->a, EX_TEMPFAIL, "an operator stopped this %s", o->verb);
	}
	if (strcmp(o->since, since) == 0 && strcmp(o->bound, bound) == 0)
		return is_new || o->swept ? 0 : note_options(o) == -1 || note(o, OPERATION_WANTED, "") == -1 ? -1 : 0;
	operation_release(o, NULL);
	return admin_fail(o->a, EX_TEMPFAIL, "another command began this %s anew meanwhile: run the command again",
	    o->verb);
}

/* A holder on another host may have died: then its hold ends, since no process extends it. */
static int acquire(struct operation *o, struct redis_reply *reply)
{
	int64_t until_ms = clock_monotonic_ms() + QUEUE_OPERATION_HOLD_MS + LOOK_MS;
	char instead[128] = "";

	for (;;) {
		struct redis_reply first, second;

		if (ask_hold(o, instead, reply) == -1)
			return -1;
		first = redis_element(reply, 0);
		second = redis_element(reply, 1);
		if (strcmp(first.str, "held") != 0)
			return 0;
		if (is_dead(second.str) && strcmp(instead, second.str) != 0)
			strlcpy(instead, second.str, sizeof(instead));
		else if (clock_monotonic_ms() >= until_ms || interrupt_asked())
			return held_by(o, second.str);
		else
			clock_pause_ms(LOOK_MS);
	}
}

int operation_forget_earlier(struct operation *o)
{
	struct redis_reply reply;

	if (!o->forgets_earlier)
		return 0;
	if (acquire(o, &reply) == -1 || send_note(o, -1, ANY_NUMBER, OPERATION_HELD, NULL) == -1)
		return -1;
	o->forgets_earlier = false;
	return 0;
}

int operation_hold(struct operation *o)
{
	struct redis_reply reply;

	return operation_forget_earlier(o) == -1 || acquire(o, &reply) == -1 ? -1 : begin_held(o, &reply);
}

int operation_renew(struct operation *o)
{
	return clock_monotonic_ms() - o->renewed_ms < RENEW_MS ? 0
	    : send_note(o, QUEUE_OPERATION_HOLD_MS, ANY_NUMBER, OPERATION_HELD, NULL);
}

/* ---- where it goes on ---- */

void operation_rewind(struct operation *o)
{
	strlcpy(o->next, o->since, sizeof(o->next));
}

void operation_step_to(struct operation *o, const char *record_id)
{
	strlcpy(o->next, record_id, sizeof(o->next));
}

bool operation_step_behind(struct operation *o, const char *record_id)
{
	return record_id_next(record_id, o->next) != 0;
}

int operation_note_next(struct operation *o, const char *record_id)
{
	return note(o, OPERATION_NEXT, record_id);
}

/* ---- what is done ---- */

bool operation_took(struct operation *o, int64_t n, int64_t done)
{
	bool as_expected = done == o->done + n;

	o->done = done;
	return as_expected;
}

int operation_note_last(struct operation *o)
{
	return admin_server_time(o->a, &o->last_at_ms) == -1 ? -1 : note_number(o, OPERATION_LAST_AT, o->last_at_ms);
}

int operation_begin_canary(struct operation *o, const char *newest)
{
	strlcpy(o->canary_newest, newest, sizeof(o->canary_newest));
	o->canary_from = o->done;
	return note(o, OPERATION_CANARY_NEWEST, newest) == -1 ? -1
	    : note_number(o, OPERATION_CANARY_FROM, o->canary_from);
}

int operation_add_canary(struct operation *o, const char *fingerprint)
{
	char *all = alloc_format("%s%s", o->canary_fingerprints, fingerprint);

	free(o->canary_fingerprints);
	o->canary_fingerprints = all;
	return note(o, OPERATION_CANARY_FINGERPRINTS, all);
}

int operation_end_canary(struct operation *o)
{
	o->canary_done = send_note(o, QUEUE_OPERATION_HOLD_MS, o->done, OPERATION_CANARY_DONE, "1") == 0;
	return o->canary_done ? 0 : -1;
}

int operation_count(struct operation *o)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, o->done + 1);
	if (send_note(o, QUEUE_OPERATION_HOLD_MS, o->done, OPERATION_DONE, text) == -1)
		return -1;
	o->done++;
	return 0;
}

int operation_release(struct operation *o, const char *result)
{
	if (o->is_lost || (result != NULL && note(o, OPERATION_RESULT, result) == -1))
		return -1;
	return send_note(o, 0, ANY_NUMBER, OPERATION_NEXT, o->next);
}

int operation_end(struct operation *o, const char *result)
{
	return send_note(o, -1, o->done, OPERATION_RESULT, result);
}

int operation_give(struct operation *o, const char *by)
{
	if (note(o, OPERATION_BY, by) == -1 || note(o, OPERATION_RESULT, "") == -1)
		return -1;
	return send_note(o, 0, ANY_NUMBER, OPERATION_WANTED, "run");
}

void operation_begin_anew(struct operation *o)
{
	o->forgets_earlier = true;
	o->total = o->canary_from = -1;
	o->done = o->last_at_ms = 0;
	o->canary_done = o->is_damaged = false;
	o->canary_fingerprints[0] = '\0';
}

void operation_free(struct operation *o)
{
	free(o->what);
	free(o->options);
	free(o->canary_fingerprints);
	free(o->result);
	*o = (struct operation){0};
}
