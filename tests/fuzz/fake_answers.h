#ifndef TESTS_FUZZ_FAKE_ANSWERS_H
#define TESTS_FUZZ_FAKE_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/input.h"

/* Answers that tests/fuzz/fake_redis.c gives; what it leaves open is in the input. */
void fake_answers_begin(struct input *in);
extern const char *fake_ingress;		/* wrappers count there */

void fake_answer_honest(struct buffer *out, const struct fake_command *c, unsigned variant);
void fake_answer_error(struct buffer *out);
void fake_answer_anything(struct buffer *out);		/* well formed, whatever it says */
bool fake_answer_too_much(struct buffer *out);		/* or malformed. True: a flood of bytes is to follow */

/* What they are made of. */
void fake_integer(struct buffer *out, int64_t n);
void fake_string(struct buffer *out, const void *data, size_t len);
void fake_text(struct buffer *out, const char *text);
void fake_nil(struct buffer *out);
void fake_array(struct buffer *out, size_t n);		/* its elements follow */
void fake_message(struct buffer *out);			/* a message of some kind, as a string */

#endif
