/* What answers of a server are made of: values of RESP, and messages of every kind. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/fuzz/fake_values.h"

#include "common/base/nitems.h"
#include "tests/unit/sealed.h"

static struct input *input;
static unsigned messages;

void fake_values_begin(struct input *in)
{
	input = in;
	messages = 0;
}

void fake_integer(struct buffer *out, int64_t n)
{
	buffer_format(out, ":%" PRId64 "\r\n", n);
}

void fake_string(struct buffer *out, const void *data, size_t len)
{
	buffer_format(out, "$%zu\r\n", len);
	buffer_append(out, data, len);
	buffer_append(out, "\r\n", 2);
}

void fake_text(struct buffer *out, const char *text)
{
	fake_string(out, text, strlen(text));
}

void fake_nil(struct buffer *out)
{
	buffer_append(out, "$-1\r\n", 5);
}

void fake_array(struct buffer *out, size_t n)
{
	buffer_format(out, "*%zu\r\n", n);
}

static void long_message(struct buffer *out)
{
	struct buffer text = {0};

	for (int i = 0; i < 9000; i++)
		buffer_format(&text, "%08d", i);
	fake_string(out, text.data, text.len);
	buffer_free(&text);
}

const char *fake_ingress = "ingress:other";

/* Most of what begins like a wrapper is one. */
static void fake_sealed(struct buffer *out, const char *text)
{
	struct message_keys keys = sealed_keys(fake_ingress);
	struct buffer sealed = {0};

	if (strncmp(text, "quredis/1 w=", 12) != 0 || keys.secrets->n == 0 || input_below(input, 8) == 0) {
		fake_text(out, text);
		return;
	}
	sealed_append(&sealed, &keys, text, strlen(text));
	fake_string(out, sealed.data, sealed.len);
	buffer_free(&sealed);
}

void fake_message(struct buffer *out)
{
	static const char *const lines[] = {
		"quredis/1 w=00000000000000ab\n", "quredis/1 w=00000000000000ab attempts=1 solo=1 first_failed=1700000000000\n",
		"quredis/1 w=00000000000000ab crashes=1 redelivered=2\nquredis/1 id=a ttl=1s timeout=10ms\n",
		"quredis/1 w=00000000000000ab attempts=1000000 crashes=1000000 redelivered=1000000 redriven=9223372036854775807 own=9223372036854775807\n",
		"quredis/1 id=job-1 request_id=r max_attempts=2\n", "quredis/2 id=x\n", "quredis/1 w=zz\n", "quredis/1 id=\n",
	};
	unsigned kind = input_below(input, 16);
	char text[512];
	size_t len;
	const char *bytes;

	if (kind < 5) {
		snprintf(text, sizeof(text), "m%u", messages++);
		fake_text(out, text);
	} else if (kind < 5 + nitems(lines)) {
		snprintf(text, sizeof(text), "%sm%u", lines[kind - 5], messages++);
		fake_sealed(out, text);
	} else if (kind == 13) {
		fake_string(out, "a\0b\n\xff", 5);
	} else if (kind == 14 && messages++ < 8) {
		long_message(out);
	} else {
		bytes = input_bytes(input, &len);
		fake_string(out, bytes, len);
	}
}

/* What lies beside a message of a shared queue. */
void fake_note(struct buffer *out)
{
	static const char *const texts[] = {
		"redelivered=1", "crashes=1 redelivered=2 solo=1", "solo=1", "attempts=1000000 crashes=1000000 redelivered=1000000",
		"redriven=9223372036854775807 own=9223372036854775807", "", "w=00000000000000ab", "crashes=1 crashes=x", "crashes=1\n",
	};
	unsigned kind = input_below(input, nitems(texts) + 3);
	const char *bytes;
	size_t len;

	if (kind < nitems(texts)) {
		fake_text(out, texts[kind]);
	} else if (kind == nitems(texts)) {
		bytes = input_bytes(input, &len);
		fake_string(out, bytes, len);
	} else {
		fake_nil(out);
	}
}
