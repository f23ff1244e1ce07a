#ifndef COMMON_BASE_ADDRESS_H
#define COMMON_BASE_ADDRESS_H

/* The address of a service: "host:port" or "[::1]:port". These functions only split it and resolve no name, since that
 * may block. */
struct address {
	char host[256], port[8];
};
int address_parse(struct address *a, const char *text);	/* -1: text is not an address */

enum address_reach { ADDRESS_NAME, ADDRESS_LOOPBACK, ADDRESS_OTHER };
/* NAME: host is a DNS name. LOOPBACK: an address that only this machine reaches. OTHER: any other address. */
enum address_reach address_reach(const char *host);

/* Returns the path in "unix:/path", a view into text; NULL: text has another form. */
const char *address_unix_path(const char *text);

#endif
