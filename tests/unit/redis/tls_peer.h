#ifndef TESTS_UNIT_REDIS_TLS_PEER_H
#define TESTS_UNIT_REDIS_TLS_PEER_H

#include <stdbool.h>
#include <stddef.h>

#include <openssl/types.h>

struct buffer;

/* A connection whose server is the test: two sockets, the client under test on one of them, OpenSSL as a server on the other. */
struct tls_peer {
	struct tls_context *context;	/* trusts the server's certificate */
	struct tls *tls;		/* not shaken hands yet */
	int fd, peer_fd;
	SSL_CTX *server_context;
	SSL *server;
	char *certificate, *key, *other_key, *encrypted_key;	/* PEM */
};

struct tls_peer *tls_peer_open(void);
void tls_peer_close(struct tls_peer *p);
void tls_peer_shake_hands(struct tls_peer *p);
void tls_peer_say(struct tls_peer *p, const char *bytes, size_t len);
void tls_peer_hear(struct tls_peer *p, struct buffer *out);	/* adds what has arrived */
void tls_peer_change_keys(struct tls_peer *p);			/* and asks the client for the same */
void tls_peer_hang_up(struct tls_peer *p);			/* an orderly end */
bool tls_peer_was_told(struct tls_peer *p);			/* the client ended the connection in order */

#endif
