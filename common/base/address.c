/* Parses addresses of the form "host:port" and "unix:/path". */
#include <arpa/inet.h>

#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/base/address.h"

enum address_reach address_reach(const char *host)
{
	struct in_addr four;
	struct in6_addr six;

	if (inet_pton(AF_INET, host, &four) == 1)
		return (ntohl(four.s_addr) >> 24) == 127 ? ADDRESS_LOOPBACK : ADDRESS_OTHER;
	if (inet_pton(AF_INET6, host, &six) == 1)
		return IN6_IS_ADDR_LOOPBACK(&six) ? ADDRESS_LOOPBACK : ADDRESS_OTHER;
	return ADDRESS_NAME;
}

const char *address_unix_path(const char *text)
{
	return strncmp(text, "unix:/", 6) == 0 ? text + 5 : NULL;
}

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
