/*
 * TLS to Redis: reads the files of certificates and of the key, and makes the context that all connections of the
 * configuration share. The load does this once, in the master: a worker opens no such file, and a reload sees whether
 * their contents changed.
 *
 * An error leaves no context, and without one no connection of a rediss:// address is opened. So a file that is missing
 * never weakens the verification.
 */
#include <sys/stat.h>

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"
#include "common/redis/redis.h"

static const char *const keys[] = { "redis.ca_file", "redis.ca_dir", "redis.cert_file", "redis.key_file",
    "redis.tls_verify" };

/* Fills the context from one file. */
static int use_file(struct conf_loading *l, const char *key, const char *file,
    const char *(*use)(struct tls_context *c, const char *pem, size_t len))
{
	struct conf_named n;
	const char *flaw;

	if (file == NULL)
		return 0;
	if (conf_named_read(l, key, file, &n) == -1)
		return -1;
	flaw = use(l->conf->redis.tls, n.text, n.len);
	if (flaw != NULL)
		conf_error(l, conf_origin(l->conf, key), "%s: %s %s", key, n.path, flaw);
	conf_named_free(&n);
	return flaw == NULL ? 0 : -1;
}

/* OpenSSL finds a CA by the hash of its name: "4a6481c9.0". */
static bool is_hashed_name(const char *name)
{
	for (int i = 0; i < 8; i++)
		if (!isxdigit((unsigned char)name[i]))
			return false;
	return name[8] == '.' && isdigit((unsigned char)name[9]);
}

static bool has_hashed_names(const char *path)
{
	DIR *dir = opendir(path);
	const struct dirent *entry;
	bool found = false;

	if (dir == NULL)
		return false;
	while (!found && (entry = readdir(dir)) != NULL)
		found = is_hashed_name(entry->d_name);
	closedir(dir);
	return found;
}

static int use_directory(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct conf_origin *where = conf_origin(conf, "redis.ca_dir");
	const char *flaw;
	struct stat st;

	if (stat(conf->redis.ca_dir, &st) == -1)
		flaw = errno == ENOENT ? "does not exist" : strerror(errno);
	else if (!S_ISDIR(st.st_mode))
		flaw = "is not a directory";
	else
		flaw = tls_context_trust_directory(conf->redis.tls, conf->redis.ca_dir);
	if (flaw != NULL)
		return conf_report_unreadable(l, "redis.ca_dir", alloc_format("%s %s", conf->redis.ca_dir, flaw));
	if (!has_hashed_names(conf->redis.ca_dir))
		conf_warning(l, where,
		    "redis.ca_dir: no CA can be found in %s, because no file has a hashed name: openssl rehash %s",
		    conf->redis.ca_dir, conf->redis.ca_dir);
	if ((l->flags & CONF_LENIENT_HANDLERS) == 0)
		conf_check_path(l, where, "redis.ca_dir", conf->redis.ca_dir, geteuid(), geteuid() == 0);
	return 0;
}

/* The directory and not the bundle: OpenSSL loads a bundle whole, and each process would have its own copy of 140
 * CAs. */
static int use_system(struct conf_loading *l)
{
	const char *dir = tls_context_system_directory(), *flaw = tls_context_trust_directory(l->conf->redis.tls, NULL);
	const struct conf_origin *where = conf_origin(l->conf, "redis.url");

	if (flaw != NULL)
		conf_error(l, where, "the system's CAs: %s %s", dir, flaw);
	else if (l->conf->redis.tls_verify && !has_hashed_names(dir))
		conf_warning(l, where,
		    "no CA is known: %s has no file with a hashed name. Install ca-certificates, or set redis.ca_file",
		    dir);
	return flaw == NULL ? 0 : -1;
}

static int use_trusted(struct conf_loading *l)
{
	const struct conf *conf = l->conf;

	if (conf->redis.ca_file == NULL && conf->redis.ca_dir == NULL)
		return use_system(l);
	if (use_file(l, "redis.ca_file", conf->redis.ca_file, tls_context_trust) == -1)
		return -1;
	return conf->redis.ca_dir == NULL ? 0 : use_directory(l);
}

static int use_own(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	bool certificate = conf->redis.cert_file != NULL;

	if (certificate != (conf->redis.key_file != NULL)) {
		conf_error(l, conf_origin(conf, certificate ? "redis.cert_file" : "redis.key_file"),
		    certificate ? "redis.cert_file requires redis.key_file"
		    : "redis.key_file requires redis.cert_file");
		return -1;
	}
	if (use_file(l, "redis.cert_file", conf->redis.cert_file, tls_context_use_certificate) == -1)
		return -1;
	return use_file(l, "redis.key_file", conf->redis.key_file, tls_context_use_key);
}

/* whose: whom the password is for. It is in the value of the key `file`, or else of `otherwise`. */
static void warn_of_plain_password(struct conf_loading *l, const char *whose, const char *file, const char *otherwise,
    const char *advice)
{
	const struct conf_origin *where = conf_origin(l->conf, file);

	conf_warning(l, conf_given(where) ? where : conf_origin(l->conf, otherwise),
	    "the password of %s crosses the network in plain text, and whoever reads it there can use it: %s", whose,
	    advice);
}

/* Warns of text that is sent in plain although it is a secret, or decides which server gets one. Within this host it
 * crosses no network. */
static void warn_of_plain_text(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct redis_options options = conf_redis_options(conf);
	struct redis_target t;
	char unused[256];
	bool server_is_remote;

	if (conf->redis.embedded || conf->redis.url == NULL ||
	    redis_target_parse(&t, &options, unused, sizeof(unused)) == -1)
		return;		/* check.c has reported the error */
	if (t.tls && t.master != NULL && !t.sentinel_tls)
		conf_warning(l, conf_origin(conf, "redis.sentinel_tls"),
		    "redis.sentinel_tls = false: anyone who can redirect the connection to a Sentinel can name any "
		    "server whose certificate is trusted, and that server gets the password");
	/* Sentinels of this host may name a server of another */
	server_is_remote = redis_target_is_remote(&t) || t.master != NULL;
	if (server_is_remote && !t.tls && (t.login.password != NULL || conf->redis.password_file != NULL))
		warn_of_plain_password(l, "Redis", "redis.password_file", "redis.url", "use rediss://");
	if (redis_target_is_remote(&t) && t.master != NULL && !t.sentinel_tls &&
	    (conf->redis.sentinel_password != NULL || conf->redis.sentinel_password_file != NULL))
		warn_of_plain_password(l, "the Sentinels", "redis.sentinel_password_file", "redis.sentinels",
		    "set redis.sentinel_tls = true");
	redis_target_free(&t);
}

void conf_tls(struct conf_loading *l)
{
	struct conf *conf = l->conf;
	const char *why;

	warn_of_plain_text(l);
	if ((l->flags & CONF_TLS) == 0 && !conf->redis.sentinel_tls &&
	    (conf->redis.url == NULL || strncmp(conf->redis.url, "rediss://", 9) != 0)) {
		for (size_t i = 0; i < nitems(keys); i++)
			if (conf_given(conf_origin(conf, keys[i])))
				conf_warning(l, conf_origin(conf, keys[i]),
				    "%s has no effect: redis.url does not begin with rediss://", keys[i]);
		return;
	}
	if (!conf->redis.tls_verify)
		conf_warning(l, conf_origin(conf, "redis.tls_verify"),
		    "redis.tls_verify = false: anyone who can redirect the connection can read and forge all messages. "
		    "Set redis.ca_file instead");
	conf->redis.tls = tls_context_new(conf->redis.tls_verify, &why);
	if (conf->redis.tls == NULL) {
		conf_error(l, conf_origin(conf, "redis.url"), "TLS is not available: %s", why);
		return;
	}
	if (use_trusted(l) == 0 && use_own(l) == 0)
		return;
	tls_context_free(conf->redis.tls);
	conf->redis.tls = NULL;
}
