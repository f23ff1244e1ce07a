/* quredis web: the console. What is asked for on the command line and in web{}, put together; web_server.c serves it. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/command.h"
#include "admin/web.h"

#include "common/address.h"
#include "common/alloc.h"

#define PORT "7379"			/* if web.listen names none */

/* -b overrides the host of web.listen, -p its port. */
static int settle_place(struct admin *a, struct web_settings *s)
{
	const char *listen = a->conf->web.listen, *bind = a->options.bind, *path = address_unix_path(bind != NULL ? bind : listen);
	struct address address = { .port = PORT };

	if (path != NULL && a->options.web_port >= 0)
		return admin_fail(a, EX_USAGE, "-p: %s has no port", bind != NULL ? bind : listen);
	if (path == NULL && address_unix_path(listen) == NULL && address_parse(&address, listen) == -1)
		return admin_fail(a, EX_CONFIG, "web.listen: expected \"host:port\", \"[address]:port\" or \"unix:/path\", not \"%s\"", listen);
	s->path = path == NULL ? NULL : alloc_string(path);
	s->host = alloc_string(path != NULL ? "localhost" : bind != NULL ? bind : address.host);
	s->port = a->options.web_port >= 0 ? alloc_format("%d", (int)a->options.web_port) : alloc_string(address.port);
	return 0;
}

static int settle(struct admin *a, struct web_settings *s)
{
	s->read_only = a->conf->web.read_only;
	s->public_reads = a->conf->web.public_reads;
	s->behind_proxy = a->conf->web.behind_proxy;
	s->names = a->conf->web.hosts;
	return settle_place(a, s) == -1 ? -1 : web_token(a, s);
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
	int rc = settle(a, &w.settings);

	if (rc == 0)
		rc = web_serve(&w);
	settings_free(&w.settings);
	explicit_bzero(&w.sessions, sizeof(w.sessions));
	return rc;
}
