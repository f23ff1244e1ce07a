#ifndef TESTS_UNIT_SEALED_H
#define TESTS_UNIT_SEALED_H

/* Lines sealed with what this process knows, as quredis or Redis would; sealed_learn() for tests without Redis. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buffer.h"
#include "common/base/encode.h"
#include "common/message/message.h"

#define SEALED_SECRET "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define SEALED_OTHER "ff112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

static inline struct message_keys sealed_keys(const char *queue)
{
	return (struct message_keys){ .queue = queue, .secrets = seal_known(), .headers = true };
}

static inline struct message_keys sealed_learn(const char *queue)
{
	seal_learn(SEALED_SECRET);
	return sealed_keys(queue);
}

/* raw, whose first line is a wrapper, with its seal appended to out; that of Redis, if own comes last. */
static inline void sealed_append(struct buffer *out, const struct message_keys *keys, const char *raw, size_t len)
{
	const char *end = memchr(raw, '\n', len), *own = memmem(raw, (size_t)(end - raw), " own=", 5);
	size_t line = (size_t)((own == NULL ? end : own) - raw), claim = (size_t)(end - raw) - line;
	bool by_redis = own != NULL && memchr(own + 1, ' ', claim - 1) == NULL;
	char key[SEAL_KEY_HEX + 1], mac[ENCODE_SHA1_SIZE], *text = NULL;

	if (!by_redis) {
		seal_line(mac, keys->secrets, keys->queue, raw, line + claim);
	} else {
		seal_key(key, keys->secrets, keys->queue, raw, line);
		if (asprintf(&text, "%s%.*s%s", key, (int)claim, own, key) != -1)
			encode_sha1(text, strlen(text), mac);
		free(text);
	}
	buffer_append(out, raw, line + claim);
	buffer_format(out, " mac=%.*s", SEAL_MAC_HEX, mac);
	buffer_append(out, end, len - line - claim);
}

#endif
