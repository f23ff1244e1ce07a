#ifndef COMMON_BASE_ENCODE_H
#define COMMON_BASE_ENCODE_H

#include <stddef.h>

#include <nettle/sha1.h>

#define ENCODE_SHA1_SIZE 41	/* a SHA1 in hexadecimal digits, with its NUL */

/* Writes the SHA1 of the data to out. */
void encode_sha1(const void *data, size_t len, char out[ENCODE_SHA1_SIZE]);

/* Writes the SHA1 of the bytes that sha1_update() added to hash, and starts the hash anew. */
void encode_sha1_end(struct sha1_ctx *hash, char out[ENCODE_SHA1_SIZE]);

char *encode_base64(const void *data, size_t len);	/* RFC 4648 with padding; a new string */
/* the same back: new bytes; NULL: it is no such text */
void *encode_base64_undo(const char *text, size_t len, size_t *size);

#endif
