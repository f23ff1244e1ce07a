/*
 * Parses the lines with which a handler replies. Pure. OK and BEAT allow nothing after the token.
 *
 * Bytes follow an EMIT. A reader that does not know such a verb would take its bytes for lines. Therefore a line that
 * looks like a verb and is none is a result of its own.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <bsd/string.h>

#include "common/handler/reply.h"

#include "common/base/base.h"

#define DELAY_MAX_MS (INT64_C(365) * 24 * 3600 * 1000)
#define HOLD_DEFAULT_MS (30 * 1000)
#define HOLD_MIN_MS 100			/* a handler that always asks must not keep its worker busy */
#define HOLD_MAX_MS (24 * 60 * 60 * 1000)
#define CLASS_IS "class="
#define SIGNAL_IS "signal="
#define CODE_IS "exit_code="
#define EMIT_DELAY_IS "delay="
#define VERB_MAX 16		/* bytes of the longest word that looks like a verb */

/* A verb and its token may have these arguments, in this order. */
enum { ARGUMENT_PERCENT = 1, ARGUMENT_DELAY = 2, ARGUMENT_CLASS = 4, ARGUMENT_END = 8, ARGUMENT_REASON = 16,
	ARGUMENT_EMISSION = 32 };

static const struct verb {
	size_t len;
	bool exec;		/* exec handlers have it, too */
	unsigned arguments;
} verbs[VERBS] = {
	[VERB_OK] = { 2, false, 0 },
	[VERB_RETRY] = { 5, true, ARGUMENT_DELAY | ARGUMENT_CLASS | ARGUMENT_REASON },
	[VERB_FAIL] = { 4, true, ARGUMENT_CLASS | ARGUMENT_END | ARGUMENT_REASON },
	[VERB_REJECT] = { 6, true, ARGUMENT_CLASS | ARGUMENT_REASON },
	[VERB_HOLD] = { 4, true, ARGUMENT_DELAY | ARGUMENT_REASON },
	[VERB_BEAT] = { 4, true, 0 },
	[VERB_PROGRESS] = { 8, true, ARGUMENT_PERCENT | ARGUMENT_REASON },
	[VERB_LOG] = { 3, false, ARGUMENT_REASON },
	[VERB_EMIT] = { 4, true, ARGUMENT_EMISSION },
};

const char *const handler_verb_names[VERBS] = {
	[VERB_OK] = "OK", [VERB_RETRY] = "RETRY", [VERB_FAIL] = "FAIL", [VERB_REJECT] = "REJECT", [VERB_HOLD] = "HOLD",
	[VERB_BEAT] = "BEAT", [VERB_PROGRESS] = "PROGRESS", [VERB_LOG] = "LOG",
	[VERB_EMIT] = "EMIT",
};

static bool has_verb(const struct conf_queue *conf, enum handler_verb verb)
{
	return (conf->mode == CONF_MODE_PERSISTENT || verbs[verb].exec) &&
	    (verb != VERB_EMIT || conf->emit.targets != NULL);
}

static bool parse_digits(const char **at, const char *end, uint64_t *n)
{
	const char *p = *at;

	for (*n = 0; p < end && *p >= '0' && *p <= '9'; p++)
		if (__builtin_mul_overflow(*n, 10u, n) || __builtin_add_overflow(*n, (uint64_t)(*p - '0'), n))
			return false;
	if (p == *at)
		return false;
	*at = p;
	return true;
}

static bool is_digits(const char *word, size_t len)
{
	size_t n = 0;

	while (n < len && word[n] >= '0' && word[n] <= '9')
		n++;
	return n == len && len > 0;
}

static int64_t capped(uint64_t n, uint64_t unit_ms)
{
	return n > (uint64_t)DELAY_MAX_MS / unit_ms ? DELAY_MAX_MS : (int64_t)(n * unit_ms);
}

/* -1: the word is not a delay, so it begins the reason. */
static int64_t parse_delay(const char *word, size_t len)
{
	const char *at = word;
	char text[UNITS_SIZE];
	uint64_t seconds;
	int64_t ms;

	if (parse_digits(&at, word + len, &seconds) && at == word + len)
		return capped(seconds, 1000);
	if (is_digits(word, len))		/* more than a number holds */
		return DELAY_MAX_MS;
	if (len >= sizeof(text))
		return -1;
	memcpy(text, word, len);
	text[len] = '\0';
	if (strlen(text) != len || units_parse_duration(text, &ms) == -1)
		return -1;
	return capped((uint64_t)ms, 1);
}

static const char *skip_blanks(const char *at, const char *end)
{
	while (at < end && *at == ' ')
		at++;
	return at;
}

/* False: there is none. "40" and "40%" are the same. */
static bool take_percent(struct handler_reply *out, const char **at, const char *end)
{
	const char *p = *at;
	uint64_t n;

	if (!parse_digits(&p, end, &n) || n > 100)
		return false;
	if (p < end && *p == '%')
		p++;
	if (p < end && *p != ' ')
		return false;
	out->percent = (int)n;
	*at = skip_blanks(p, end);
	return true;
}

static const char *end_of_word(const char *at, const char *end)
{
	const char *space = memchr(at, ' ', (size_t)(end - at));

	return space == NULL ? end : space;
}

/* Returns the length of the value if the next word is KEY=VALUE with this key; 0: it is another word. */
static size_t value_of(const char *key, const char *at, const char *end, const char **value)
{
	const char *word_end = end_of_word(at, end);

	*value = at + strlen(key);
	return word_end <= *value || memcmp(at, key, strlen(key)) != 0 ? 0 : (size_t)(word_end - *value);
}

/* A class of another form stays in the reason, where an operator sees it. */
static void take_class(struct handler_reply *out, const char **at, const char *end)
{
	const char *name;
	size_t len = value_of(CLASS_IS, *at, end, &name);

	if (len == 0 || !identifier_is(IDENTIFIER_CLASS, name, len))
		return;
	out->class = name;
	out->class_len = len;
	*at = skip_blanks(name + len, end);
}

/* How the process of this one message ended, which only the handler has seen. */
static void take_end(struct handler_reply *out, const char **at, const char *end)
{
	const char *value;
	size_t len = value_of(SIGNAL_IS, *at, end, &value);
	uint64_t code;

	out->code = -1;
	out->signal = len > 0 ? process_signal_number(value, len) : 0;
	if (len == 0 && (len = value_of(CODE_IS, *at, end, &value)) > 0 && is_digits(value, len)) {
		const char *p = value;

		out->code = parse_digits(&p, value + len, &code) && code <= 255 ? (int)code : -1;
	}
	out->ended = out->signal != 0 || out->code != -1;
	if (out->ended)
		*at = skip_blanks(value + len, end);
}

static void take_delay(struct handler_reply *out, const char **at, const char *end)
{
	const char *word_end = end_of_word(*at, end);

	out->delay_ms = parse_delay(*at, (size_t)(word_end - *at));
	if (out->delay_ms != -1)
		*at = skip_blanks(word_end, end);
}

/* "QUEUE LENGTH [delay=30s]". */
static bool parse_emission(struct handler_reply *out, const char *at, const char *end)
{
	const char *word_end = end_of_word(at, end), *value;
	uint64_t length;
	size_t len;

	out->queue = at;
	out->queue_len = (size_t)(word_end - at);
	at = skip_blanks(word_end, end);
	if (out->queue_len == 0 || !parse_digits(&at, end, &length) || length > CONF_EMIT_BYTES_MAX)
		return false;
	out->length = (int64_t)length;
	if (at == end)
		return true;
	if (*at != ' ')
		return false;
	at = skip_blanks(at, end);
	len = value_of(EMIT_DELAY_IS, at, end, &value);
	out->delay_ms = len == 0 ? -1 : parse_delay(value, len);
	return out->delay_ms != -1 && value + len == end;
}

static void take_emission(struct handler_reply *out, const char *at, const char *end)
{
	if (!parse_emission(out, at, end))
		out->length = -1;
}

/* The length of the word at the beginning of a line; 0: it is no word that a verb may be. */
static size_t word_length(const char *line, size_t len)
{
	size_t n = 0;

	while (n < len && n <= VERB_MAX && line[n] >= 'A' && line[n] <= 'Z')
		n++;
	return n < 2 || n > VERB_MAX || (n < len && line[n] != ' ') ? 0 : n;
}

/* Returns the length of the word, as above; *verb is VERBS if it is none of this queue. Most lines are OK. */
static size_t find_verb(const struct conf_queue *conf, const char *line, size_t len, enum handler_verb *verb)
{
	size_t word;

	*verb = VERB_OK;
	if (conf->mode == CONF_MODE_PERSISTENT && len > 3 && memcmp(line, "OK ", 3) == 0)
		return 2;
	word = word_length(line, len);
	while (*verb < VERBS && (word != verbs[*verb].len || memcmp(line, handler_verb_names[*verb], word) != 0 ||
	    !has_verb(conf, *verb)))
		++*verb;
	return word;
}

/*
 * In persistent mode: one blank and a token, as the whole rest of the line or before another blank. Its bytes are not
 * looked at: only the token of a job that the handler has is an answer.
 */
static bool take_token(enum conf_mode mode, const char **at, const char *end, const char **token)
{
	*token = NULL;
	if (mode == CONF_MODE_EXEC)
		return true;
	if (end - *at < 1 + HANDLER_TOKEN_LEN || **at != ' ')
		return false;
	*token = *at + 1;
	*at += 1 + HANDLER_TOKEN_LEN;
	return *at == end || **at == ' ';
}

static void take_arguments(struct handler_reply *out, const char *at, const char *end)
{
	unsigned arguments = verbs[out->verb].arguments;

	out->delay_ms = -1;
	if ((arguments & ARGUMENT_DELAY) != 0 && at < end)
		take_delay(out, &at, end);
	out->class_len = 0;
	if ((arguments & ARGUMENT_CLASS) != 0 && at < end)
		take_class(out, &at, end);
	out->ended = false;
	if ((arguments & ARGUMENT_END) != 0 && out->token != NULL && out->class_len == 0 && at < end)
		take_end(out, &at, end);
	out->emitted = NULL;
	if ((arguments & ARGUMENT_EMISSION) != 0)
		take_emission(out, at, end);
	out->reason = at;
	out->reason_len = (size_t)(end - at);
}

enum handler_line handler_reply_parse(struct handler_reply *out, const struct conf_queue *conf, const char *line,
    size_t len)
{
	enum conf_mode mode = conf->mode;
	const char *at = line, *end = line + len;
	size_t word;

	while (end > line && (end[-1] == ' ' || end[-1] == '\r'))
		end--;
	if (mode == CONF_MODE_PERSISTENT && end - line == 5 && memcmp(line, "READY", 5) == 0)
		return HANDLER_LINE_READY;
	word = find_verb(conf, line, (size_t)(end - line), &out->verb);
	at += word;
	if (word == 0 || !take_token(mode, &at, end, &out->token))
		return HANDLER_LINE_OUTPUT;
	if (out->verb == VERBS)
		return HANDLER_LINE_UNKNOWN;
	at = out->verb == VERB_LOG ? at + (at < end) : skip_blanks(at, end);	/* a line of a log may be indented */
	if (at < end && verbs[out->verb].arguments == 0)
		return HANDLER_LINE_OUTPUT;
	if ((verbs[out->verb].arguments & ARGUMENT_PERCENT) != 0 && !take_percent(out, &at, end))
		return HANDLER_LINE_OUTPUT;
	take_arguments(out, at, end);
	return HANDLER_LINE_REPLY;
}

void handler_reply_unknown(struct handler_reply *out, const struct conf_queue *conf, const char *line, size_t len,
    char *reason)
{
	char text[101], word[VERB_MAX + 1];
	const char *names[VERBS], *near;
	size_t n = 0;
	int written;

	for (int v = 0; v < VERBS; v++)
		if (has_verb(conf, (enum handler_verb)v))
			names[n++] = handler_verb_names[v];
	snprintf(text, sizeof(text), "%.*s", (int)len, line);
	snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, " "), text);
	near = nearest(word, names, n);
	written = strcmp(word, handler_verb_names[VERB_EMIT]) == 0 ? snprintf(reason, HANDLER_REASON_SHOWN,
	    "EMIT: this queue may not emit: set emit.queues in its configuration: %s", text)
	    : snprintf(reason, HANDLER_REASON_SHOWN, "unknown verb: expected %s%s%s%s%s: %s",
	    conf->emit.targets != NULL ? "EMIT, " : "", conf->mode == CONF_MODE_PERSISTENT
	    ? "OK, RETRY, FAIL, REJECT, HOLD, BEAT, PROGRESS or LOG" : "RETRY, FAIL, REJECT, HOLD, BEAT or PROGRESS",
	    near == NULL ? "" : " (did you mean ", near == NULL ? "" : near, near == NULL ? "" : "?)", text);
	out->verb = VERB_FAIL;
	out->delay_ms = -1;
	out->class_len = 0;
	out->ended = false;
	out->emitted = NULL;
	out->reason = reason;
	out->reason_len = written >= HANDLER_REASON_SHOWN ? HANDLER_REASON_SHOWN - 1 : (size_t)written;
}

bool handler_reply_is_like(const char *line, size_t len)
{
	size_t word = word_length(line, len), at = word + 1;

	while (at < len && line[at] >= '0' && line[at] <= '9')
		at++;
	return word > 0 && at > word + 1 && (at == len || line[at] == ' ' || line[at] == '\r');
}

const char *handler_reply_mistake(const char *line, size_t len)
{
	size_t word = 0;

	while (word < len && line[word] != ' ')
		word++;
	for (int v = 0; v < VERB_EMIT; v++) {		/* an EMIT is no answer */
		if (word != verbs[v].len || strncasecmp(line, handler_verb_names[v], word) != 0)
			continue;
		return memcmp(line, handler_verb_names[v], word) != 0 ? " (answers are in capitals)"
		    : " (it names no unanswered job, or is malformed)";
	}
	return "";
}

int64_t handler_hold_ms(int64_t delay_ms)
{
	if (delay_ms < 0)
		return HOLD_DEFAULT_MS;
	return delay_ms < HOLD_MIN_MS ? HOLD_MIN_MS : delay_ms > HOLD_MAX_MS ? HOLD_MAX_MS : delay_ms;
}

void handler_reply_copy(struct handler_reply *to, const struct handler_reply *r, char *reason)
{
	*to = *r;
	to->reason_len = r->reason_len > HANDLER_REASON_SHOWN ? HANDLER_REASON_SHOWN : r->reason_len;
	memcpy(reason, r->reason, to->reason_len);
	to->reason = reason;
}

void handler_reply_describe(const struct handler_reply *r, char *out, size_t size)
{
	size_t len = r->reason_len > HANDLER_REASON_SHOWN ? HANDLER_REASON_SHOWN : r->reason_len, n;

	n = strlcpy(out, handler_verb_names[r->verb], size);
	if (len > 0)
		n = strlcat(out, ": ", size);
	for (size_t i = 0; i < len && n + 1 < size; i++)
		out[n++] = r->reason[i] == '\0' ? '?' : r->reason[i];
	out[n < size ? n : size - 1] = '\0';
}
