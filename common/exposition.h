#ifndef COMMON_EXPOSITION_H
#define COMMON_EXPOSITION_H

#include <stdint.h>

#include "common/buffer.h"

/*
 * The text format of Prometheus, 0.0.4. All samples of a metric follow its head. labels: name, value, name, value …
 * NULL; values may be any text.
 */
void exposition_metric(struct buffer *b, const char *name, const char *type, const char *help);
void exposition_count(struct buffer *b, const char *name, const char *const *labels, int64_t value);
void exposition_seconds(struct buffer *b, const char *name, const char *const *labels, int64_t ms);

#endif
