/* The token that who changes something must have: from a file, or made at start. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "admin/web.h"

#include "common/alloc.h"

#define RANDOM_BYTES 32
#define LENGTH_MIN 16
#define BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="	/* of a token, RFC 6750 */

static char *make(void)
{
	unsigned char bytes[RANDOM_BYTES];
	char *text = alloc_zero(2 * sizeof(bytes) + 1, 1);

	arc4random_buf(bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	explicit_bzero(bytes, sizeof(bytes));
	return text;
}

int web_token(struct admin *a, struct web_settings *s)
{
	const char *path = a->conf->web.token_file;
	char *why;

	s->token_made = path == NULL;
	if (s->token_made) {
		s->token = make();
		return 0;
	}
	s->token = conf_secret_read(path, &why);
	if (s->token == NULL) {
		admin_fail(a, EX_NOPERM, "web.token_file: %s", why);
		free(why);
		return -1;
	}
	if (strlen(s->token) < LENGTH_MIN || s->token[strspn(s->token, BYTES)] != '\0')
		return admin_fail(a, EX_CONFIG, "web.token_file: %s: expected one line of at least %d letters, digits and -._~+/= (openssl rand -hex 32 "
		    "makes one)", path, LENGTH_MIN);
	return 0;
}
