/* A host and a port, as configurations have them. */
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/address.h"

int address_parse(struct address *a, const char *text)
{
	const char *colon = strrchr(text, ':'), *why;
	size_t len = colon == NULL ? 0 : (size_t)(colon - text);

	if (len == 0 || len >= sizeof(a->host) || strlcpy(a->port, colon + 1, sizeof(a->port)) >= sizeof(a->port))
		return -1;
	if (strspn(a->port, "0123456789") != strlen(a->port) || strtonum(a->port, 1, 65535, &why) == 0)
		return -1;
	if (text[0] == '[' && text[len - 1] == ']') {
		text++;
		len -= 2;
	} else if (memchr(text, ':', len) != NULL || strcspn(text, "[] /\t") < len) {
		return -1;
	}
	memcpy(a->host, text, len);
	a->host[len] = '\0';
	return len == 0 ? -1 : 0;
}
