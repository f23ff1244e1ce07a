/* The token with which programs use the API: read from web.token_file, or made at the start. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/web.h"

#include "common/alloc.h"

#define LENGTH_MIN 16
#define BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="	/* of a token, RFC 6750 */

int web_token(struct admin *a, struct web_settings *s)
{
	const char *path = a->conf->web.token_file;
	char *why;

	s->token_made = path == NULL;
	if (s->token_made) {
		s->token = alloc_zero(WEB_SECRET_SIZE, 1);
		web_secret_make(s->token);
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
