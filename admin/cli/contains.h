#ifndef ADMIN_CLI_CONTAINS_H
#define ADMIN_CLI_CONTAINS_H

#include <stdbool.h>
#include <stddef.h>

/* How --text searches: upper and lower case of ASCII count as equal. data may have any bytes, also NUL. An empty text
 * is in everything. */
bool contains_text(const void *data, size_t len, const char *text);

#endif
