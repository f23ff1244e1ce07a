/* RFC 4648 base64, one way: for messages that are no text in JSON. */
#include <stdint.h>

#include "common/base64.h"

#include "common/alloc.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *base64_encode(const void *data, size_t len)
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
