#ifndef TESTS_UNIT_CONF_VALUES_OTHER_H
#define TESTS_UNIT_CONF_VALUES_OTHER_H

#include "common/buffer.h"
#include "common/conf_schema.h"

/* A value that key may have and that is not its default, as a file has it; new string. */
char *conf_other_value(const struct conf_key *key);

/* "key = value;" inside its groups. */
void conf_nest(struct buffer *b, const char *path, const char *value);

#endif
