#ifndef TESTS_UNIT_MESSAGE_PARSING_H
#define TESTS_UNIT_MESSAGE_PARSING_H

/* What tests of messages share: the keys of one queue, and messages parsed with them. */
#include <string.h>

#include "common/message/message.h"
#include "tests/unit/sealed.h"
#include "tests/unit/unit.h"

#define W "quredis/1 w=00000000000000ff"

static struct message_keys keys;
static struct buffer sealed_bytes;		/* what parse_sealed() parsed last */

static inline struct message parse(const char *raw)
{
	struct message m;

	message_parse(&m, &keys, raw, strlen(raw));
	return m;
}

/* raw with the seal that its wrapper lacks. */
static inline struct message parse_sealed(const char *raw)
{
	struct message m;

	buffer_clear(&sealed_bytes);
	sealed_append(&sealed_bytes, &keys, raw, strlen(raw));
	buffer_append(&sealed_bytes, "", 1);
	message_parse(&m, &keys, sealed_bytes.data, sealed_bytes.len - 1);
	return m;
}

/* The whole is payload: nothing was understood. */
static inline void assert_raw(const char *raw, size_t len)
{
	struct message m;

	message_parse(&m, &keys, raw, len);
	if (m.wrapper_len != 0 || m.header_len != 0)
		fail_msg("taken for a line of ours: %.60s", raw);
	assert_int_equal(message_payload_len(&m), len);
	assert_ptr_equal(message_payload(&m), raw);
	assert_int_equal(strncmp(message_id(&m), "sha1:", 5), 0);
	assert_int_equal(m.wrapper.nonce, 0);
	assert_int_equal(m.wrapper.attempts, 0);
	assert_int_equal(m.ttl_ms, -1);
	assert_int_equal(m.max_attempts, -1);
}

static inline int learn_keys(void **state)
{
	(void)state;
	keys = sealed_learn("ingress:mail");
	return 0;
}

static inline int forget_sealed_bytes(void **state)
{
	(void)state;
	buffer_free(&sealed_bytes);
	return 0;
}

#endif
