/* quredis web: the console. What is asked for on the command line and in web{}, put together; web_server.c serves it. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/command.h"
#include "admin/web.h"

#include "common/address.h"
#include "common/alloc.h"

static int settle(struct admin *a, struct web_settings *s)
{
	struct address listen;

	if (address_parse(&listen, a->conf->web.listen) == -1)
		return admin_fail(a, EX_CONFIG, "web.listen: expected \"host:port\" or \"[address]:port\", not \"%s\"", a->conf->web.listen);
	s->host = alloc_string(a->options.bind != NULL ? a->options.bind : listen.host);
	s->port = a->options.web_port >= 0 ? alloc_format("%d", (int)a->options.web_port) : alloc_string(listen.port);
	s->read_only = a->conf->web.read_only;
	s->names = a->conf->web.hosts;
	return web_token(a, s);
}

static void settings_free(struct web_settings *s)
{
	free(s->host);
	free(s->port);
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
	return rc;
}
