/* Tells an operator what a failure of TLS means: OpenSSL's error, the state of the certificate or of the socket, in
 * words that say what to change. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>

#include "common/redis/tls.h"

#include "common/base/base.h"

#define SPEAKS_TLS "does the server speak TLS on this port?"

/* ---- the server's certificate ---- */

#define NOT_FOR ": it must have the name or address by which redis.url, redis.sentinels, a Sentinel or a node of a " \
    "Cluster names the server"

static const struct {
	long code;
	const char *before, *after;	/* the host stands between them; after NULL: it is not shown */
} verify_errors[] = {
	{ X509_V_ERR_CERT_HAS_EXPIRED, "the server's certificate, or one of its CAs, has expired", NULL },
	{ X509_V_ERR_CERT_NOT_YET_VALID,
	    "the server's certificate, or one of its CAs, is not valid yet: check the clock of this host", NULL },
	{ X509_V_ERR_HOSTNAME_MISMATCH, "the server's certificate is not for the name ", NOT_FOR },
	{ X509_V_ERR_IP_ADDRESS_MISMATCH, "the server's certificate is not for the address ", NOT_FOR },
};

static bool is_unknown_ca(long code)
{
	return code == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT || code == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
	    code == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE || code == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
	    code == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
}

/* Behind the text of an expired certificate: when that was. */
static void append_expiry(const struct tls_failure *f, char *out, size_t size)
{
	struct tls_expiry expiry;
	char date[CLOCK_RFC3339_SIZE];
	size_t n = strlen(out);

	if (tls_expiry_of(NULL, SSL_get0_verified_chain(f->ssl), &expiry))
		snprintf(out + n, size - n, " on %.10s (%s)", clock_rfc3339(expiry.at_s * 1000, date), expiry.subject);
}

static void write_verify(const struct tls_failure *f, char *out, size_t size)
{
	long code = SSL_get_verify_result(f->ssl);
	const char *text = X509_verify_cert_error_string(code);

	for (size_t i = 0; i < nitems(verify_errors); i++)
		if (code == verify_errors[i].code) {
			bool shows_host = verify_errors[i].after != NULL;

			snprintf(out, size, "%s%s%s", verify_errors[i].before, shows_host ? f->host : "",
			    shows_host ? verify_errors[i].after : "");
			if (code == X509_V_ERR_CERT_HAS_EXPIRED)
				append_expiry(f, out, size);
			return;
		}
	if (is_unknown_ca(code))
		snprintf(out, size,
		    "the server's certificate is of an unknown CA (%s): set redis.ca_file or redis.ca_dir", text);
	else
		snprintf(out, size, "the server's certificate is refused: %s", text);
}

/* ---- alerts of the server ---- */

/* -1: the error is no alert of the peer. */
static int alert_of(unsigned long error)
{
	int alert = ERR_GET_REASON(error) - SSL_AD_REASON_OFFSET;

	return ERR_GET_LIB(error) == ERR_LIB_SSL && alert >= 0 && alert <= 255 ? alert : -1;
}

bool tls_error_is_alert(void)
{
	return alert_of(ERR_peek_error()) != -1;
}

static bool is_about_certificate(int alert)
{
	return (alert >= SSL3_AD_NO_CERTIFICATE && alert <= SSL3_AD_CERTIFICATE_UNKNOWN) ||
	    alert == TLS1_AD_UNKNOWN_CA || alert == TLS1_AD_ACCESS_DENIED || alert == TLS1_AD_DECRYPT_ERROR;
}

static void write_alert(const struct tls_failure *f, unsigned long error, char *out, size_t size)
{
	int alert = alert_of(error);

	if (alert == SSL_AD_CERTIFICATE_REQUIRED ||
	    (f->asked && !f->presented && (alert == SSL_AD_HANDSHAKE_FAILURE || is_about_certificate(alert))))
		snprintf(out, size, "the server requires a client certificate: set redis.cert_file and redis.key_file");
	else if (f->presented && is_about_certificate(alert))
		snprintf(out, size, "the server refuses the client certificate of redis.cert_file: %s",
		    SSL_alert_desc_string_long(alert));
	else if (alert == SSL_AD_PROTOCOL_VERSION)
		snprintf(out, size, "the server supports no version of TLS that quredis accepts: 1.2 or later");
	else
		snprintf(out, size, "the server refuses the TLS connection: %s", SSL_alert_desc_string_long(alert));
}

/* ---- all failures ---- */

/* The socket failed, or the peer said that no more comes. Returns whether the peer ended the connection. */
static bool write_end(const struct tls_failure *f, char *out, size_t size)
{
	bool closed = f->ended || f->io_errno == 0 || f->io_errno == ECONNRESET || f->io_errno == EPIPE;

	if (!f->ready && f->nothing && closed)
		snprintf(out, size, "the server closed the connection in the TLS handshake: " SPEAKS_TLS);
	else if (f->io_errno != 0 && !f->ended)		/* after an end OpenSSL sends an alert, which may fail */
		snprintf(out, size, "%s", strerror(f->io_errno));
	else
		snprintf(out, size, f->ready ? "Server closed the connection"
		    : "the server closed the connection in the TLS handshake");
	return closed;
}

static void write_other(unsigned long error, char *out, size_t size)
{
	const char *reason = ERR_reason_error_string(error);

	if (ERR_GET_LIB(error) == ERR_LIB_SSL && ERR_GET_REASON(error) == SSL_R_UNSUPPORTED_PROTOCOL)
		snprintf(out, size, "the server supports no version of TLS that quredis accepts: 1.2 or later");
	else
		snprintf(out, size, "TLS failed: %s", reason == NULL ? "OpenSSL gives no reason" : reason);
}

/* An earlier case explains more than a later one. */
bool tls_error_write(const struct tls_failure *f, char *out, size_t size)
{
	unsigned long error = ERR_peek_error();
	bool closed = false;

	if (f->plain && !f->ready)
		snprintf(out, size, "the server answers in plain text: " SPEAKS_TLS);
	else if (!f->ready && ERR_GET_LIB(error) == ERR_LIB_SSL &&
	    ERR_GET_REASON(error) == SSL_R_CERTIFICATE_VERIFY_FAILED)
		write_verify(f, out, size);
	else if (alert_of(error) != -1)
		write_alert(f, error, out, size);
	else if (f->ended || f->io_errno != 0 || (error == 0 && f->ready))
		closed = write_end(f, out, size);
	else
		write_other(error, out, size);
	ERR_clear_error();
	return closed;
}
