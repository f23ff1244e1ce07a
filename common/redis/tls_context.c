/* The SSL_CTX that all TLS connections of a process share. tls.c is about one connection. */
#include <err.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <nettle/sha2.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#include "common/redis/tls.h"

#include "common/base/base.h"

struct tls_context {
	SSL_CTX *ctx;
	bool verify;
	struct sha256_ctx contents;	/* of all bytes that it was filled with */
};

static void note_contents(struct tls_context *c, const char *kind, const char *bytes, size_t len)
{
	sha256_update(&c->contents, strlen(kind) + 1, (const uint8_t *)kind);
	sha256_update(&c->contents, sizeof(len), (const uint8_t *)&len);
	sha256_update(&c->contents, len, (const uint8_t *)bytes);
}

/*
 * A file may hold the CA that signed the server's certificate, an intermediate one, or the certificate itself: whatever
 * stands in it is trusted. Renegotiation would let a read wait for a write; TLS 1.3 has none. A connection lives long
 * and resumes no session, so tickets are dropped. The modes let a write send a part of its bytes and be repeated from a
 * moved buffer, and free the buffers of an idle connection: 34 KiB each.
 */
static bool set_options(SSL_CTX *ctx, bool verify)
{
	SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
	SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
	    SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_read_ahead(ctx, 1);
	X509_STORE_set_flags(SSL_CTX_get_cert_store(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	SSL_CTX_set_verify(ctx, verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, NULL);
	return SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) == 1;
}

static void *allocate(size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	return alloc_bytes(size);
}

static void *resize(void *old, size_t size, const char *file, int line)
{
	(void)file;
	(void)line;
	if (size > 0)
		return alloc_resize(old, size, 1);
	free(old);
	return NULL;
}

static void release(void *p, const char *file, int line)
{
	(void)file;
	(void)line;
	free(p);
}

/*
 * OpenSSL remembers what it looked up: after one allocation that failed, some algorithms are missing until the process
 * ends, and no handshake succeeds any more. So memory that OpenSSL lacks ends the process, as everywhere else
 * (alloc.h). OpenSSL accepts this only before its first allocation. The end may come while OpenSSL holds one of its
 * locks, for which its own cleanup at exit would wait for ever: so there is none.
 */
static void end_without_memory(void)
{
	static bool done;

	if (done)
		return;
	if (CRYPTO_set_mem_functions(allocate, resize, release) != 1 ||
	    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL) != 1)
		errx(EX_SOFTWARE,
		    "OpenSSL has allocated memory before its allocator was set, or cannot be initialized");
	done = true;
}

struct tls_context *tls_context_new(bool verify, const char **why)
{
	struct tls_context *c;
	SSL_CTX *ctx;

	end_without_memory();
	ERR_clear_error();
	ctx = SSL_CTX_new(TLS_client_method());
	if (ctx == NULL || !set_options(ctx, verify)) {
		*why = ERR_reason_error_string(ERR_peek_error());
		if (*why == NULL)
			*why = "OpenSSL cannot be initialized";
		SSL_CTX_free(ctx);
		return NULL;
	}
	c = alloc_zero(1, sizeof(*c));
	c->ctx = ctx;
	c->verify = verify;
	sha256_init(&c->contents);
	note_contents(c, "verify", verify ? "1" : "0", 1);
	return c;
}

void tls_context_free(struct tls_context *c)
{
	if (c == NULL)
		return;
	SSL_CTX_free(c->ctx);
	free(c);
}

SSL *tls_context_connection(const struct tls_context *c)
{
	return SSL_new(c->ctx);
}

bool tls_context_verifies(const struct tls_context *c)
{
	return c->verify;
}

bool tls_context_has_certificate(const struct tls_context *c)
{
	return SSL_CTX_get0_certificate(c->ctx) != NULL;
}

/* ---- what it is filled with ---- */

static BIO *open_bytes(const char *pem, size_t len)
{
	BIO *in = BIO_new_mem_buf(pem, (int)len);

	if (in == NULL)
		alloc_failed();
	ERR_clear_error();
	return in;
}

/* The end of the file is an error of PEM, too. */
static bool ended_well(void)
{
	unsigned long error = ERR_peek_last_error();
	bool end = ERR_GET_LIB(error) == ERR_LIB_PEM && ERR_GET_REASON(error) == PEM_R_NO_START_LINE;

	ERR_clear_error();
	return end;
}

/* Returns the reason that OpenSSL gives for the last failure, such as "ee key too small"; a constant. */
static const char *reason_or(const char *otherwise)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return reason == NULL ? otherwise : reason;
}

/* Hands over each certificate, which take() keeps or frees. */
static const char *read_certificates(struct tls_context *c, const char *pem, size_t len,
    int (*take)(struct tls_context *c, X509 *x, size_t nth))
{
	BIO *in = open_bytes(pem, len);
	bool taken = true;
	size_t n = 0;
	X509 *x;

	while (taken && (x = PEM_read_bio_X509(in, NULL, NULL, NULL)) != NULL)
		taken = take(c, x, n++) == 1;
	BIO_free(in);
	if (!taken)
		return reason_or("holds a certificate that OpenSSL refuses");
	if (!ended_well())
		return "holds a damaged certificate";
	return n == 0 ? "holds no certificate in PEM (-----BEGIN CERTIFICATE-----)" : NULL;
}

static int trust_one(struct tls_context *c, X509 *x, size_t nth)
{
	int ok = X509_STORE_add_cert(SSL_CTX_get_cert_store(c->ctx), x);

	(void)nth;
	X509_free(x);
	return ok;
}

const char *tls_context_trust(struct tls_context *c, const char *pem, size_t len)
{
	note_contents(c, "ca", pem, len);
	return read_certificates(c, pem, len, trust_one);
}

const char *tls_context_trust_directory(struct tls_context *c, const char *path)
{
	int ok = path == NULL ? SSL_CTX_set_default_verify_dir(c->ctx) : SSL_CTX_load_verify_dir(c->ctx, path);

	note_contents(c, "directory", path == NULL ? "" : path, path == NULL ? 0 : strlen(path));
	ERR_clear_error();
	return ok == 1 ? NULL : "cannot be used as a directory of certificates";
}

static int present_one(struct tls_context *c, X509 *x, size_t nth)
{
	int ok = nth == 0 ? SSL_CTX_use_certificate(c->ctx, x) : SSL_CTX_add1_chain_cert(c->ctx, x) == 1;

	X509_free(x);
	return ok;
}

const char *tls_context_use_certificate(struct tls_context *c, const char *pem, size_t len)
{
	note_contents(c, "certificate", pem, len);
	return read_certificates(c, pem, len, present_one);
}

/* A daemon has no operator who could type a passphrase. */
static int no_passphrase(char *out, int size, int writing, void *asked)
{
	(void)out;
	(void)size;
	(void)writing;
	*(bool *)asked = true;
	return -1;
}

const char *tls_context_use_key(struct tls_context *c, const char *pem, size_t len)
{
	BIO *in = open_bytes(pem, len);
	bool encrypted = false, fits;
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, no_passphrase, &encrypted);

	note_contents(c, "key", pem, len);
	BIO_free(in);
	if (key == NULL) {
		ERR_clear_error();
		return encrypted ? "is encrypted: quredis cannot type its passphrase (openssl pkey removes it)"
				 : "holds no private key in PEM (-----BEGIN PRIVATE KEY-----)";
	}
	fits = SSL_CTX_use_PrivateKey(c->ctx, key) == 1 && SSL_CTX_check_private_key(c->ctx) == 1;
	EVP_PKEY_free(key);
	ERR_clear_error();
	return fits ? NULL : "does not belong to the certificate";
}

const char *tls_context_system_directory(void)
{
	const char *given = getenv(X509_get_default_cert_dir_env());

	return given != NULL ? given : X509_get_default_cert_dir();
}

bool tls_context_expiry(const struct tls_context *c, struct tls_expiry *out)
{
	STACK_OF(X509) *chain = NULL;

	SSL_CTX_get0_chain_certs(c->ctx, &chain);
	return tls_expiry_of(SSL_CTX_get0_certificate(c->ctx), chain, out);
}

bool tls_context_equal(const struct tls_context *a, const struct tls_context *b)
{
	uint8_t of_a[SHA256_DIGEST_SIZE], of_b[SHA256_DIGEST_SIZE];
	struct sha256_ctx copy;

	if (a == NULL || b == NULL)
		return a == b;
	copy = a->contents;
	sha256_digest(&copy, sizeof(of_a), of_a);
	copy = b->contents;
	sha256_digest(&copy, sizeof(of_b), of_b);
	return memcmp(of_a, of_b, sizeof(of_a)) == 0;
}
