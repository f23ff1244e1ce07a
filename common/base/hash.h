#ifndef COMMON_BASE_HASH_H
#define COMMON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/*
 * FNV-1a (draft-eastlake-fnv): tells values apart, nothing more. A stranger who chooses the bytes can make two values
 * equal: where that would do harm, use encode_sha1() or a MAC.
 */
#define HASH_EMPTY UINT64_C(14695981039346656037)

static inline uint64_t hash_byte(uint64_t hash, unsigned char byte)
{
	return (hash ^ byte) * UINT64_C(1099511628211);
}

/* Adds a text and its end, so that "a", "bc" is not "ab", "c". */
static inline uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; *text != '\0'; text++)
		hash = hash_byte(hash, (unsigned char)*text);
	return hash_byte(hash, 0xff);
}

#endif
