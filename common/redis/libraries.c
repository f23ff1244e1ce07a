/* See libraries.h. The numbers are those of Debian 12 with its security updates, as in bootstrap. */
#include <ctype.h>
#include <stdlib.h>

#include <hiredis/hiredis.h>
#include <jansson.h>
#include <openssl/crypto.h>

#include "common/redis/libraries.h"

#include "common/base/base.h"

#define TEXT(number) #number
#define DOTTED(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)

/* hiredis has no function that tells it: that of the headers, of which a library with the same ABI has at least the
 * functions. */
static const char *hiredis_version(void)
{
	return DOTTED(HIREDIS_MAJOR, HIREDIS_MINOR, HIREDIS_PATCH);
}

static const char *openssl_version(void)
{
	return OpenSSL_version(OPENSSL_VERSION_STRING);
}

const struct library libraries[] = {
	{ "hiredis", hiredis_version, "0.14.1" },
	{ "OpenSSL", openssl_version, "3.0.22" },
	{ "jansson", jansson_version_str, "2.14" },
};
const size_t libraries_count = nitems(libraries);

/* Compares the numbers; a suffix, as in "2.1.12-stable", does not count. */
bool libraries_older(const char *version, const char *least)
{
	while (isdigit((unsigned char)*least)) {
		char *after, *wanted;
		long a = strtol(version, &after, 10), b = strtol(least, &wanted, 10);

		if (a != b)
			return a < b;
		version = *after == '.' ? after + 1 : "";
		least = *wanted == '.' ? wanted + 1 : "";
	}
	return false;
}
