/* Packs the cause of an open breaker into a word, and makes texts of it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/handler/cause.h"
#include "common/handler/handler.h"
#include "common/handler/script.h"
#include "common/handler/spawn.h"

enum kind { NONE, UNRUNNABLE, MUTE, FAILURES, UNREADY, IDLE };
enum how { REPLIED, EXITED, SIGNALED, TIMED_OUT };

/* The parts of a word, from its lowest bits: 8, 8, 16, 8, 8 and 16 bits. */
struct cause {
	unsigned kind;		/* enum kind */
	unsigned stage;		/* UNRUNNABLE: enum handler_stage */
	unsigned error;		/* UNRUNNABLE: errno */
	unsigned how;		/* the other kinds: enum how */
	unsigned code;		/* the same: exit status or signal */
	unsigned messages;	/* FAILURES: at most MESSAGES_MAX */
};
#define MESSAGES_MAX 0xffffu

static uint64_t pack(const struct cause *c)
{
	return (uint64_t)(c->kind & 0xff) | (uint64_t)(c->stage & 0xff) << 8 | (uint64_t)(c->error & 0xffff) << 16 |
	    (uint64_t)(c->how & 0xff) << 32 |
	       (uint64_t)(c->code & 0xff) << 40 |
	       (uint64_t)(c->messages < MESSAGES_MAX ? c->messages : MESSAGES_MAX) << 48;
}

static struct cause unpack(uint64_t word)
{
	return (struct cause){ .kind = word & 0xff, .stage = word >> 8 & 0xff, .error = word >> 16 & 0xffff,
		.how = word >> 32 & 0xff,
		.code = word >> 40 & 0xff, .messages = (unsigned)(word >> 48) };
}

static void set_end(struct cause *c, int code, int signal)
{
	c->how = signal != 0 ? SIGNALED : EXITED;
	c->code = (unsigned)(signal != 0 ? signal : code);
	if (signal == 0 && code < 0)
		c->how = REPLIED;	/* it is not known how it ended */
}

uint64_t handler_cause_unrunnable(const char *stage, int error)
{
	struct cause c = { .kind = UNRUNNABLE, .error = (unsigned)error };

	for (unsigned i = 0; stage != NULL && i < HANDLER_STAGES; i++)
		if (strcmp(stage, handler_stage_names[i]) == 0)
			c.stage = i;
	return pack(&c);
}

uint64_t handler_cause_mute(int code, int signal)
{
	struct cause c = { .kind = MUTE };

	set_end(&c, code, signal);
	return pack(&c);
}

uint64_t handler_cause_idle(int code, int signal)
{
	struct cause c = { .kind = IDLE };

	set_end(&c, code, signal);
	return pack(&c);
}

uint64_t handler_cause_unready(bool late, int code, int signal)
{
	struct cause c = { .kind = UNREADY };

	set_end(&c, code, signal);
	if (late)
		c.how = TIMED_OUT;
	return pack(&c);
}

uint64_t handler_cause_failures(unsigned messages, const struct handler_result *last)
{
	struct cause c = { .kind = FAILURES, .messages = messages };

	if (last != NULL && last->end == HANDLER_TIMED_OUT)
		c.how = TIMED_OUT;
	else if (last != NULL)
		set_end(&c, last->code, last->signal);
	return pack(&c);
}

/* ---- texts ---- */

static const char *stage_name(const struct cause *c)
{
	return c->stage < HANDLER_STAGES && c->stage != HANDLER_STAGE_NONE ? handler_stage_names[c->stage] : "start";
}

static const char *end_text(const struct cause *c, char out[64])
{
	switch (c->how) {
	case EXITED:
		snprintf(out, 64, "exit status %u", c->code);
		return out;
	case SIGNALED:
		snprintf(out, 64, "%s", process_signal_name((int)c->code));
		return out;
	case TIMED_OUT:
		return "a timeout";
	default:
		return NULL;
	}
}

static const char *hint(const struct cause *c)
{
	if (c->stage == HANDLER_STAGE_INTERPRETER)
		return " (the one in its first line, or the loader of a binary)";
	return c->stage == HANDLER_STAGE_EXECVE && c->error == ENOEXEC ? " (no program, and no #! in its first line)"
	    : "";
}

/* A path may have any bytes, but the text goes into JSON, which must be UTF-8, also where it is cut. */
static const char *shown_path(const char *path, char out[256])
{
	size_t n = strlcpy(out, path, 256);

	for (char *p = out; *p != '\0'; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	if (n >= 256)
		memcpy(out + 252, "...", 4);
	return out;
}

/* The master makes this text, too, which must not wait for a file system: no file is read for it. */
static void unrunnable_text(const struct cause *c, char *const *argv, char out[HANDLER_CAUSE_SIZE])
{
	char path[256], room[HANDLER_FILE_SIZE];
	const char *file = argv == NULL ? NULL : handler_stage_file(c->stage, argv, room);

	snprintf(out, HANDLER_CAUSE_SIZE, "its handler cannot be executed: %s%s%s: %s%s", stage_name(c),
	    file == NULL ? "" : c->stage == HANDLER_STAGE_INTERPRETER ? " of " : " ",
	    file == NULL ? "" : shown_path(file, path), strerror((int)c->error), hint(c));
}

const char *handler_cause_text(uint64_t word, char *const *argv, char out[HANDLER_CAUSE_SIZE])
{
	struct cause c = unpack(word);
	char room[64];
	const char *end = end_text(&c, room);

	switch (c.kind) {
	case UNRUNNABLE:
		unrunnable_text(&c, argv, out);
		break;
	case MUTE:
		snprintf(out, HANDLER_CAUSE_SIZE, "its handler ended before its first answer%s%s",
		    end == NULL ? "" : ", with ", end == NULL ? "" : end);
		break;
	case IDLE:
		snprintf(out, HANDLER_CAUSE_SIZE, "its handler ended while it had no message%s%s",
		    end == NULL ? "" : ", with ", end == NULL ? "" : end);
		break;
	case UNREADY:
		snprintf(out, HANDLER_CAUSE_SIZE, "its handler %s%s%s", c.how == TIMED_OUT
		    ? "was not ready within start_timeout" : "ended before it was ready",
		    end == NULL || c.how == TIMED_OUT ? "" : ", with ", end == NULL || c.how == TIMED_OUT ? "" : end);
		break;
	case FAILURES:
		snprintf(out, HANDLER_CAUSE_SIZE, "%u different messages failed in a row, the last one with %s",
		    c.messages, end == NULL ? "a reply" : end);
		break;
	default:
		strlcpy(out, "its handler cannot be executed, or failed too often in a row", HANDLER_CAUSE_SIZE);
	}
	return out;
}

bool handler_cause_has_words(uint64_t word)
{
	struct cause c = unpack(word);

	return c.kind != NONE;
}

bool handler_cause_is_of_start(uint64_t word)
{
	struct cause c = unpack(word);

	return c.kind == UNRUNNABLE || c.kind == UNREADY || c.kind == IDLE;
}

const char *handler_cause_label(uint64_t word, char out[HANDLER_CAUSE_SIZE])
{
	struct cause c = unpack(word);

	if (c.kind == UNRUNNABLE)
		snprintf(out, HANDLER_CAUSE_SIZE, "%s: %s", stage_name(&c), strerror((int)c.error));
	else
		strlcpy(out, c.kind == MUTE || c.kind == IDLE ? "no answer" : c.kind == UNREADY ? "not ready"
		    : c.kind == FAILURES ? "failures" : "unknown", HANDLER_CAUSE_SIZE);
	return out;
}
