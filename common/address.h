#ifndef COMMON_ADDRESS_H
#define COMMON_ADDRESS_H

/* "host:port", "[::1]:port": where a service is. Splitting only; who resolves names may have to wait. */
struct address {
	char host[256], port[8];
};
int address_parse(struct address *a, const char *text);	/* -1: it is none */

#endif
