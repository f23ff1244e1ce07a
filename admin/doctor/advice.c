/* Completes the commands in an advice, so that an operator can copy them: with the options by which they find this
 * Redis. */
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

/* True: the text begins with the first word of a command of quredis. */
static bool begins_command(const struct command_table *commands, const char *text)
{
	for (size_t i = 0; i < commands->n; i++) {
		size_t len = strcspn(commands->all[i].name, " ");

		if (strncmp(text, commands->all[i].name, len) == 0 &&
		    strspn(text + len, "abcdefghijklmnopqrstuvwxyz-") == 0)
			return true;
	}
	return false;
}

/* "redis-cli -h HOST -p PORT --user USER", for the server that was checked: a new string. login false: without our
 * user. */
static char *redis_cli(const struct doctor *d, bool login)
{
	const struct redis_target *t = &d->a->target;
	char where[REDIS_ENDPOINT_SIZE] = "";
	struct buffer words = {0};
	struct redis_endpoint p;
	char *port = NULL;

	buffer_format(&words, "redis-cli");
	if (t->unix_path != NULL) {
		buffer_format(&words, " -s ");
		options_append_quoted(&words, t->unix_path);
	} else if (t->master == NULL && t->naddresses == 1)
		buffer_format(&words, " -h %s -p %d", t->addresses[0].host, t->addresses[0].port);
	else if (d->a->redis.state == REDIS_READY && redis_endpoint_of(&d->a->redis, &p))
		port = strrchr(redis_endpoint_format(&p, where), ':');
	if (port != NULL && where[0] == '[')		/* an IPv6 address: redis-cli takes no brackets */
		buffer_format(&words, " -h %.*s -p %s", (int)(port - where) - 2, where + 1, port + 1);
	else if (port != NULL)
		buffer_format(&words, " -h %.*s -p %s", (int)(port - where), where, port + 1);
	if (t->db > 0)
		buffer_format(&words, " -n %d", t->db);
	if (t->tls)
		buffer_format(&words, " --tls");
	if (login && t->login.user != NULL) {
		buffer_format(&words, " --user ");
		options_append_quoted(&words, t->login.user);
	}
	if (login && t->login.password != NULL)
		buffer_format(&words, " --askpass");
	buffer_append(&words, "", 1);
	return words.data;
}

char *advice_complete(const struct doctor *d, const char *advice, bool login)
{
	static const char redis_program[] = "redis-cli ", quredis_program[] = "quredis ";
	char *cli = redis_cli(d, login), *words = connection_words(d->a);
	struct buffer text = {0};

	while (advice[0] != '\0') {
		if (strncmp(advice, redis_program, strlen(redis_program)) == 0) {
			buffer_format(&text, "%s ", cli);
			advice += strlen(redis_program);
		} else if (strncmp(advice, quredis_program, strlen(quredis_program)) == 0 &&
		    begins_command(d->a->commands, advice + strlen(quredis_program))) {
			buffer_format(&text, "quredis%s ", words);
			advice += strlen(quredis_program);
		} else {
			buffer_append(&text, advice++, 1);
		}
	}
	buffer_append(&text, "", 1);
	free(cli);
	free(words);
	return text.data;
}
