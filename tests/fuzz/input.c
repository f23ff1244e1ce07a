/* Decisions out of the bytes that the fuzzer gives. What they decide is each target's. */
#include <string.h>

#include "tests/fuzz/input.h"

#include "common/base/alloc.h"
#include "common/base/nitems.h"

uint8_t input_byte(struct input *in)
{
	if (in->left == 0)
		return 0;
	in->left--;
	return *in->at++;
}

unsigned input_below(struct input *in, unsigned n)
{
	return input_byte(in) % n;
}

int64_t input_number(struct input *in)
{
	static const int64_t edges[] = { 0, 1, 2, 3, 100, 1000, 4096, 65536, INT32_MAX, INT64_C(1) << 32, INT64_MAX - 1, INT64_MAX,
		-1, -2, INT32_MIN, INT64_MIN };
	uint8_t b = input_byte(in);
	uint64_t n = 0;

	if (b < nitems(edges))
		return edges[b];
	for (int i = 0; i < (b & 7) + 1; i++)
		n = n << 8 | input_byte(in);
	return (b & 8) != 0 ? (int64_t)(0 - n) : (int64_t)n;
}

int64_t input_time_ms(struct input *in)
{
	static const int64_t steps[] = { 0, 1, 5, 20, 100, 500, 1000, 2500, 5000, 10000, 31000, 121000 };

	return steps[input_below(in, nitems(steps))];
}

const char *input_bytes(struct input *in, size_t *len)
{
	const char *bytes;

	*len = input_byte(in);
	if (*len > in->left)
		*len = in->left;
	bytes = (const char *)in->at;
	in->at += *len;
	in->left -= *len;
	return bytes;
}

char *input_text(struct input *in)
{
	size_t len;
	const char *bytes = input_bytes(in, &len);

	return alloc_copy(bytes, strnlen(bytes, len));
}
