#ifndef TESTS_UNIT_CONF_VALUES_OTHER_H
#define TESTS_UNIT_CONF_VALUES_OTHER_H

#include "common/base/buffer.h"
#include "common/conf/schema.h"

/* The default as a file has it: its own, or that of the key it inherits from; NULL: none. */
const char *conf_default_text(const struct conf_key *key);

/* A value that key may have and that is not its default, as a file has it; new string. */
char *conf_other_value(const struct conf_key *key);

/* "key = value;" inside its groups. */
void conf_nest(struct buffer *b, const char *path, const char *value);

#endif
