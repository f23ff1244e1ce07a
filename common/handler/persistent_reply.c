/*
 * Parses the lines with which a handler answers. Pure. OK and BEAT allow nothing after the serial, so that output like "OK 200
 * requests served" acknowledges no message.
 */
#include <string.h>

#include "common/handler/persistent_reply.h"

#include "common/base/base.h"

#define DELAY_MAX_MS (INT64_C(365) * 24 * 3600 * 1000)

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

static bool parse_verdict(const char **at, const char *end, enum persistent_verdict *verdict)
{
	static const struct {
		const char *word;
		size_t len;
	} words[] = {
		[PERSISTENT_OK] = { "OK ", 3 }, [PERSISTENT_RETRY] = { "RETRY ", 6 },
		[PERSISTENT_FAIL] = { "FAIL ", 5 }, [PERSISTENT_BEAT] = { "BEAT ", 5 },
	};

	for (*verdict = PERSISTENT_OK; *verdict <= PERSISTENT_BEAT; ++*verdict) {
		if ((size_t)(end - *at) > words[*verdict].len && memcmp(*at, words[*verdict].word, words[*verdict].len) == 0) {
			*at += words[*verdict].len;
			return true;
		}
	}
	return false;
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

static void take_delay(struct persistent_reply *out, const char **at, const char *end)
{
	const char *space = memchr(*at, ' ', (size_t)(end - *at)), *word_end = space == NULL ? end : space;

	out->delay_ms = parse_delay(*at, (size_t)(word_end - *at));
	if (out->delay_ms != -1)
		*at = skip_blanks(word_end, end);
}

bool persistent_reply_parse(struct persistent_reply *out, const char *line, size_t len)
{
	const char *at = line, *end = line + len;

	if (!parse_verdict(&at, end, &out->verdict) || !parse_digits(&at, end, &out->serial))
		return false;
	while (end > at && (end[-1] == ' ' || end[-1] == '\r'))
		end--;
	if (at < end && (*at != ' ' || out->verdict == PERSISTENT_OK || out->verdict == PERSISTENT_BEAT))
		return false;
	at = skip_blanks(at, end);
	out->delay_ms = -1;
	if (out->verdict == PERSISTENT_RETRY && at < end)
		take_delay(out, &at, end);
	out->reason = at;
	out->reason_len = (size_t)(end - at);
	return true;
}
