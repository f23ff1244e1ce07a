/*
 * The password of Redis: out of its file, $CREDENTIALS_DIRECTORY or the address, into one place. Every other
 * copy made here is wiped.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"

#define PASSWORD_MAX 1024

mode_t conf_file_mode(const struct conf_loading *l, const struct conf_origin *where)
{
	for (size_t i = 0; i < l->nfiles; i++)
		if (where->from == l->conf->files[i])
			return l->modes[i];
	return 0;
}

/* scheme://user:password@rest becomes scheme://user@rest. */
static void split_url(struct conf_loading *l)
{
	struct conf *conf = l->conf;
	const struct conf_origin *where = conf_origin(conf, "redis.url");
	char *url = conf->redis.url, *login = strstr(url, "://"), *at = strrchr(url, '@'), *colon;

	if (login == NULL || login[3] == '/' || at == NULL || at < login + 3)	/* unix:///a@b has no login */
		return;
	login += 3;
	colon = memchr(login, ':', (size_t)(at - login));
	if (colon != NULL && colon + 1 < at)
		conf->redis.password = alloc_copy(colon + 1, (size_t)(at - colon - 1));
	conf->redis.user = (colon == NULL ? at : colon) == login ? NULL
	    : alloc_copy(login, (size_t)((colon == NULL ? at : colon) - login));
	conf->redis.url = conf->redis.user == NULL ? alloc_format("%.*s%s", (int)(login - url), url, at + 1)
	    : alloc_format("%.*s%s%s", (int)(login - url), url, conf->redis.user, at);
	explicit_bzero(url, strlen(url));
	free(url);
	if (conf->redis.password != NULL && where->kind == CONF_ORIGIN_FILE && (conf_file_mode(l, where) & 044) != 0)
		conf_error(l, where, "redis.url holds a password and others can read this file: chmod 600 %s, or use "
		    "redis.password_file", where->from);
}

/* The command line of a user who may not read the secret does what needs none. */
static void unreadable(struct conf_loading *l, const struct conf_origin *where, char *why)
{
	if ((l->flags & CONF_LENIENT_HANDLERS) != 0)
		conf_warning(l, where, "redis.password_file: %s", why);
	else
		conf_error(l, where, "redis.password_file: %s", why);
	free(why);
}

/* Where the secret lies; NULL: *why it cannot, and *wrong whether what is written there can never be. */
static char *secret_path(const char *file, bool *credential, char **why, bool *wrong)
{
	const char *dir = getenv("CREDENTIALS_DIRECTORY");

	*credential = file[0] != '/';
	*wrong = false;
	if (!*credential)
		return alloc_string(file);
	if (dir != NULL && strchr(file, '/') == NULL)
		return alloc_format("%s/%s", dir, file);
	*wrong = dir != NULL;
	*why = dir == NULL ? alloc_format("\"%s\" is looked for in $CREDENTIALS_DIRECTORY, which is not set", file)
	    : alloc_format("expected an absolute path or the name of a credential, not \"%s\"", file);
	return NULL;
}

/* One line; its end is not part of it. */
static const char *password_flaw(char *text, size_t *len)
{
	if (*len > 0 && text[*len - 1] == '\n')
		text[--*len] = '\0';
	if (*len == 0)
		return "is empty";
	if (*len > PASSWORD_MAX)
		return "is too long for a password";
	if (strlen(text) != *len || strpbrk(text, "\r\n") != NULL)
		return "holds more than one line of text";
	return NULL;
}

/* Credentials are put there by systemd with an ACL, which shows as a group's right to read. */
static mode_t forbidden_mode(bool credential)
{
	return credential ? 037 : 077;
}

/* Root's command line may read the file of the user that the daemon runs as. */
static void read_password(struct conf_loading *l, const char *path, bool credential, const struct conf_origin *where)
{
	mode_t mode;
	size_t len = 0;
	char *why = NULL, *text;
	const char *flaw;
	bool missing;

	text = conf_file_read(path, forbidden_mode(credential), (l->flags & CONF_LENIENT_HANDLERS) != 0, &len, &mode, &why, &missing);
	if (text == NULL) {
		unreadable(l, where, alloc_format("%s %s", path, why));
		free(why);
		return;
	}
	if ((l->flags & CONF_LENIENT_HANDLERS) == 0)
		conf_check_path(l, where, "redis.password_file", path, geteuid(), geteuid() == 0);
	flaw = password_flaw(text, &len);
	if (flaw == NULL && l->conf->redis.password == NULL) {
		l->conf->redis.password = text;
		return;
	}
	conf_error(l, where, "redis.password_file: %s %s", path,
	    flaw != NULL ? flaw : "cannot be used together with a password in redis.url");
	explicit_bzero(text, len);
	free(text);
}

static bool sets_values(char *const *env)
{
	for (; env != NULL && *env != NULL; env++)
		if (strchr(*env, '=') != NULL)
			return true;
	return false;
}

/* quredis cannot know which values are secrets, so this is a warning, once for each file. */
static void check_env_readers(struct conf_loading *l)
{
	const char *told = NULL;

	for (size_t i = 0; i < l->conf->nqueues; i++) {
		const struct conf_queue *q = l->conf->queues[i];
		const struct conf_origin *where = conf_queue_origin(q, "env");

		if (!sets_values(q->env) || (conf_file_mode(l, where) & S_IROTH) == 0 || where->from == told)
			continue;
		told = where->from;
		conf_warning(l, where, "env: everybody can read this file, and the values in it: chmod o-r %s", where->from);
	}
}

void conf_secrets(struct conf_loading *l)
{
	struct conf *conf = l->conf;
	const struct conf_origin *where = conf_origin(conf, "redis.password_file");
	bool credential, wrong;
	char *path, *why;

	if (conf->redis.url != NULL)
		split_url(l);
	if ((l->flags & CONF_LENIENT_HANDLERS) == 0)
		check_env_readers(l);
	if (conf->redis.password_file == NULL)
		return;
	path = secret_path(conf->redis.password_file, &credential, &why, &wrong);
	if (path != NULL) {
		read_password(l, path, credential, where);
	} else if (wrong) {
		conf_error(l, where, "redis.password_file: %s", why);
		free(why);
	} else {
		unreadable(l, where, why);
	}
	free(path);
}

char *conf_secret_read(const char *file, char **why)
{
	bool credential, missing;
	char *path = secret_path(file, &credential, why, &missing), *text, *flaw = NULL;
	const char *wrong;
	size_t len = 0;
	mode_t mode;

	if (path == NULL)
		return NULL;
	text = conf_file_read(path, forbidden_mode(credential), true, &len, &mode, &flaw, &missing);
	wrong = text == NULL ? flaw : password_flaw(text, &len);
	*why = wrong == NULL ? NULL : alloc_format("%s %s", path, wrong);
	if (wrong != NULL && text != NULL) {
		explicit_bzero(text, len);
		free(text);
		text = NULL;
	}
	free(flaw);
	free(path);
	return text;
}
