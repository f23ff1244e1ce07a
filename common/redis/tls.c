/* TLS on one socket: the handshake, and bytes in both directions (tls.h). tls_context.c is about what connections
 * share, tls_error.c words failures. */
#include <sys/socket.h>

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "common/redis/tls.h"

#include "common/base/base.h"

#define RECORD_MAX (16 * 1024)		/* bytes of one record, decrypted */
#define FIRST_HANDSHAKE 22		/* the first byte of a server that speaks TLS: of a handshake, or of an alert */
#define FIRST_ALERT 21

/* HANDSHAKE -> READY -> FAILED, or HANDSHAKE -> FAILED. In FAILED OpenSSL is not called any more. */
enum tls_state { TLS_HANDSHAKE, TLS_READY, TLS_FAILED };

struct tls {
	SSL *ssl;
	enum tls_state state;
	int fd;				/* the caller's */
	char *host;			/* as messages show it */
	bool verify;			/* the server's certificate */
	bool has_certificate;		/* to present to the server */
	bool asked;			/* the server asked for a client certificate */
	bool needs_output;		/* the handshake, or a read, continues when the socket takes bytes */
	bool needs_input;		/* a write continues when bytes arrive */
	bool write_pending;		/* a record lies in OpenSSL of which the kernel did not take all */
	size_t turn;			/* bytes that may still leave the socket in this call */
	uint64_t received, sent;	/* bytes of the socket */
	bool plain;			/* the first byte that came is not of TLS */
	bool ended;			/* the peer closed the connection */
	/* TLS_FAILED, for no other reason than that the peer closed or reset the connection */
	bool closed_by_peer;
	int io_errno;			/* of the socket; 0: none */
	char error[256];
};

/* ---- the socket ---- */

static int socket_write(BIO *bio, const char *data, int len)
{
	struct tls *t = BIO_get_data(bio);
	ssize_t n;

	BIO_clear_retry_flags(bio);
	do
		n = send(t->fd, data, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT);
	while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN)
		BIO_set_retry_write(bio);
	else if (n == -1)
		t->io_errno = errno;
	else
		t->sent += (uint64_t)n;
	return (int)n;
}

static void note_first(struct tls *t, unsigned char first)
{
	if (t->received == 0)
		t->plain = first != FIRST_HANDSHAKE && first != FIRST_ALERT;
}

/* When the turn is over it claims that the socket is empty: what is left there wakes the next poll(). */
static int socket_read(BIO *bio, char *out, int size)
{
	struct tls *t = BIO_get_data(bio);
	size_t most = (size_t)size < t->turn ? (size_t)size : t->turn;
	ssize_t n;

	BIO_clear_retry_flags(bio);
	if (most == 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	do
		n = recv(t->fd, out, most, MSG_DONTWAIT);
	while (n == -1 && errno == EINTR);
	if (n == -1 && errno == EAGAIN)
		BIO_set_retry_read(bio);
	else if (n == -1)
		t->io_errno = errno;
	else if (n == 0)
		t->ended = true;
	if (n > 0) {
		note_first(t, (unsigned char)out[0]);
		t->received += (uint64_t)n;
		t->turn -= (size_t)n;
	}
	return (int)n;
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
	const struct tls *t = BIO_get_data(bio);

	(void)number;
	(void)pointer;
	if (command == BIO_CTRL_EOF)
		return t->ended;
	return command == BIO_CTRL_FLUSH;
}

static BIO *open_socket(struct tls *t)
{
	static BIO_METHOD *method;	/* for the life of the process */
	BIO *bio;

	if (method == NULL) {
		method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket of quredis");
		if (method == NULL)
			alloc_failed();
		BIO_meth_set_write(method, socket_write);
		BIO_meth_set_read(method, socket_read);
		BIO_meth_set_ctrl(method, socket_control);
	}
	bio = BIO_new(method);
	if (bio == NULL)
		alloc_failed();
	BIO_set_data(bio, t);
	BIO_set_init(bio, 1);
	return bio;
}

/* ---- opening and closing ---- */

/* OpenSSL calls it when the server asks for a client certificate. The context has one or not; this only remembers the
 * question. */
static int note_asked(SSL *ssl, void *arg)
{
	struct tls *t = arg;

	(void)ssl;
	t->asked = true;
	return 1;
}

/*
 * The certificate must have the host: as an address if it is one, as a name otherwise. A server is told the name that
 * we want (SNI); an address is no name. The expected host is set even if nothing verifies the certificate, so that
 * there is no way to a connection that verifies without it.
 */
static bool expect_host(SSL *ssl, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	if (host[0] == '\0')		/* OpenSSL would accept every name */
		return false;
	if (address_reach(host) != ADDRESS_NAME)
		return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
	X509_VERIFY_PARAM_set_hostflags(param,
	    X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
	return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

/* "redis.example.org." is a name for the resolver; certificates have no dot at the end. */
static char *name_of(const char *host)
{
	size_t len = strlen(host);

	return alloc_copy(host, len > 1 && host[len - 1] == '.' ? len - 1 : len);
}

static bool prepare_ssl(struct tls *t, const struct tls_context *context)
{
	BIO *bio;

	t->ssl = tls_context_connection(context);
	if (t->ssl == NULL)
		alloc_failed();
	bio = open_socket(t);
	SSL_set_bio(t->ssl, bio, bio);
	SSL_set_cert_cb(t->ssl, note_asked, t);
	t->has_certificate = tls_context_has_certificate(context);
	t->verify = tls_context_verifies(context);
	SSL_set_connect_state(t->ssl);
	return expect_host(t->ssl, t->host);
}

struct tls *tls_open(const struct tls_context *context, int fd, const char *host, const char **why)
{
	struct tls *t = alloc_zero(1, sizeof(*t));

	t->fd = fd;
	t->state = TLS_HANDSHAKE;
	t->needs_output = true;		/* the first message is ours, once the socket is connected */
	t->host = name_of(host);
	ERR_clear_error();
	if (prepare_ssl(t, context))
		return t;
	ERR_clear_error();
	*why = "no certificate can name this host";
	t->state = TLS_FAILED;
	tls_close(t);
	return NULL;
}

void tls_close(struct tls *t)
{
	if (t == NULL)
		return;
	ERR_clear_error();
	if (t->state == TLS_READY && !t->write_pending && t->io_errno == 0)
		SSL_shutdown(t->ssl);
	ERR_clear_error();
	SSL_free(t->ssl);
	free(t->host);
	free(t);
}

/* ---- the handshake ---- */

static int fail_with(struct tls *t)
{
	struct tls_failure f = {
		.ssl = t->ssl, .host = t->host, .asked = t->asked, .presented = t->has_certificate, .plain = t->plain,
		.nothing = t->received == 0,
		.ready = t->state == TLS_READY, .ended = t->ended, .io_errno = t->io_errno,
	};

	t->closed_by_peer = tls_error_write(&f, t->error, sizeof(t->error));
	t->state = TLS_FAILED;
	return -1;
}

/* rc: what an OpenSSL call returned. 0: it continues after poll(), and the flags say with what; -1: failed. */
static int note_want(struct tls *t, int rc, bool *reads, bool *writes)
{
	switch (SSL_get_error(t->ssl, rc)) {
	case SSL_ERROR_WANT_READ:
		*reads = true;
		return 0;
	case SSL_ERROR_WANT_WRITE:
		*writes = true;
		return 0;
	default:
		return fail_with(t);
	}
}

/* OpenSSL ends the handshake itself if a certificate is wrong. This is the second lock on the same door: no change of
 * an option may open it. */
static bool is_verified(const struct tls *t)
{
	return !t->verify || (SSL_get0_peer_certificate(t->ssl) != NULL && SSL_get_verify_result(t->ssl) == X509_V_OK);
}

int tls_handshake(struct tls *t)
{
	bool reads = false;
	int rc;

	if (t->state != TLS_HANDSHAKE)
		return t->state == TLS_READY ? 1 : -1;
	ERR_clear_error();
	t->turn = TLS_TURN;
	t->needs_output = false;
	rc = SSL_do_handshake(t->ssl);
	if (rc != 1)
		return note_want(t, rc, &reads, &t->needs_output);
	if (!is_verified(t))
		return fail_with(t);
	t->state = TLS_READY;
	return 1;
}

bool tls_ready(const struct tls *t)
{
	return t->state == TLS_READY;
}

/* ---- bytes ---- */

/*
 * A failure after some bytes is reported by the next call, so that the caller sees these bytes first: the last answer
 * of a server may say why it closes the connection.
 */
int tls_read(struct tls *t, bool (*take)(void *arg, const char *bytes, size_t len), void *arg)
{
	char bytes[RECORD_MAX];
	bool taken = false, reads = false;
	int n;

	if (t->state != TLS_READY)
		return -1;
	t->turn = TLS_TURN;
	t->needs_output = t->needs_input = false;
	for (;;) {
		ERR_clear_error();
		n = SSL_read(t->ssl, bytes, sizeof(bytes));
		if (n <= 0)
			return note_want(t, n, &reads, &t->needs_output) == -1 && !taken ? -1 : 0;
		if (!take(arg, bytes, (size_t)n))
			return -1;
		taken = true;
	}
}

/* The socket may refuse our bytes because the server has closed it, and its alert, which says why, is still unread. */
static int fail_write(struct tls *t)
{
	int io_errno = t->io_errno;
	char byte;

	t->io_errno = 0;
	t->turn = TLS_TURN;
	ERR_clear_error();
	SSL_peek(t->ssl, &byte, 1);
	if (!tls_error_is_alert()) {
		ERR_clear_error();
		t->io_errno = io_errno;
	}
	return fail_with(t);
}

ssize_t tls_write(struct tls *t, const char *data, size_t len)
{
	int n;

	errno = EPROTO;
	if (t->state != TLS_READY)
		return -1;
	ERR_clear_error();
	n = SSL_write(t->ssl, data, len < INT_MAX ? (int)len : INT_MAX);
	if (n <= 0 && t->io_errno != 0) {
		fail_write(t);
		errno = EPROTO;
		return -1;
	}
	t->write_pending = t->needs_input = false;
	if (n > 0)
		return n;
	errno = note_want(t, n, &t->needs_input, &t->write_pending) == 0 ? EAGAIN : EPROTO;
	return -1;
}

/* ---- what the caller asks ---- */

short tls_events(const struct tls *t, bool output)
{
	switch (t->state) {
	case TLS_HANDSHAKE:
		return t->needs_output ? POLLOUT : POLLIN;
	case TLS_READY:
		return (short)(POLLIN | (t->needs_output || (output && !t->needs_input) ? POLLOUT : 0));
	default:
		return POLLIN | POLLOUT;	/* the next call reports the failure */
	}
}

uint64_t tls_received(const struct tls *t)
{
	return t->received;
}

uint64_t tls_sent(const struct tls *t)
{
	return t->sent;
}

/* With verification the chain ends with a CA of ours, else it is what the server sent. */
bool tls_expiry(const struct tls *t, struct tls_expiry *out)
{
	const STACK_OF(X509) *chain = SSL_get0_verified_chain(t->ssl);

	return tls_expiry_of(SSL_get0_peer_certificate(t->ssl), chain != NULL ? chain : SSL_get_peer_cert_chain(t->ssl),
	    out);
}

const char *tls_error(const struct tls *t)
{
	return t->error;
}

bool tls_closed_by_peer(const struct tls *t)
{
	return t->closed_by_peer;
}

const char *tls_silence(const struct tls *t)
{
	return t->state == TLS_HANDSHAKE && t->sent > 0 && t->received == 0
	    ? "no answer to the TLS handshake in time: does the server speak TLS on this port?" : NULL;
}
