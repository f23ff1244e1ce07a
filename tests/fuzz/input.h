#ifndef TESTS_FUZZ_INPUT_H
#define TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * What the fuzzer gives, taken from the front: a byte is a decision. At its end everything is 0, so that a
 * prefix of an input does what the input does up to there.
 */
struct input {
	const uint8_t *at;
	size_t left;
};

uint8_t input_byte(struct input *in);
unsigned input_below(struct input *in, unsigned n);		/* n > 0 */
int64_t input_number(struct input *in);				/* edges of what integers can be, or any */
int64_t input_time_ms(struct input *in);			/* 0 to some minutes: what timeouts are made of */
const char *input_bytes(struct input *in, size_t *len);		/* a length byte and so many bytes: a view */
char *input_text(struct input *in);				/* the same without NULs; a new string */

/* Must hold whatever the input is; the fuzzer keeps one with which it does not. */
#define FUZZ_ASSERT(what) \
	do \
		if (!(what)) { \
			dprintf(2, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
			abort(); \
		} \
	while (0)

/* Where a target's log goes: /dev/null, so that every line of it is made; FUZZ_LOG=stderr shows them. */
#define FUZZ_LOG (getenv("FUZZ_LOG") == NULL ? "/dev/null" : getenv("FUZZ_LOG"))

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
