#ifndef TESTS_FUZZ_FAKE_ANSWERS_H
#define TESTS_FUZZ_FAKE_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_values.h"
#include "tests/fuzz/input.h"

/* Answers that tests/fuzz/fake_redis.c gives; what it leaves open is in the input. */
void fake_answers_begin(struct input *in);

void fake_answer_honest(struct buffer *out, const struct fake_command *c, unsigned variant);
void fake_answer_error(struct buffer *out);
void fake_answer_anything(struct buffer *out);		/* well formed, whatever it says */
bool fake_answer_too_much(struct buffer *out);		/* or malformed. True: a flood of bytes is to follow */

#endif
