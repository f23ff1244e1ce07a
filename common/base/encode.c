/*
 * Bytes as text: base64 for messages in JSON, and SHA-1 in hexadecimal digits, as the records, the ids and the notes of
 * messages show it.
 */
#include <stdint.h>
#include <stdlib.h>

#include <nettle/base64.h>

#include "common/base/encode.h"

#include "common/base/alloc.h"
#include "common/base/put.h"

void encode_sha1_end(struct sha1_ctx *hash, char out[ENCODE_SHA1_SIZE])
{
	uint8_t digest[SHA1_DIGEST_SIZE];

	sha1_digest(hash, sizeof(digest), digest);
	*put_hex(out, digest, sizeof(digest)) = '\0';
}

void encode_sha1(const void *data, size_t len, char out[ENCODE_SHA1_SIZE])
{
	struct sha1_ctx hash;

	sha1_init(&hash);
	sha1_update(&hash, len, data);
	encode_sha1_end(&hash, out);
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *encode_base64(const void *data, size_t len)
{
	const unsigned char *in = data;
	char *text = alloc_zero((len + 2) / 3 * 4 + 1, 1), *out = text;

	for (size_t i = 0; i < len; i += 3) {
		size_t have = len - i < 3 ? len - i : 3;
		uint32_t bits = (uint32_t)in[i] << 16;

		if (have > 1)
			bits |= (uint32_t)in[i + 1] << 8;
		if (have > 2)
			bits |= in[i + 2];
		*out++ = digits[bits >> 18];
		*out++ = digits[bits >> 12 & 63];
		*out++ = have > 1 ? digits[bits >> 6 & 63] : '=';
		*out++ = have > 2 ? digits[bits & 63] : '=';
	}
	return text;
}

void *encode_base64_undo(const char *text, size_t len, size_t *size)
{
	struct base64_decode_ctx state;
	uint8_t *bytes = alloc_zero(BASE64_DECODE_LENGTH(len) + 1, 1);

	*size = BASE64_DECODE_LENGTH(len);
	base64_decode_init(&state);
	if (base64_decode_update(&state, size, bytes, len, text) == 1 && base64_decode_final(&state) == 1)
		return bytes;
	free(bytes);
	return NULL;
}
