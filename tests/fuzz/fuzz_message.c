/* links: tests/fuzz/input.c */
/*
 * The lines in front of a message: whatever bytes lie in a list, taking our wrapper off and putting one on
 * changes no byte of the producer's, and what is remembered is read again as it was written.
 */
#include <string.h>

#include "tests/fuzz/input.h"

#include "common/base/buffer.h"
#include "common/base/encode.h"
#include "common/message/message.h"
#include "tests/unit/sealed.h"

#define COUNT_MAX 1000000	/* what a line of ours can hold */

static struct message_keys keys;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	keys = sealed_learn("ingress:mail");
	return 0;
}

static bool same_bytes(const void *a, size_t a_len, const void *b, size_t b_len)
{
	return a_len == b_len && (a_len == 0 || memcmp(a, b, a_len) == 0);
}

static void check_parts(struct message *m)
{
	size_t lines = m->wrapper_len + m->header_len;

	FUZZ_ASSERT(lines <= m->raw_len && message_payload(m) == m->raw + lines);
	FUZZ_ASSERT(m->header_len <= MESSAGE_LINE_MAX);
	FUZZ_ASSERT(m->wrapper_len == 0 || (memcmp(m->raw, "quredis/1 w=", 12) == 0 && m->raw[m->wrapper_len - 1] == '\n'));
	FUZZ_ASSERT(m->header_len == 0 || (memcmp(m->raw + m->wrapper_len, "quredis/1 ", 10) == 0 && m->raw[lines - 1] == '\n'));
	FUZZ_ASSERT(!m->unknown_version || m->header_len == 0);
	FUZZ_ASSERT(m->wrapper_len > 0 || (m->wrapper.nonce == 0 && m->wrapper.attempts == 0 && !m->wrapper.solo));
	FUZZ_ASSERT(m->wrapper.attempts >= 0 && m->wrapper.attempts <= COUNT_MAX && m->wrapper.crashes >= 0 &&
	    m->wrapper.crashes <= COUNT_MAX && m->wrapper.redelivered >= 0 && m->wrapper.redelivered <= COUNT_MAX);
	FUZZ_ASSERT(m->wrapper.own_ms >= 0 && m->wrapper.redriven_ms >= 0 && m->wrapper.first_failed_ms >= 0);
	FUZZ_ASSERT(m->ttl_ms >= -1 && m->enqueued_ms >= -1 && m->timeout_ms >= -1);
	FUZZ_ASSERT(m->max_attempts == -1 || m->max_attempts > 0);
	FUZZ_ASSERT(m->header_len > 0 || (m->id[0] == '\0' && m->ttl_ms == -1 && m->max_attempts == -1));
}

static void check_id(struct message *m)
{
	bool given = m->id[0] != '\0';
	char id[sizeof(m->id)], sha1[ENCODE_SHA1_SIZE];

	strcpy(id, m->id);
	encode_sha1(message_payload(m), message_payload_len(m), sha1);
	FUZZ_ASSERT(given ? strcmp(message_id(m), id) == 0 : strncmp(message_id(m), "sha1:", 5) == 0);
	FUZZ_ASSERT(given || strcmp(message_id(m) + 5, sha1) == 0);
	FUZZ_ASSERT(strlen(message_id(m)) <= MESSAGE_ID_MAX);
}

static int capped(int count)
{
	return count < 0 ? 0 : count > COUNT_MAX ? COUNT_MAX : count;
}

static int64_t natural(int64_t n)
{
	return n < 0 ? 0 : n;
}

static struct wrapper any_wrapper(struct input *in)
{
	struct wrapper w = { .attempts = (int)input_number(in), .crashes = (int)input_number(in),
		.redelivered = (int)input_number(in), .solo = input_byte(in) & 1, .own_ms = input_number(in),
		.first_failed_ms = input_number(in) };
	char *class = input_text(in), *signal = input_text(in), *text = input_text(in);

	message_failure_set(&w.failure, input_number(in), class, (int)input_number(in), signal, text);
	free(class);
	free(signal);
	free(text);
	return w;
}

static bool same_failure(const struct message_failure *a, const struct message_failure *b)
{
	return a->at_ms <= 0 ? b->at_ms == 0 : a->at_ms == b->at_ms && a->exit_code == b->exit_code && strcmp(a->class, b->class) == 0 &&
	    strcmp(a->signal, b->signal) == 0 && strcmp(a->text, b->text) == 0;
}

/* Behind `w`, all of the producer's is there, byte for byte, and says the same. */
static void check_wrapped(const struct message *m, const struct wrapper *w)
{
	struct buffer out = {0};
	struct message again;

	message_wrap(&out, &keys, m, w);
	message_parse(&again, &keys, out.data, out.len);
	check_parts(&again);
	FUZZ_ASSERT(again.wrapper_len > 0 && again.doubtful == m->doubtful);
	FUZZ_ASSERT(same_bytes(again.raw + again.wrapper_len, again.raw_len - again.wrapper_len, m->raw + m->wrapper_len,
	    m->raw_len - m->wrapper_len));
	FUZZ_ASSERT(again.wrapper.attempts == capped(w->attempts) && again.wrapper.crashes == capped(w->crashes) &&
	    again.wrapper.redelivered == capped(w->redelivered) && again.wrapper.solo == w->solo);
	FUZZ_ASSERT(again.wrapper.own_ms == natural(w->own_ms) && again.wrapper.redriven_ms == natural(w->redriven_ms) &&
	    again.wrapper.first_failed_ms == natural(w->first_failed_ms));
	FUZZ_ASSERT(same_failure(&w->failure, &again.wrapper.failure));
	FUZZ_ASSERT(again.header_len == m->header_len && again.unknown_version == m->unknown_version);
	FUZZ_ASSERT(strcmp(again.id, m->id) == 0 && strcmp(again.request_id, m->request_id) == 0);
	FUZZ_ASSERT(again.ttl_ms == m->ttl_ms && again.enqueued_ms == m->enqueued_ms && again.timeout_ms == m->timeout_ms &&
	    again.max_attempts == m->max_attempts);
	buffer_free(&out);
}

/* The same line with the seal that a fuzzer cannot guess: whatever it says is read, or all of it is payload. */
static void check_sealed(const char *raw, size_t len)
{
	struct buffer sealed = {0};
	struct message m;
	char *copy;

	if (len < 13 || memcmp(raw, "quredis/1 w=", 12) != 0 || memchr(raw, '\n', len) == NULL)
		return;
	sealed_append(&sealed, &keys, raw, len);
	copy = malloc(sealed.len);
	memcpy(copy, sealed.data, sealed.len);
	message_parse(&m, &keys, copy, sealed.len);
	check_parts(&m);
	check_wrapped(&m, &m.wrapper);
	FUZZ_ASSERT(m.wrapper_len > 0 || m.wrapper.own_ms == 0);
	buffer_free(&sealed);
	free(copy);
}

/* A header that we write, for quredis push, is read as it was meant, or refused. */
static void check_header(struct input *in)
{
	char *id = input_text(in), *request_id = input_text(in);
	int64_t ttl = input_number(in), enqueued = input_number(in), timeout = input_number(in);
	int max_attempts = (int)(input_number(in) % COUNT_MAX);
	struct buffer out = {0};
	struct message m;

	if (message_header(&out, id[0] == '\0' ? NULL : id, request_id[0] == '\0' ? NULL : request_id, ttl, enqueued, timeout,
	    max_attempts) == 0 && out.len > strlen("quredis/1\n") && out.len <= MESSAGE_LINE_MAX) {
		buffer_append(&out, "payload", 7);
		message_parse(&m, &keys, out.data, out.len);
		FUZZ_ASSERT(message_payload_len(&m) == 7 && m.wrapper_len == 0);
		FUZZ_ASSERT(strcmp(m.id, id) == 0 && strcmp(m.request_id, request_id) == 0);
		FUZZ_ASSERT(m.ttl_ms == (ttl < 0 ? -1 : ttl) && m.timeout_ms == (timeout < 0 ? -1 : timeout));
		FUZZ_ASSERT(m.enqueued_ms == (enqueued <= 0 ? -1 : enqueued));
		FUZZ_ASSERT(m.max_attempts == (max_attempts <= 0 ? -1 : max_attempts));
	}
	buffer_free(&out);
	free(id);
	free(request_id);
}

/* First the message, up to a 0xff that no text has; then what is to be remembered of it, and a header. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size == 0 ? NULL : memchr(data, 0xff, size);
	size_t len = end == NULL ? size : (size_t)(end - data);
	struct input in = { end == NULL ? data + size : end + 1, end == NULL ? 0 : size - len - 1 };
	char *raw = malloc(len);	/* of exactly its size: what reads on is seen */
	struct wrapper w = any_wrapper(&in);
	struct message m;

	if (len > 0)
		memcpy(raw, data, len);
	message_parse(&m, &keys, raw, len);
	check_parts(&m);
	FUZZ_ASSERT(m.wrapper_len == 0 || memmem(raw, m.wrapper_len, " mac=", 5) != NULL);
	check_sealed(raw, len);
	check_wrapped(&m, &w);
	check_wrapped(&m, &m.wrapper);
	check_id(&m);
	check_header(&in);
	free(raw);
	return 0;
}
