/*
 * The replies of an exec handler: EMIT, and RETRY, FAIL, REJECT and HOLD, on its reply_fd. The last of these four is
 * the verdict about its message, if the handler then exits; handler.c and worker/verdict.c decide what it means
 * together with the end of the process. A verb that is not known is a failure, not silence: with exit status 0 a
 * misspelt REJECT would be the end of its message.
 */
#include <string.h>

#include "common/handler/replies.h"

#include "common/base/base.h"
#include "common/handler/spawn.h"
#include "common/log/log.h"

#define READS_MAX 64		/* at the end of a run; more comes from a process that could not be killed */

void handler_replies_init(struct handler_replies *r, const struct conf_queue *conf)
{
	*r = (struct handler_replies){ .conf = conf, .lines = { .fd = -1 }, .open = handler_has_reply_fd(conf) };
	if (r->open)
		handler_lines_init(&r->lines);
}

void handler_replies_free(struct handler_replies *r)
{
	handler_lines_free(&r->lines);
	handler_emissions_free(r->emitted);
}

void handler_replies_begin(struct handler_replies *r, int fd)
{
	r->any = r->replaced = r->lost = r->dropping = r->alive = r->progressed = false;
	handler_emissions_free(r->emitted);
	r->emitted = NULL;
	r->intake = (struct handler_intake){0};
	handler_lines_begin(&r->lines, fd);
}

/* ---- verdicts ---- */

static void copy_verdict(struct handler_replies *r, const struct handler_reply *reply)
{
	r->any = true;
	handler_reply_copy(&r->verdict, reply, r->reason);
	memcpy(r->class, reply->class_len > 0 ? reply->class : "", reply->class_len);
	r->verdict.class = r->class;
}

static void take_verdict(struct handler_replies *r, const struct handler_reply *reply, struct handler_output *o)
{
	char before[HANDLER_REASON_SHOWN + 16];

	if (r->any && !r->replaced) {		/* one line in a run, also from a handler that floods */
		r->replaced = true;
		handler_reply_describe(&r->verdict, before, sizeof(before));
		log_warning("handler_verdict_replaced",
		    log_str("id", o->message == NULL ? NULL : message_id(o->message)),
		    log_str("verdict", before), log_str("by", handler_verb_names[reply->verb]));
	}
	copy_verdict(r, reply);
}

static void take_unknown(struct handler_replies *r, const char *line, size_t len, struct handler_output *o)
{
	char reason[HANDLER_REASON_SHOWN];
	struct handler_reply failed = {0};

	handler_reply_unknown(&failed, r->conf, line, len, reason);
	take_verdict(r, &failed, o);
	r->lost = true;
}

static void take_sign_of_life(struct handler_replies *r, const struct handler_reply *reply)
{
	r->alive = true;
	if (reply->verb != VERB_PROGRESS)
		return;
	r->progressed = true;
	handler_reply_copy(&r->progress, reply, r->progress_text);
}

static void take_emission(struct handler_replies *r, const struct handler_reply *reply)
{
	r->lost = !handler_emit_begin(&r->emitted, &r->intake, r->conf, reply);
}

/* ---- lines ---- */

static void take_line(struct handler_replies *r, enum handler_lines_part part, const char *line, size_t len,
    struct handler_output *o)
{
	bool first = part == HANDLER_LINES_WHOLE || part == HANDLER_LINES_BEGIN;
	bool newline = part == HANDLER_LINES_WHOLE || part == HANDLER_LINES_END;
	struct handler_reply reply;
	enum handler_line is = first && !r->lost ? handler_reply_parse(&reply, r->conf, line, len)
	    : HANDLER_LINE_OUTPUT;

	if (is == HANDLER_LINE_REPLY && !newline)
		reply.length = -1;	/* of an EMIT: where its bytes begin is not known */
	if (first)
		r->dropping = is == HANDLER_LINE_REPLY;
	if (is == HANDLER_LINE_REPLY && handler_verb_is_sign_of_life(reply.verb))
		take_sign_of_life(r, &reply);
	else if (is == HANDLER_LINE_REPLY && reply.verb == VERB_EMIT)
		take_emission(r, &reply);
	else if (is == HANDLER_LINE_REPLY)
		take_verdict(r, &reply, o);
	else if (is == HANDLER_LINE_UNKNOWN)
		take_unknown(r, line, len, o);
	if (!r->dropping)
		handler_output_take(o, &o->streams[HANDLER_STREAM_REPLY], line, len + newline);
}

/* False: there are none yet. */
static bool take_bytes(struct handler_replies *r)
{
	const char *bytes;
	size_t len = handler_lines_bytes(&r->lines, &bytes);

	if (len > 0)
		handler_lines_skip(&r->lines, handler_emit_take(&r->intake, r->emitted, bytes, len, &r->lost));
	return len > 0;
}

static void take_lines(struct handler_replies *r, struct handler_output *o)
{
	enum handler_lines_part part;
	const char *line;
	size_t len;

	for (;;) {
		while (r->intake.open)
			if (!take_bytes(r))
				return;
		if ((part = handler_lines_next(&r->lines, &line, &len)) == HANDLER_LINES_NONE)
			return;
		take_line(r, part, line, len, o);
	}
}

void handler_replies_read(struct handler_replies *r, struct handler_output *o)
{
	handler_lines_read(&r->lines);
	take_lines(r, o);
}

void handler_replies_end(struct handler_replies *r, struct handler_output *o)
{
	const char *rest;
	size_t len;

	if (!r->open)
		return;
	for (int i = 0; i < READS_MAX && handler_lines_read(&r->lines); i++)
		take_lines(r, o);
	len = handler_lines_rest(&r->lines, &rest);
	if (len > 0)
		take_line(r, r->lines.within ? HANDLER_LINES_MIDDLE : HANDLER_LINES_BEGIN, rest, len, o);
	handler_emit_end(&r->intake, r->emitted);
	handler_lines_close(&r->lines);
	handler_lines_begin(&r->lines, -1);
}

const struct handler_reply *handler_replies_verdict(const struct handler_replies *r)
{
	return r->any ? &r->verdict : NULL;
}

bool handler_replies_alive(struct handler_replies *r)
{
	bool alive = r->alive;

	r->alive = false;
	return alive;
}

const struct handler_reply *handler_replies_progress(struct handler_replies *r)
{
	bool progressed = r->progressed;

	r->progressed = false;
	return progressed ? &r->progress : NULL;
}
