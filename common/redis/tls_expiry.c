/* When certificates end. */
#include <string.h>
#include <time.h>

#include <openssl/ssl.h>
#include <openssl/x509.h>

#include "common/redis/tls.h"

#include "common/base/base.h"

static void write_subject(const X509 *x, char *out, size_t size)
{
	BIO *text = BIO_new(BIO_s_mem());
	int n;

	if (text == NULL)
		alloc_failed();
	X509_NAME_print_ex(text, X509_get_subject_name(x), 0, XN_FLAG_ONELINE & ~ASN1_STRFLGS_ESC_MSB);
	n = BIO_read(text, out, (int)size - 1);
	out[n < 0 ? 0 : n] = '\0';
	BIO_free(text);
}

/* Keeps the earlier one. */
static void note_certificate(const X509 *x, struct tls_expiry *first, bool *known)
{
	struct tm tm = {0};
	int64_t at_s;

	if (ASN1_TIME_to_tm(X509_get0_notAfter(x), &tm) != 1)
		return;
	at_s = (int64_t)timegm(&tm);
	if (*known && at_s >= first->at_s)
		return;
	first->at_s = at_s;
	write_subject(x, first->subject, sizeof(first->subject));
	*known = true;
}

bool tls_expiry_of(const X509 *certificate, const STACK_OF(X509) *chain, struct tls_expiry *out)
{
	bool known = false;

	if (certificate != NULL)
		note_certificate(certificate, out, &known);
	for (int i = 0; i < sk_X509_num(chain); i++)		/* -1 of no chain */
		note_certificate(sk_X509_value(chain, i), out, &known);
	return known;
}
