#ifndef COMMON_REDIS_TLS_CONTEXT_H
#define COMMON_REDIS_TLS_CONTEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All TLS connections of a process share this: the trusted CAs, and the certificate and key that it presents (SSL_CTX
 * of OpenSSL). The load of the configuration makes it and fills it from bytes that it has read. The master forks its
 * children with it, so they share its memory and read no file for it. One exception: certificates of a directory are
 * read when a connection needs them, by the process that opens the connection. Connections never change it. It may be
 * freed while connections exist: each connection keeps its own reference.
 */
struct tls_context;

/* verify: the server's certificate must be of a trusted CA and name the host; false: any certificate will do. NULL:
 * *why says what failed, a constant. */
struct tls_context *tls_context_new(bool verify, const char **why);
void tls_context_free(struct tls_context *c);	/* NULL: nothing */

/*
 * Each returns NULL, or what is wrong with the bytes or the directory, a constant. pem: one or more certificates, or
 * one key, in PEM; the caller wipes it. The certificate goes first; those behind it in the same file are its chain.
 * Call tls_context_use_key() after it.
 */
const char *tls_context_trust(struct tls_context *c, const char *pem, size_t len);
/* hashed names, as of openssl rehash. NULL: that of the system */
const char *tls_context_trust_directory(struct tls_context *c, const char *path);
const char *tls_context_use_certificate(struct tls_context *c, const char *pem, size_t len);
const char *tls_context_use_key(struct tls_context *c, const char *pem, size_t len);

const char *tls_context_system_directory(void);

/* When a certificate ends: of a chain the first one that does. */
struct tls_expiry {
	int64_t at_s;			/* since 1970 */
	char subject[128];		/* "CN = redis.example.org" */
};
/* of the certificate that it presents. False: there is none */
bool tls_context_expiry(const struct tls_context *c, struct tls_expiry *out);
/* True if both were filled with the same bytes. Both may be NULL. */
bool tls_context_equal(const struct tls_context *a, const struct tls_context *b);

#endif
