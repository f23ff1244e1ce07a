#ifndef COMMON_BASE_PUT_H
#define COMMON_BASE_PUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Write text without printf, memory or locks: for each message, and for a vfork child. Each function writes at `at`,
 * where its caller has room, adds no NUL, and returns the end of what it wrote.
 */
#define PUT_NUMBER_MAX 20	/* bytes of the longest number */

static inline char *put_text(char *at, const char *text)
{
	size_t len = strlen(text);

	memcpy(at, text, len);
	return at + len;
}

static inline char *put_number(char *at, uint64_t n)
{
	char digits[PUT_NUMBER_MAX], *first = digits + sizeof(digits);
	size_t len;

	do {
		*--first = (char)('0' + n % 10);
		n /= 10;
	} while (n > 0);
	len = (size_t)(digits + sizeof(digits) - first);
	memcpy(at, first, len);
	return at + len;
}

static inline char *put_signed(char *at, int64_t n)
{
	if (n >= 0)
		return put_number(at, (uint64_t)n);
	*at++ = '-';
	return put_number(at, 0 - (uint64_t)n);
}
/* Two hexadecimal digits for each byte. No call of nettle: base16_encode_update() takes 60 ns for a SHA-1, this takes
 * 11 ns. */
static inline char *put_hex(char *at, const void *data, size_t len)
{
	static const char digits[] = "0123456789abcdef";
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++) {
		*at++ = digits[bytes[i] >> 4];
		*at++ = digits[bytes[i] & 15];
	}
	return at;
}

#endif
