#ifndef COMMON_DIGEST_H
#define COMMON_DIGEST_H

#include <stddef.h>

#include <nettle/sha1.h>

#define DIGEST_HEX_SIZE 41	/* a SHA1 in hexadecimal digits, with its NUL */

/* Writes the SHA1 of the data to out. */
void digest_sha1(const void *data, size_t len, char out[DIGEST_HEX_SIZE]);

/* Writes the SHA1 of what was added to hash with sha1_update(), and starts the hash anew. */
void digest_end(struct sha1_ctx *hash, char out[DIGEST_HEX_SIZE]);

#endif
