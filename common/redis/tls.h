#ifndef COMMON_REDIS_TLS_H
#define COMMON_REDIS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <openssl/safestack.h>
#include <openssl/types.h>

#include "common/redis/tls_context.h"

/*
 * TLS on one socket that never blocks: the handshake, and bytes in both directions. hiredis knows nothing of it: it
 * gets the decrypted bytes, and its output passes through tls_write(). Only tls.c calls OpenSSL for a connection and
 * changes its state.
 *
 * OpenSSL reaches the socket through a BIO of ours, for four reasons: a lost peer must not raise SIGPIPE; the bytes
 * that the kernel took and gave count as signs of life; one turn may read only so much; and the first byte of the peer
 * shows whether it speaks TLS at all.
 *
 *	tls_open() -> handshake: tls_handshake() returns 0 until it returns 1 -> tls_read(), tls_write() -> tls_close()
 *
 * After -1 only tls_error() and tls_close() are allowed.
 */
struct tls;
STACK_OF(X509);		/* of openssl/x509.h, which only the files of TLS include */

/* host: a name or an address, as the certificate must have it. fd stays the caller's. NULL: *why, a constant. */
struct tls *tls_open(const struct tls_context *context, int fd, const char *host, const char **why);
/* Tells the peer that no more comes, if the socket takes it at once. NULL: nothing. Call it before the socket is
 * closed. */
void tls_close(struct tls *t);

int tls_handshake(struct tls *t);	/* 1: done, 0: poll again, -1: failed */
bool tls_ready(const struct tls *t);	/* the handshake is done */

/*
 * Hands decrypted bytes to take(), in pieces, until nothing is left that poll() cannot see, or TLS_TURN bytes have left
 * the socket in this call: the rest is in the kernel, so poll() sees it. 0, or -1: failed, or take() returned false.
 */
#define TLS_TURN (64 * 1024)
int tls_read(struct tls *t, bool (*take)(void *arg, const char *bytes, size_t len), void *arg);
/* Returns how many bytes of data are on their way; -1 with EAGAIN: none, call again with the same bytes at the front;
 * -1 with EPROTO: failed. */
ssize_t tls_write(struct tls *t, const char *data, size_t len);

/* Returns the events to poll for. output: the caller has bytes for tls_write(). */
short tls_events(const struct tls *t, bool output);
uint64_t tls_received(const struct tls *t);	/* encrypted bytes that came out of the socket so far */
uint64_t tls_sent(const struct tls *t);		/* encrypted bytes that the kernel took so far */
const char *tls_error(const struct tls *t);	/* why it failed: a text for an operator */
/* it failed because the peer closed or reset the connection, without an alert that says why */
bool tls_closed_by_peer(const struct tls *t);
/* Why the peer may be silent, for the end of a timeout; NULL: no guess. */
const char *tls_silence(const struct tls *t);

/* For tls.c; tls_context.c owns the struct. */
SSL *tls_context_connection(const struct tls_context *c);
bool tls_context_verifies(const struct tls_context *c);
bool tls_context_has_certificate(const struct tls_context *c);

/* of the server's certificates. False: it showed none */
bool tls_expiry(const struct tls *t, struct tls_expiry *out);
/* tls_expiry.c: of a certificate and its chain; either may be NULL. False: both are, or no time can be read. */
bool tls_expiry_of(const X509 *certificate, const STACK_OF(X509) *chain, struct tls_expiry *out);

/*
 * tls_error.c: writes why OpenSSL gave up; asked: the server asked for a client certificate. Returns whether the peer
 * closed or reset the connection without an alert that says why. Clears OpenSSL's errors of this thread.
 */
struct tls_failure {
	const SSL *ssl;
	const char *host;
	bool asked, presented;	/* the server asked for a client certificate; there is one */
	bool plain;		/* the first byte that came is not of TLS */
	bool nothing;		/* no byte came */
	bool ready;		/* the handshake was done */
	bool ended;		/* the peer closed the connection */
	int io_errno;		/* of the socket; 0: none */
};
bool tls_error_is_alert(void);	/* OpenSSL failed because of an alert of the peer */
bool tls_error_write(const struct tls_failure *f, char *out, size_t size);

#endif
