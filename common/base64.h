#ifndef COMMON_BASE64_H
#define COMMON_BASE64_H

#include <stddef.h>

char *base64_encode(const void *data, size_t len);	/* RFC 4648 with padding; a new string */

#endif
