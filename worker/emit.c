/*
 * Pushes what a handler has emitted, together with the acknowledgement of its message. The lines before the messages
 * are written each time that the move is sent, so they have the time of the push. If Redis refuses a target, the
 * attempt fails: otherwise the worker would hold the message, and fetch nothing, until an operator comes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"
#include "common/board/board.h"
#include "common/queue/queue.h"

const char *const emit_refused = "EmitRefused";

bool emit_is_allowed(struct worker *w, struct place p, const struct handler_emissions *e, const char **why)
{
	static char too_deep[96];

	*why = e->refused;
	if (e->refused[0] == '\0' &&
	    tray_message(&w->trays, p)->wrapper.lineage.depth >= w->env->conf->emit.max_depth) {
		snprintf(too_deep, sizeof(too_deep), "EMIT: deeper than emit.max_depth = %d",
		    w->env->conf->emit.max_depth);
		*why = too_deep;
	}
	return (*why)[0] == '\0';
}

bool emit_any(const struct item *item)
{
	return item->outcome != NULL && item->outcome->emitted != NULL;
}

void emit_forget(struct worker *w, struct place p)
{
	struct item *item = tray_item(&w->trays, p);

	if (!emit_any(item))
		return;
	handler_emissions_free(item->outcome->emitted);
	item->outcome->emitted = NULL;
}

/* ---- sending ---- */

/* The move that is being made. */
struct sending {
	struct worker *w;
	const char **targets;		/* keys, each once */
	size_t ntargets;
	struct queue_put *puts;
	struct buffer bytes;
	struct wrapper wrapper;		/* of all messages */
	struct buffer line;		/* of the target line_of, without a delay */
	const struct conf_queue *line_of;
};

/* A message without a root is the root of what it emits. */
static struct message_lineage lineage_below(struct message *m)
{
	const char *traceparent = message_traceparent(m);
	struct message_lineage below = { .depth = m->wrapper.lineage.depth + 1 };

	strlcpy(below.root, m->wrapper.lineage.depth > 0 ? m->wrapper.lineage.root : message_id(m),
	    sizeof(below.root));
	strlcpy(below.traceparent, traceparent == NULL ? "" : traceparent, sizeof(below.traceparent));
	return below;
}

/* 0: too little is known. The sweeper writes the time then. */
static int64_t server_now_ms(const struct worker *w)
{
	struct server_clock known;
	struct age_clock clock;

	server_clock_read(&known, &w->env->child->board->sweeper.clock);
	return server_clock_age(&known, clock_boottime_ms(), &clock) ? clock.now_ms : 0;
}

static size_t find_target(struct sending *s, const char *key)
{
	size_t i = 0;

	while (i < s->ntargets && s->targets[i] != key)
		i++;
	if (i == s->ntargets)
		s->targets[s->ntargets++] = key;
	return i;
}

/* Messages of one target share a line: in a list they need not be distinct, and each seal costs some time. */
static void append_line(struct sending *s, const struct conf_queue *to, const struct queue_keys *keys, bool delayed)
{
	if (keys->shared)
		return;			/* its other consumers would take the line for payload */
	if (delayed || s->line_of != to) {
		s->wrapper.own_ms = !delayed && conf_queue_ages(s->w->env->child->conf, to) ? server_now_ms(s->w) : 0;
		buffer_clear(&s->line);
		message_wrapper(&s->line, &keys->lines, &s->wrapper);
		s->line_of = delayed ? NULL : to;
	}
	buffer_append(&s->bytes, s->line.data, s->line.len);
}

static void append_put(struct sending *s, const struct handler_emissions *e, size_t i)
{
	const struct handler_emission *one = &e->list[i];
	const struct queue_keys *keys = &s->w->env->targets[one->target];
	size_t at = s->bytes.len;

	append_line(s, s->w->env->conf->emit.targets[one->target], keys, one->delay_ms > 0);
	if (one->len > 0)
		buffer_append(&s->bytes, e->bytes.data + one->at, one->len);
	s->puts[i] = (struct queue_put){ .target = find_target(s, one->delay_ms > 0 ? keys->delayed : keys->ingress),
		.delay_ms = one->delay_ms, .len = s->bytes.len - at };
}

/* The same script with the same keys but the targets. No list has a message at this place, so nothing changes. */
static void ask_for_own_keys(struct worker *w, struct place p)
{
	const struct queue_entry nowhere = { .raw = "", .at = INT32_MAX };
	const char *const none[] = { NULL };

	history_emitted(w, p, &nowhere, &(struct queue_emitted){ .targets = none });
}

static void send_emitted(struct worker *w, struct place p, const struct queue_entry *entry)
{
	const struct handler_emissions *e = tray_item(&w->trays, p)->outcome->emitted;
	struct sending s = { .w = w, .wrapper.lineage = lineage_below(tray_message(&w->trays, p)) };
	size_t at = 0;

	s.targets = alloc_zero(e->n, sizeof(*s.targets));
	s.puts = alloc_zero(e->n, sizeof(*s.puts));
	for (size_t i = 0; i < e->n; i++)
		append_put(&s, e, i);
	for (size_t i = 0; i < e->n; at += s.puts[i++].len)	/* the bytes move no more */
		s.puts[i].data = s.puts[i].len == 0 ? "" : s.bytes.data + at;
	history_emitted(w, p, entry, &(struct queue_emitted){ s.targets, s.ntargets, s.puts, e->n });
	free(s.targets);
	free(s.puts);
	buffer_free(&s.bytes);
	buffer_free(&s.line);
}

void emit_send(struct worker *w, struct place p, const struct queue_entry *entry)
{
	if (tray_item(&w->trays, p)->outcome->doubt == EMIT_DOUBT_OWN)
		ask_for_own_keys(w, p);
	else
		send_emitted(w, p, entry);
}

/* ---- refused ---- */

/*
 * Before Redis starts a script, it checks the rights to all of its keys, and does not say which one is missing: to a
 * target, or to a key of this queue, whose handler is not to blame. So the worker asks for the rights to its own keys
 * alone, and if they are there, sends the move again.
 */
static bool names_no_key(const struct redis_reply *reply)
{
	return redis_error_class(reply) == REDIS_ERROR_PERMISSION && queue_refuses_key(reply->str) &&
	    queue_refused_command(reply->str) == COMMAND_UNNAMED;
}

enum emit_next emit_after(const struct item *item, const struct redis_reply *reply)
{
	enum redis_error_class class = redis_error_class(reply);
	enum emit_doubt before;

	if (!emit_any(item))
		return EMIT_WAITS;
	before = item->outcome->doubt;
	item->outcome->doubt = EMIT_DOUBT_NONE;
	if (before == EMIT_DOUBT_OWN || redis_error_is_of_server(reply) ||
	    (class != REDIS_ERROR_WRONG_TYPE && class != REDIS_ERROR_PERMISSION))
		return EMIT_WAITS;
	if (strstr(reply->str, ", push to ") != NULL)	/* the script names the key of a push that Redis refused */
		return EMIT_FAILS;
	if (!names_no_key(reply))
		return EMIT_WAITS;
	if (before == EMIT_DOUBT_TARGET)
		return EMIT_FAILS;
	item->outcome->doubt = EMIT_DOUBT_OWN;
	return EMIT_ASKS;
}

bool emit_was_asked(const struct item *item)
{
	if (!emit_any(item) || item->outcome->doubt != EMIT_DOUBT_OWN)
		return false;
	item->outcome->doubt = EMIT_DOUBT_TARGET;
	return true;
}

void emit_fail(struct worker *w, struct place p, const char *error, int64_t now_ms)
{
	struct outcome *o = tray_outcome(&w->trays, p);
	struct buffer tail = o->stderr_tail;
	struct handler_result run = { .end = HANDLER_EXITED, .code = o->code, .stderr_tail = tail.data,
		.stderr_len = tail.len, .duration_ms = tray_item(&w->trays, p)->duration_ms };
	struct failure f = { .verdict = CONF_OUTCOME_FAIL, .class = emit_refused, .delay_ms = -1, .result = &run };

	o->stderr_tail = (struct buffer){0};
	snprintf(f.text, sizeof(f.text), "EMIT: Redis refuses the push: %s", error);
	f.words = f.text;
	f.words_len = strlen(f.text);
	emit_forget(w, p);
	settle_failed(w, p, &f, now_ms);
	buffer_free(&tail);
}
