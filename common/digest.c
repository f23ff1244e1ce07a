/* SHA-1 in hexadecimal digits, as the records, the ids and the notes of messages show it. */
#include <nettle/base16.h>

#include "common/digest.h"

void digest_end(struct sha1_ctx *hash, char out[DIGEST_HEX_SIZE])
{
	uint8_t digest[SHA1_DIGEST_SIZE];

	sha1_digest(hash, sizeof(digest), digest);
	base16_encode_update(out, sizeof(digest), digest);
	out[BASE16_ENCODE_LENGTH(sizeof(digest))] = '\0';
}

void digest_sha1(const void *data, size_t len, char out[DIGEST_HEX_SIZE])
{
	struct sha1_ctx hash;

	sha1_init(&hash);
	sha1_update(&hash, len, data);
	digest_end(&hash, out);
}
