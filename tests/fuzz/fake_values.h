#ifndef TESTS_FUZZ_FAKE_VALUES_H
#define TESTS_FUZZ_FAKE_VALUES_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "tests/fuzz/input.h"

/* What answers of a server are made of; what they leave open is in the input. */
void fake_values_begin(struct input *in);
extern const char *fake_ingress;		/* wrappers count there */

void fake_integer(struct buffer *out, int64_t n);
void fake_string(struct buffer *out, const void *data, size_t len);
void fake_text(struct buffer *out, const char *text);
void fake_nil(struct buffer *out);
void fake_array(struct buffer *out, size_t n);		/* its elements follow */
void fake_message(struct buffer *out);			/* a message of some kind, as a string */
void fake_note(struct buffer *out);			/* what lies beside a message of a shared queue */

#endif
