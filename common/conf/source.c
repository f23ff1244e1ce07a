/*
 * Reads files: the configuration, and the password of Redis. Each file is opened once, checked on its descriptor, and
 * read whole.
 *
 * The configuration names the programs that run as other users, so a file that another user can change is refused. A
 * file with a secret must not be readable by others. The password ends in conf->redis.password alone, and the key of
 * TLS in its context: every other copy of them is wiped.
 */
#include <sys/stat.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* ---- files ---- */

#define FILE_MAX (1 << 20)

static char *flaw_of_file(const struct stat *st, const char *path, mode_t forbidden, bool any_owner)
{
	if (!S_ISREG(st->st_mode))
		return alloc_string(S_ISDIR(st->st_mode) ? "is a directory" : "is not a regular file");
	if (!any_owner && st->st_uid != 0 && st->st_uid != geteuid())
		return alloc_format("belongs to uid %u, expected root or uid %u: chown it", st->st_uid, geteuid());
	if ((st->st_mode & forbidden & 044) != 0)
		return alloc_format("can be read by others (mode %04o): chmod go-rwx %s", st->st_mode & 07777, path);
	if ((st->st_mode & forbidden) != 0 && !file_is_frozen(path))
		return alloc_format("can be written by others (mode %04o): chmod go-w %s", st->st_mode & 07777, path);
	if (st->st_size > FILE_MAX)
		return alloc_format("is larger than %d bytes", FILE_MAX);
	return NULL;
}

/* Reads until the end, at most FILE_MAX bytes: the file may have grown since fstat(). NULL: errno. */
static char *read_all(int fd, size_t *len)
{
	char *data = alloc_zero(FILE_MAX + 1, 1), *copy;
	ssize_t n;

	*len = 0;
	do {
		n = read(fd, data + *len, FILE_MAX - *len);
		*len += n > 0 ? (size_t)n : 0;
	} while ((n > 0 && *len < FILE_MAX) || (n == -1 && errno == EINTR));
	copy = n == -1 ? NULL : alloc_copy(data, *len);
	explicit_bzero(data, *len);
	free(data);
	return copy;
}

/*
 * path must be a regular file of root's or ours (any_owner: of any user's) without any bit of `forbidden`. Returns new
 * bytes, which the caller wipes. NULL: *why is a new string that says what to do, and *missing whether there is no such
 * file.
 */
static char *read_file(const char *path, mode_t forbidden, bool any_owner, size_t *len, mode_t *mode, char **why,
    bool *missing)
{
	struct stat st;
	char *data = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	*why = NULL;
	*missing = fd == -1 && (errno == ENOENT || errno == ENOTDIR);
	if (fd == -1) {
		*why = *missing ? alloc_string("does not exist") : alloc_format("cannot be read: %s", strerror(errno));
		return NULL;
	}
	if (fstat(fd, &st) == -1)
		*why = alloc_format("cannot be examined: %s", strerror(errno));
	else
		*why = flaw_of_file(&st, path, forbidden, any_owner);
	if (*why == NULL) {
		*mode = st.st_mode & 07777;
		data = read_all(fd, len);
		if (data == NULL)
			*why = alloc_format("cannot be read: %s", strerror(errno));
	}
	close(fd);
	return data;
}

static const char *add_file(struct conf_loading *l, const char *path)
{
	struct conf *conf = l->conf;

	conf->files = alloc_resize(conf->files, l->nfiles + 2, sizeof(*conf->files));
	l->modes = alloc_resize(l->modes, l->nfiles + 1, sizeof(*l->modes));
	conf->files[l->nfiles] = alloc_string(path);
	conf->files[l->nfiles + 1] = NULL;
	l->modes[l->nfiles] = 0;
	return conf->files[l->nfiles++];
}

/* libconfig takes a comment on the last line for a mistake unless a newline follows. */
static void end_last_line(struct conf_source *s)
{
	char *whole;

	if (s->len == 0 || s->text[s->len - 1] == '\n')
		return;
	whole = alloc_zero(s->len + 2, 1);
	memcpy(whole, s->text, s->len);
	whole[s->len] = '\n';
	explicit_bzero(s->text, s->len);
	free(s->text);
	s->text = whole;
	s->len++;
}

int conf_source_read(struct conf_loading *l, const char *path, struct conf_source *s)
{
	char *why;
	bool missing;

	*s = (struct conf_source){ .name = add_file(l, path) };
	s->text = read_file(path, S_IWGRP | S_IWOTH, false, &s->len, &l->modes[l->nfiles - 1], &why, &missing);
	if (s->text != NULL) {
		end_last_line(s);
		return 0;
	}
	conf_error(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, s->name }, "the configuration file %s", why);
	free(why);
	return -1;
}

void conf_source_free(struct conf_source *s)
{
	if (s->text != NULL)
		explicit_bzero(s->text, s->len);	/* may hold an address with a password in it */
	free(s->text);
	free(s->wrapped);
	*s = (struct conf_source){0};
}

static int is_fragment(const struct dirent *d)
{
	size_t len = strlen(d->d_name);

	return d->d_name[0] != '.' && len > 5 && strcmp(d->d_name + len - 5, ".conf") == 0;
}

static int by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* The directory must be as safe as the files: a user who can write to it can move a file of root into it. */
static bool directory_usable(struct conf_loading *l, const char *dir)
{
	struct stat st;
	struct conf_origin where = { CONF_ORIGIN_FILE, 0, dir };

	if (stat(dir, &st) == -1) {
		if (errno != ENOENT)
			conf_error(l, &where, "the directory cannot be examined: %s", strerror(errno));
		return false;
	}
	if (!S_ISDIR(st.st_mode))
		conf_error(l, &where, "is not a directory");
	else if (st.st_uid != 0 && st.st_uid != geteuid())
		conf_error(l, &where, "belongs to uid %u, expected root or uid %u: chown it", st.st_uid, geteuid());
	else if ((st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !file_is_frozen(dir))
		conf_error(l, &where, "can be written by others (mode %04o): chmod go-w %s", st.st_mode & 07777, dir);
	else
		return true;
	return false;
}

char **conf_fragments(struct conf_loading *l, const char *path)
{
	const char *slash = strrchr(path, '/');
	char *dir = alloc_format("%.*sconf.d", slash == NULL ? 0 : (int)(slash - path + 1), path);
	struct dirent **entries = NULL;
	char **list;
	int n = 0;

	if (directory_usable(l, dir)) {
		n = scandir(dir, &entries, is_fragment, by_bytes);
		if (n == -1)
			conf_error(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, dir },
			    "the directory cannot be read: %s", strerror(errno));
	}
	list = alloc_zero((size_t)(n < 0 ? 0 : n) + 1, sizeof(*list));
	for (int i = 0; i < n; i++) {
		list[i] = alloc_format("%s/%s", dir, entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	free(dir);
	return list;
}

/* ---- secrets: the password of Redis, and other files that a key names ---- */

#define PASSWORD_MAX 1024

mode_t conf_file_mode(const struct conf_loading *l, const struct conf_origin *where)
{
	for (size_t i = 0; i < l->nfiles; i++)
		if (where->from == l->conf->files[i])
			return l->modes[i];
	return 0;
}

/* A part of the login in redis.url, decoded; NULL: it is empty, or an error of this load. */
static char *decode_login(struct conf_loading *l, struct conf_origin *where, const char *text, const char *end)
{
	char *decoded = text == end ? NULL : redis_url_decode(text, (size_t)(end - text));

	if (decoded == NULL && text != end && where->kind != CONF_ORIGIN_BAD) {
		conf_error(l, where, "redis.url: %s", REDIS_URL_BAD_LOGIN);
		where->kind = CONF_ORIGIN_BAD;
	}
	return decoded;
}

/* scheme://user:password@rest becomes scheme://user@rest. */
static void split_url(struct conf_loading *l)
{
	struct conf *conf = l->conf;
	struct conf_origin *where = conf_origin(conf, "redis.url");
	char *url = conf->redis.url, *login = strstr(url, "://"), *at = strrchr(url, '@'), *colon;

	if (login == NULL || login[3] == '/' || at == NULL || at < login + 3)	/* unix:///a@b has no login */
		return;
	login += 3;
	colon = memchr(login, ':', (size_t)(at - login));
	conf->redis.url_had_password = colon != NULL && colon + 1 < at;
	if (colon != NULL)
		conf->redis.password = decode_login(l, where, colon + 1, at);
	else
		colon = at;
	conf->redis.user = decode_login(l, where, login, colon);
	conf->redis.url = alloc_format("%.*s%s", (int)(colon - url), url, colon == login ? at + 1 : at);
	explicit_bzero(url, strlen(url));
	free(url);
}

int conf_report_unreadable(struct conf_loading *l, const char *key, char *why)
{
	if ((l->flags & CONF_LENIENT_HANDLERS) != 0)
		conf_warning(l, conf_origin(l->conf, key), "%s: %s", key, why);
	else
		conf_error(l, conf_origin(l->conf, key), "%s: %s", key, why);
	free(why);
	return -1;
}

/* Returns the path of the secret. NULL: *why is the reason, and *wrong is true if `file` is invalid on every host. */
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
	*why = dir == NULL ? alloc_format("\"%s\" is the name of a credential, but $CREDENTIALS_DIRECTORY is not set",
	    file) : alloc_format("expected an absolute path or the name of a credential, not \"%s\"", file);
	return NULL;
}

/* Removes the newline at the end. Returns what is wrong with the password; NULL: nothing. */
static const char *password_flaw(char *text, size_t *len)
{
	if (*len > 0 && text[*len - 1] == '\n')
		text[--*len] = '\0';
	if (*len == 0)
		return "is empty";
	if (*len > PASSWORD_MAX)
		return "is too long for a password";
	if (strncmp(text, "\xef\xbb\xbf", 3) == 0)
		return "begins with a byte order mark of UTF-8: save it without one";
	if (strlen(text) != *len || strpbrk(text, "\r\n") != NULL)
		return "holds more than one line of text";
	return NULL;
}

/* systemd gives a credential an ACL, which stat() shows as read permission of the group. */
static mode_t forbidden_mode(bool credential)
{
	return credential ? 037 : 077;
}

void conf_named_free(struct conf_named *n)
{
	if (n->text != NULL)
		explicit_bzero(n->text, n->len);
	free(n->text);
	free(n->path);
	*n = (struct conf_named){0};
}

/* The command line accepts a file of any owner: root may use the file of the daemon's user. */
static int read_named(struct conf_loading *l, const char *key, mode_t forbidden, struct conf_named *out)
{
	bool lenient = (l->flags & CONF_LENIENT_HANDLERS) != 0, missing;
	char *why, *shown;
	mode_t mode;

	out->text = read_file(out->path, forbidden, lenient, &out->len, &mode, &why, &missing);
	if (out->text == NULL) {
		shown = alloc_format("%s %s", out->path, why);
		free(why);
		conf_named_free(out);
		return conf_report_unreadable(l, key, shown);
	}
	if (!lenient)
		conf_check_path(l, conf_origin(l->conf, key), key, out->path, geteuid(), geteuid() == 0);
	return 0;
}

int conf_named_read(struct conf_loading *l, const char *key, const char *file, struct conf_named *out)
{
	bool secret = conf_key_find(&conf_schema_global, key)->secret == CONF_SECRET_FILE;
	bool credential, wrong;
	char *why;

	*out = (struct conf_named){ .path = secret_path(file, &credential, &why, &wrong) };
	if (out->path != NULL)
		return read_named(l, key, secret ? forbidden_mode(credential) : S_IWGRP | S_IWOTH, out);
	if (!wrong)
		return conf_report_unreadable(l, key, why);
	conf_error(l, conf_origin(l->conf, key), "%s: %s", key, why);
	free(why);
	return -1;
}

static void use_password(struct conf_loading *l, const char *key, struct conf_named *n, char **password)
{
	const char *flaw = password_flaw(n->text, &n->len);

	if (flaw == NULL && *password == NULL) {
		*password = n->text;
		n->text = NULL;
		return;
	}
	conf_error(l, conf_origin(l->conf, key), "%s: %s %s", key, n->path,
	    flaw != NULL ? flaw : "cannot be used together with a password in redis.url");
}

/* quredis cannot know which values of a list are secrets, so that is a warning, once for each file. */
static void check_readers(struct conf_loading *l, const struct conf_schema *schema, const void *base,
    const struct conf_origin *origins, const char **warned)
{
	for (size_t i = 0; i < schema->n; i++) {
		const struct conf_key *key = &schema->keys[i];
		const char *file = origins[i].from;
		mode_t mode = conf_file_mode(l, &origins[i]);

		if (!conf_value_holds_secret(key, base))
			continue;
		if (key->secret == CONF_SECRET_PART && (mode & (S_IRGRP | S_IROTH)) != 0)
			conf_error(l, &origins[i], "%s holds a password and others can read this file: chmod 600 %s, "
			    "or use redis.password_file", key->path, file);
		if (key->secret != CONF_SECRET_VALUES || (mode & S_IROTH) == 0 || file == *warned ||
		    (l->flags & CONF_LENIENT_HANDLERS) != 0)
			continue;
		*warned = file;
		conf_warning(l, &origins[i], "%s: every user can read this file, and the values in it: chmod o-r %s",
		    key->path, file);
	}
}

static void load_password(struct conf_loading *l, const char *key, const char *file, char **password)
{
	struct conf_named n;

	if (file == NULL || conf_named_read(l, key, file, &n) == -1)
		return;
	use_password(l, key, &n, password);
	conf_named_free(&n);
}

void conf_secrets(struct conf_loading *l)
{
	struct conf *conf = l->conf;
	const char *warned = NULL;

	if (conf->redis.url != NULL)
		split_url(l);
	check_readers(l, &conf_schema_global, conf, conf->origins, &warned);
	for (size_t i = 0; i < conf->nqueues; i++)
		check_readers(l, &conf_schema_queue, conf->queues[i], conf->queues[i]->origins, &warned);
	load_password(l, "redis.password_file", conf->redis.password_file, &conf->redis.password);
	load_password(l, "redis.sentinel_password_file", conf->redis.sentinel_password_file,
	    &conf->redis.sentinel_password);
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
	text = read_file(path, forbidden_mode(credential), true, &len, &mode, &flaw, &missing);
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
