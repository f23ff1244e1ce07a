/* quredis web: the settings of the console, from the command line and from web{}, and its token. web/server.c serves
 * it. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/web/server.h"
#include "admin/web/web.h"

#include "common/base/base.h"

#define PORT "7379"			/* unless web.listen names one */
#define TOKEN_LENGTH_MIN 16
#define TOKEN_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/="	/* RFC 6750 */

/* -b overrides the host of web.listen, -p its port. */
static int settle_place(struct admin *a, struct web_settings *s)
{
	const char *listen = a->conf->web.listen, *bind = a->options.bind,
	    *path = address_unix_path(bind != NULL ? bind : listen);
	struct address address = { .port = PORT };

	if (path != NULL && a->options.web_port >= 0)
		return admin_fail(a, EX_USAGE, "-p: %s has no port", bind != NULL ? bind : listen);
	if (path == NULL && address_unix_path(listen) == NULL && address_parse(&address, listen) == -1)
		return admin_fail(a, EX_CONFIG,
		    "web.listen: expected \"host:port\", \"[address]:port\" or \"unix:/path\", not \"%s\"", listen);
	s->path = path == NULL ? NULL : alloc_string(path);
	s->host = alloc_string(path != NULL ? "localhost" : bind != NULL ? bind : address.host);
	s->port = a->options.web_port >= 0 ? alloc_format("%d", (int)a->options.web_port) : alloc_string(address.port);
	return 0;
}

/* The token with which programs use the API: from web.token_file, or random. */
static int read_token(struct admin *a, struct web_settings *s)
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
	if (strlen(s->token) < TOKEN_LENGTH_MIN || s->token[strspn(s->token, TOKEN_BYTES)] != '\0')
		return admin_fail(a, EX_CONFIG, "web.token_file: %s: expected one line of at least %d letters, digits "
		    "and -._~+/= (openssl rand -hex 32 makes one)", path, TOKEN_LENGTH_MIN);
	return 0;
}

static int settle_settings(struct admin *a, struct web_settings *s)
{
	s->read_only = a->conf->web.read_only;
	s->public_reads = a->conf->web.public_reads;
	s->behind_proxy = a->conf->web.behind_proxy;
	s->names = a->conf->web.hosts;
	return settle_place(a, s) == -1 ? -1 : read_token(a, s);
}

static void settings_free(struct web_settings *s)
{
	free(s->host);
	free(s->port);
	free(s->path);
	if (s->token != NULL)
		explicit_bzero(s->token, strlen(s->token));
	free(s->token);
}

int cmd_web(struct admin *a)
{
	struct web w = { .a = a };
	int rc = settle_settings(a, &w.settings);

	if (rc == 0)
		rc = web_serve(&w);
	settings_free(&w.settings);
	explicit_bzero(&w.sessions, sizeof(w.sessions));
	return rc;
}
