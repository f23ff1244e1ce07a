/*
 * Parses and writes the bytes of a message: the wrapper line of quredis, the header line of the producer, the payload.
 * The parser in message/line.c reads both lines. A line that it does not accept is payload, so no byte of a producer is
 * ever lost.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/message/message.h"

#include "common/base/base.h"
#include "common/message/line.h"

#define COUNT_MAX 1000000
#define VERIFIED_MAX 256	/* bytes of a line that is remembered: stamps are shorter */

static bool starts_with(const char *data, size_t len, const char *prefix)
{
	size_t n = strlen(prefix);

	return len >= n && memcmp(data, prefix, n) == 0;
}

static bool is_hex(const char *s)
{
	return s[strspn(s, "0123456789abcdef")] == '\0';
}

static int parse_nonce(const struct message_line *line, uint64_t *nonce)
{
	const char *value = line->pairs[0].value;

	if (strlen(value) != 16 || !is_hex(value))
		return -1;
	*nonce = strtoull(value, NULL, 16);
	return 0;
}

static int parse_memory(struct wrapper *w, const struct message_line *line)
{
	int64_t attempts = 0, crashes = 0, redelivered = 0, outages = 0, solo = 0, fresh = 0;

	if (message_line_number(line, "attempts", COUNT_MAX, &attempts) == -1 ||
	    message_line_number(line, "crashes", COUNT_MAX, &crashes) == -1 ||
	    message_line_number(line, "redelivered", COUNT_MAX, &redelivered) == -1 ||
	    message_line_number(line, "outages", COUNT_MAX, &outages) == -1 ||
	    message_line_number(line, "solo", 1, &solo) == -1 ||
	    message_line_number(line, "fresh", 1, &fresh) == -1 ||
	    message_line_number(line, "own", INT64_MAX, &w->own_ms) == -1 ||
	    message_line_number(line, "redriven", INT64_MAX, &w->redriven_ms) == -1 ||
	    message_line_number(line, "first_failed", INT64_MAX, &w->first_failed_ms) == -1)
		return -1;
	w->attempts = (int)attempts;
	w->crashes = (int)crashes;
	w->redelivered = (int)redelivered;
	w->outages = (int)outages;
	w->solo = solo != 0;
	w->fresh = fresh != 0;
	return 0;
}

/* The seal, which is the last pair. NULL: the line has none, or it has another form. */
static const struct message_pair *seal_of(const struct message_line *line)
{
	const struct message_pair *last = &line->pairs[line->npairs - 1];

	return strcmp(last->key, "mac") == 0 && strlen(last->value) == SEAL_MAC_HEX && is_hex(last->value) ? last
	    : NULL;
}

/*
 * data: the bytes from which the line was parsed. The seal covers the bytes and not the parsed pairs, so nothing can be
 * read in two ways. If own is the last key before the seal, Redis may have written both
 * (common/queue/scripts/stamp.lua), with the other kind of seal.
 */
static bool is_sealed(const struct message_line *line, const struct message_pair *mac, const char *data,
    const struct message_keys *keys)
{
	size_t end = message_line_offset(line, mac) - 1, own = message_line_offset(line, mac - 1) - 1;

	if (strcmp(mac[-1].key, "own") == 0 &&
	    seal_claim_holds(keys->secrets, keys->queue, data, own, data + own, end - own, mac->value))
		return true;
	return seal_line_holds(keys->secrets, keys->queue, data, end, mac->value);
}

/* data: as above. LINE_UNKNOWN: the line has exactly the form that message_wrapper() writes, and no known secret
 * verifies it. */
enum line_kind { LINE_OTHER, LINE_OURS, LINE_UNKNOWN };
static enum line_kind parse_wrapper(struct wrapper *w, const struct message_line *line, const char *data,
    const struct message_keys *keys)
{
	const struct message_pair *mac;

	*w = (struct wrapper){0};
	if (line->len == 0 || line->npairs == 0 || strcmp(line->pairs[0].key, "w") != 0 ||
	    (mac = seal_of(line)) == NULL)
		return LINE_OTHER;
	if (parse_nonce(line, &w->nonce) == -1 || parse_memory(w, line) == -1)
		return LINE_OTHER;
	message_failure_parse(&w->failure, line);
	message_schedule_parse(&w->schedule, line);
	message_lineage_parse(&w->lineage, line);
	return is_sealed(line, mac, data, keys) ? LINE_OURS : LINE_UNKNOWN;
}

int message_recall(struct wrapper *w, const char *text, size_t len)
{
	struct message_line line;

	*w = (struct wrapper){0};
	if (message_line_parse_pairs(&line, text, len) == 0 && parse_memory(w, &line) == 0)
		return 0;
	*w = (struct wrapper){0};
	return -1;
}

static int copy_id(const struct message_line *line, const char *key, char out[MESSAGE_ID_MAX + 1])
{
	const char *value = message_line_value(line, key);

	if (value == NULL)
		return 0;
	if (!identifier_is(IDENTIFIER_ID, value, strlen(value)))
		return -1;
	strlcpy(out, value, MESSAGE_ID_MAX + 1);
	return 0;
}

/* Ignores unknown keys, which belong to the producer. */
static int parse_header(struct message *m, const struct message_line *line)
{
	int64_t max_attempts = -1;

	if (line->len == 0 || (line->npairs > 0 && strcmp(line->pairs[0].key, "w") == 0))
		return -1;
	if (copy_id(line, "id", m->id) == -1 || copy_id(line, "request_id", m->request_id) == -1 ||
	    message_line_duration(line, "ttl", &m->ttl_ms) == -1 ||
	    message_line_duration(line, "timeout", &m->timeout_ms) == -1 ||
	    message_line_number(line, "enqueued", INT64_MAX, &m->enqueued_ms) == -1 ||
	    message_line_number(line, "max_attempts", 1000000, &max_attempts) == -1 || max_attempts == 0)
		return -1;
	m->max_attempts = (int)max_attempts;
	message_traceparent_parse(m->traceparent, line, "traceparent");
	return 0;
}

static void forget_header(struct message *m)
{
	m->id[0] = m->request_id[0] = m->traceparent[0] = '\0';
	m->ttl_ms = m->enqueued_ms = m->timeout_ms = m->max_attempts = -1;
}

/* True: the line is of a later version, such as "quredis/2 ...". */
static bool other_version(const char *data, size_t len)
{
	size_t at = strlen(MESSAGE_MAGIC), digits = 0;

	if (!starts_with(data, len, MESSAGE_MAGIC))
		return false;
	while (at + digits < len && data[at + digits] >= '0' && data[at + digits] <= '9')
		digits++;
	if (digits == 0 || digits > 6 || at + digits >= len || data[at + digits] != ' ')
		return false;
	return memchr(data, '\n', len < MESSAGE_LINE_MAX ? len : MESSAGE_LINE_MAX) != NULL &&
	       !(digits == 1 && data[at] == '1');
}

/*
 * The wrapper that was verified last. Redis stamps all messages of one call with the same line, so most lines need not
 * be verified again, which would cost a worker more than all its other work for a small message. A line with a valid
 * seal keeps it.
 */
static struct {
	const struct seal_secrets *secrets;
	char queue[256];
	size_t len;			/* of data; 0: none */
	char data[VERIFIED_MAX];
	struct wrapper wrapper;
} verified;

static void remember_verified(const struct message *m, const struct message_keys *keys)
{
	verified.len = 0;
	if (m->wrapper_len > sizeof(verified.data) ||
	    strlcpy(verified.queue, keys->queue, sizeof(verified.queue)) >= sizeof(verified.queue))
		return;
	memcpy(verified.data, m->raw, m->wrapper_len);
	verified.secrets = keys->secrets;
	verified.wrapper = m->wrapper;
	verified.len = m->wrapper_len;
}

static bool is_verified(const struct message *m, const struct message_keys *keys)
{
	return verified.len > 0 && m->raw_len >= verified.len && memcmp(m->raw, verified.data, verified.len) == 0 &&
	       verified.secrets == keys->secrets && strcmp(verified.queue, keys->queue) == 0;
}

static int add_count(int a, int b)
{
	return a + b > COUNT_MAX ? COUNT_MAX : a + b;
}

/* w: of the lines before this one. What a line says of the present counts where it stands first; what the lines counted
 * is added up. */
static void merge_wrapper(struct wrapper *w, const struct wrapper *inner)
{
	w->attempts = add_count(w->attempts, inner->attempts);
	w->crashes = add_count(w->crashes, inner->crashes);
	w->redelivered = add_count(w->redelivered, inner->redelivered);
	w->outages = add_count(w->outages, inner->outages);
	w->solo = w->solo || inner->solo;
	w->fresh = w->fresh || inner->fresh;
	w->own_ms = w->own_ms != 0 ? w->own_ms : inner->own_ms;
	w->redriven_ms = w->redriven_ms != 0 ? w->redriven_ms : inner->redriven_ms;
	w->first_failed_ms = inner->first_failed_ms != 0 ? inner->first_failed_ms : w->first_failed_ms;
	w->failure = w->failure.at_ms != 0 ? w->failure : inner->failure;
	w->schedule = w->schedule.name[0] != '\0' ? w->schedule : inner->schedule;
	w->lineage = w->lineage.depth > 0 ? w->lineage : inner->lineage;
}

static void read_first_wrapper(struct message *m, const struct message_keys *keys)
{
	struct message_line line;
	enum line_kind kind;

	if (is_verified(m, keys)) {
		m->wrapper = verified.wrapper;
		m->wrapper_len = verified.len;
		return;
	}
	message_line_parse(&line, m->raw, m->raw_len);
	kind = parse_wrapper(&m->wrapper, &line, m->raw, keys);
	m->doubtful = kind == LINE_UNKNOWN;
	if (kind == LINE_OURS) {
		m->wrapper_len = line.len;
		remember_verified(m, keys);
	} else {
		m->wrapper = (struct wrapper){0};
	}
}

/*
 * A process writes its line before a line that it cannot verify, because it does not know the secret yet, and so before
 * a line that a producer forged. Once the secret is there, all of them are the wrapper.
 */
static void read_more_wrappers(struct message *m, const struct message_keys *keys)
{
	enum line_kind kind = LINE_OURS;

	while (kind == LINE_OURS && message_may_be_wrapped(m->raw + m->wrapper_len, m->raw_len - m->wrapper_len)) {
		const char *at = m->raw + m->wrapper_len;
		struct message_line line;
		struct wrapper inner;

		message_line_parse(&line, at, m->raw_len - m->wrapper_len);
		kind = parse_wrapper(&inner, &line, at, keys);
		m->doubtful = kind == LINE_UNKNOWN;
		if (kind != LINE_OURS)
			return;
		merge_wrapper(&m->wrapper, &inner);
		m->wrapper_len += line.len;
	}
}

static void read_wrapper(struct message *m, const struct message_keys *keys)
{
	read_first_wrapper(m, keys);
	if (m->wrapper_len > 0)
		read_more_wrappers(m, keys);
}

/* Most messages have no header, and return early. */
static void parse_lines(struct message *m, const struct message_keys *keys)
{
	struct message_line line;

	read_wrapper(m, keys);
	if (!keys->headers || !starts_with(m->raw + m->wrapper_len, m->raw_len - m->wrapper_len, MESSAGE_MAGIC))
		return;
	message_line_parse(&line, m->raw + m->wrapper_len, m->raw_len - m->wrapper_len);
	if (parse_header(m, &line) == 0)
		m->header_len = line.len;
	else
		forget_header(m);
	m->unknown_version = other_version(m->raw + m->wrapper_len, m->raw_len - m->wrapper_len);
}

void message_parse(struct message *m, const struct message_keys *keys, const char *raw, size_t len)
{
	m->raw = raw;
	m->raw_len = len;
	m->wrapper_len = m->header_len = 0;
	m->wrapper = (struct wrapper){0};
	m->doubtful = m->unknown_version = false;
	m->sha1[0] = '\0';
	m->sha1_memo = NULL;
	forget_header(m);
	if (starts_with(raw, len, MESSAGE_MAGIC))
		parse_lines(m, keys);
}

const char *message_id(struct message *m)
{
	if (m->id[0] == '\0') {
		char *sha1 = put_text(m->id, "sha1:");

		if (m->header_len == 0)
			message_digest(m, sha1);
		else
			encode_sha1(message_payload(m), message_payload_len(m), sha1);
	}
	return m->id;
}

static void append_number(struct buffer *out, const char *key, int64_t value)
{
	if (value > 0)
		buffer_format(out, " %s=%" PRId64, key, value);
}

/* Writes only values that the parser accepts: otherwise the line would become part of the payload. */
static void append_count(struct buffer *out, const char *key, int count)
{
	append_number(out, key, count > COUNT_MAX ? COUNT_MAX : count);
}

static void append_memory(struct buffer *out, const struct wrapper *w)
{
	append_count(out, "attempts", w->attempts);
	append_count(out, "crashes", w->crashes);
	append_count(out, "redelivered", w->redelivered);
	append_count(out, "outages", w->outages);
	append_number(out, "solo", w->solo);
	append_number(out, "fresh", w->fresh);
	append_number(out, "own", w->own_ms);
	append_number(out, "redriven", w->redriven_ms);
	append_number(out, "first_failed", w->first_failed_ms);
}

/* Appends a wrapper without its seal. */
static void append_wrapper(struct buffer *out, const struct wrapper *w)
{
	uint64_t nonce;

	arc4random_buf(&nonce, sizeof(nonce));
	buffer_format(out, MESSAGE_VERSION " w=%016" PRIx64, nonce);
	append_memory(out, w);
	if (w->lineage.depth == 0)
		message_schedule_append(out, &w->schedule);
	message_lineage_append(out, &w->lineage);
	message_failure_append(out, &w->failure);
	append_number(out, "apart", w->apart);
}

void message_wrapper(struct buffer *out, const struct message_keys *keys, const struct wrapper *w)
{
	char mac[SEAL_MAC_HEX + 1];
	size_t start = out->len;

	append_wrapper(out, w);
	seal_line(mac, keys->secrets, keys->queue, out->data + start, out->len - start);
	buffer_format(out, " mac=%s\n", mac);
}

void message_wrap(struct buffer *out, const struct message_keys *keys, const struct message *m, const struct wrapper *w)
{
	message_wrapper(out, keys, w);
	buffer_append(out, m->raw + m->wrapper_len, m->raw_len - m->wrapper_len);
}

void message_stamp(struct message_stamp *stamp, const struct message_keys *keys, const struct wrapper *w)
{
	struct wrapper timeless = *w;
	struct buffer line = {0};

	timeless.own_ms = 0;
	append_wrapper(&line, &timeless);
	seal_key(stamp->key, keys->secrets, keys->queue, line.data, line.len);
	buffer_append(&line, "", 1);
	strlcpy(stamp->line, line.data, sizeof(stamp->line));
	buffer_free(&line);
}

const char *message_memory(const struct wrapper *w, char out[MESSAGE_MEMORY_SIZE])
{
	struct buffer text = {0};

	append_memory(&text, w);
	buffer_append(&text, "", 1);
	strlcpy(out, text.data[0] == ' ' ? text.data + 1 : text.data, MESSAGE_MEMORY_SIZE);
	buffer_free(&text);
	return out;
}

static int append_id(struct buffer *out, const char *key, const char *value)
{
	if (value == NULL)
		return 0;
	if (!identifier_is(IDENTIFIER_ID, value, strlen(value)))
		return -1;
	buffer_format(out, " %s=%s", key, value);
	return 0;
}

static void append_duration(struct buffer *out, const char *key, int64_t ms)
{
	char text[UNITS_SIZE];

	if (ms >= 0)
		buffer_format(out, " %s=%s", key, units_format_duration(ms, text));
}

int message_header(struct buffer *out, const char *id, const char *request_id, int64_t ttl_ms, int64_t enqueued_ms,
    int64_t timeout_ms, int max_attempts)
{
	buffer_format(out, MESSAGE_VERSION);
	if (append_id(out, "id", id) == -1 || append_id(out, "request_id", request_id) == -1)
		return -1;
	append_duration(out, "ttl", ttl_ms);
	append_number(out, "enqueued", enqueued_ms);
	append_duration(out, "timeout", timeout_ms);
	append_number(out, "max_attempts", max_attempts);
	buffer_append(out, "\n", 1);
	return 0;
}

void message_digest(const struct message *m, char out[ENCODE_SHA1_SIZE])
{
	char *memo = m->sha1_memo;

	if (m->sha1[0] != '\0') {
		memcpy(out, m->sha1, ENCODE_SHA1_SIZE);
	} else if (memo != NULL && memo[0] != '\0') {
		memcpy(out, memo, ENCODE_SHA1_SIZE);
	} else {
		encode_sha1(m->raw + m->wrapper_len, m->raw_len - m->wrapper_len, out);
		if (memo != NULL)
			memcpy(memo, out, ENCODE_SHA1_SIZE);
	}
}
