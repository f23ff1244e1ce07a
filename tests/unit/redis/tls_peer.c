/* The server of a TLS connection under test, in the same process. */
#include <sys/socket.h>

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "tests/unit/redis/tls_peer.h"

#include "common/base/base.h"
#include "common/redis/tls.h"

#define HOST "redis.example"

/* The text of what `write` puts into a BIO; new. */
static char *text_of(BIO *bio)
{
	char *data;
	long len = BIO_get_mem_data(bio, &data);
	char *text = alloc_copy(data, (size_t)len);

	BIO_free(bio);
	return text;
}

static char *key_text(EVP_PKEY *key, const char *passphrase)
{
	BIO *out = BIO_new(BIO_s_mem());

	assert_int_equal(PEM_write_bio_PrivateKey(out, key, passphrase == NULL ? NULL : EVP_aes_128_cbc(), NULL, 0, NULL, (void *)(uintptr_t)passphrase), 1);
	return text_of(out);
}

static X509 *sign_itself(EVP_PKEY *key)
{
	X509 *x = X509_new();
	X509_NAME *name = X509_get_subject_name(x);
	X509_EXTENSION *names = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "DNS:" HOST);

	X509_set_version(x, X509_VERSION_3);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, key);
	X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"test", -1, -1, 0);
	X509_set_issuer_name(x, name);
	X509_add_ext(x, names, -1);
	X509_EXTENSION_free(names);
	assert_int_not_equal(X509_sign(x, key, EVP_sha256()), 0);
	return x;
}

static void make_server(struct tls_peer *p)
{
	EVP_PKEY *key = EVP_EC_gen("P-256"), *other = EVP_EC_gen("P-256");
	X509 *x = sign_itself(key);
	BIO *out = BIO_new(BIO_s_mem());

	PEM_write_bio_X509(out, x);
	p->certificate = text_of(out);
	p->key = key_text(key, NULL);
	p->other_key = key_text(other, NULL);
	p->encrypted_key = key_text(key, "passphrase");
	p->server_context = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate(p->server_context, x), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(p->server_context, key), 1);
	p->server = SSL_new(p->server_context);
	SSL_set_fd(p->server, p->peer_fd);
	SSL_set_accept_state(p->server);
	X509_free(x);
	EVP_PKEY_free(key);
	EVP_PKEY_free(other);
}

struct tls_peer *tls_peer_open(void)
{
	struct tls_peer *p = alloc_zero(1, sizeof(*p));
	const char *why = NULL;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
	p->fd = fds[0];
	p->peer_fd = fds[1];
	p->context = tls_context_new(true, &why);	/* first: it sets the allocator of OpenSSL */
	assert_non_null(p->context);
	make_server(p);
	assert_null(tls_context_trust(p->context, p->certificate, strlen(p->certificate)));
	p->tls = tls_open(p->context, p->fd, HOST, &why);
	assert_non_null(p->tls);
	return p;
}

void tls_peer_close(struct tls_peer *p)
{
	tls_close(p->tls);
	tls_context_free(p->context);
	SSL_free(p->server);
	SSL_CTX_free(p->server_context);
	close(p->fd);
	if (p->peer_fd != -1)
		close(p->peer_fd);
	free(p->certificate);
	free(p->key);
	free(p->other_key);
	free(p->encrypted_key);
	free(p);
	ERR_clear_error();
}

void tls_peer_shake_hands(struct tls_peer *p)
{
	int rc = 0;

	for (int i = 0; i < 10 && (rc == 0 || !SSL_is_init_finished(p->server)); i++) {
		rc = tls_handshake(p->tls);
		if (rc == -1)
			fail_msg("%s", tls_error(p->tls));
		SSL_do_handshake(p->server);
	}
	assert_int_equal(rc, 1);
}

void tls_peer_say(struct tls_peer *p, const char *bytes, size_t len)
{
	assert_int_equal(SSL_write(p->server, bytes, (int)len), (int)len);
}

void tls_peer_hear(struct tls_peer *p, struct buffer *out)
{
	char bytes[16384];
	int n;

	while ((n = SSL_read(p->server, bytes, sizeof(bytes))) > 0)
		buffer_append(out, bytes, (size_t)n);
	ERR_clear_error();
}

void tls_peer_change_keys(struct tls_peer *p)
{
	assert_int_equal(SSL_key_update(p->server, SSL_KEY_UPDATE_REQUESTED), 1);
}

void tls_peer_hang_up(struct tls_peer *p)
{
	assert_int_equal(SSL_shutdown(p->server), 0);
}

bool tls_peer_was_told(struct tls_peer *p)
{
	char byte;
	int rc = SSL_read(p->server, &byte, 1);

	return SSL_get_error(p->server, rc) == SSL_ERROR_ZERO_RETURN;
}
