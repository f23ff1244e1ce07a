#ifndef COMMON_BASE_ADDRESS_H
#define COMMON_BASE_ADDRESS_H

/* "host:port", "[::1]:port": where a service is. Splitting only; who resolves names may have to wait. */
struct address {
	char host[256], port[8];
};
int address_parse(struct address *a, const char *text);	/* -1: it is none */

enum address_reach { ADDRESS_NAME, ADDRESS_LOOPBACK, ADDRESS_OTHER };
/* NAME: host is a DNS name. LOOPBACK: an address that only this machine reaches. OTHER: any other address. */
enum address_reach address_reach(const char *host);

/* Returns the path in "unix:/path", a view into text; NULL: text has another form. */
const char *address_unix_path(const char *text);

#endif
