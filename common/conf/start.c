/*
 * Judges the files that quredisd opens before it forks: log, lock file, file of the process id, control socket, and the
 * directory of an embedded Redis. Looks only, and makes nothing, so quredisd -t and quredis doctor use it as a start
 * does. A start opens them itself afterwards (supervisor/host/, supervisor/children/keeper.c), and knows more then,
 * such as who holds the lock.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (slash == NULL)
		return alloc_string(".");
	return alloc_copy(path, slash == path ? 1 : (size_t)(slash - path));
}

/* The directory of a file, without links and empty parts, also if its last part is missing. A new string: two spellings
 * of one directory give the same. */
static char *real_directory_of(const char *path)
{
	char *dir = directory_of(path), *real = realpath(dir, NULL), *above, *name;

	for (size_t len = strlen(dir); real == NULL && len > 1; dir[--len] = '\0')
		if (dir[len - 1] != '/' && (dir[len - 1] != '.' || dir[len - 2] != '/'))
			break;
	above = real == NULL ? directory_of(dir) : NULL;
	name = above == NULL ? NULL : strrchr(dir, '/');
	if (name != NULL && (real = realpath(above, NULL)) != NULL) {
		free(above);
		above = real;
		real = alloc_format("%s%s", strcmp(above, "/") == 0 ? "" : above, name);
	}
	free(above);
	if (real == NULL)
		return dir;
	free(dir);
	return real;
}

static bool may_use(const char *path, int rights)
{
	return faccessat(AT_FDCWD, path, rights, AT_EACCESS) == 0;
}

/* NULL: a file can be made in the directory, which is made if only the last part of its name is missing. Else why not.
 * Static. */
static const char *flaw_of_directory(const char *dir)
{
	char *above;
	bool can;

	if (may_use(dir, W_OK | X_OK))
		return NULL;
	if (errno != ENOENT)
		return strerror(errno);
	above = directory_of(dir);
	can = may_use(above, W_OK | X_OK);
	free(above);
	return can ? NULL : strerror(errno);
}

/* ---- files ---- */

#define KIND_FILE 1u
#define KIND_SOCKET 2u
#define KIND_STREAM 4u		/* a pipe, or a device such as a terminal */

struct start {
	const struct conf *conf;
	const char *pid_file;	/* NULL: none */
};

struct place {
	const char *key;
	int status;		/* of a start that fails there: sysexits(3) */
	char *(*flaw)(const struct place *p, const struct start *s);	/* a new string; NULL: none */
	const char *(*path)(const struct start *s);	/* NULL: none is opened */
	unsigned kinds;		/* that it may have, if it exists */
	int rights;		/* that this user needs on a file that exists */
	bool makes_directory;	/* the start makes the directory if it is missing */
	bool is_first;		/* opened before the directory of the lock file is made */
	const char *advice;
};

static const char *flaw_of_kind(const struct place *p, const struct conf *conf, const struct stat *st)
{
	if ((S_ISSOCK(st->st_mode) && (p->kinds & KIND_SOCKET) != 0) ||
	    ((S_ISFIFO(st->st_mode) || S_ISCHR(st->st_mode)) && (p->kinds & KIND_STREAM) != 0))
		return NULL;
	if (S_ISDIR(st->st_mode))
		return "is a directory";
	if (S_ISLNK(st->st_mode))
		return "is a symbolic link: name the file itself";
	if ((p->kinds & KIND_FILE) == 0)
		return "is not a socket: remove it";
	return file_flaw_for(st, p->is_first && conf->supervisor.as.switch_user ? conf->supervisor.as.uid : geteuid());
}

/* A socket is replaced, so it is its directory that matters. */
static char *flaw_of_rights(const struct place *p, const struct start *s, const char *path, bool exists)
{
	char *dir = real_directory_of(path), *of_lock = real_directory_of(s->conf->supervisor.lock_file), *flaw = NULL;
	bool is_made = p->makes_directory || (!p->is_first && strcmp(dir, of_lock) == 0);
	bool makes = p->makes_directory && !may_use(dir, F_OK) && errno == ENOENT;
	const char *why;

	if (exists && (p->kinds & KIND_SOCKET) == 0)
		why = may_use(path, p->rights) ? NULL : strerror(errno);
	else if (is_made)
		why = flaw_of_directory(dir);
	else
		why = may_use(dir, W_OK | X_OK) ? NULL : strerror(errno);
	if (why != NULL)
		flaw = alloc_format("%s: %s: %s", path,
		    makes ? "its directory cannot be made" : "cannot be opened", why);
	free(dir);
	free(of_lock);
	return flaw;
}

/* The log: a root that may not pass over modes opens it with the rights of supervisor.user, which only the start has.
 */
static char *flaw_of_file(const struct place *p, const struct start *s)
{
	const char *path = p->path(s), *kind = NULL;
	struct stat st;
	bool exists = path != NULL && lstat(path, &st) == 0;
	bool is_link = exists && S_ISLNK(st.st_mode), is_users = p->is_first && s->conf->supervisor.as.switch_user;
	char *flaw = path == NULL || is_link || is_users ? NULL : flaw_of_rights(p, s, path, exists);

	if (flaw == NULL && exists && (kind = flaw_of_kind(p, s->conf, &st)) != NULL)
		flaw = alloc_format("%s: %s", path, kind);
	return flaw;
}

static const char *path_of_log(const struct start *s)
{
	return s->conf->log.target[0] == '/' ? s->conf->log.target : NULL;
}

static const char *path_of_lock(const struct start *s)
{
	return s->conf->supervisor.lock_file;
}

static const char *path_of_socket(const struct start *s)
{
	return s->conf->supervisor.control_socket;
}

static const char *path_of_pid_file(const struct start *s)
{
	return s->pid_file;
}

/* ---- the directory of an embedded Redis ---- */

const char *conf_redis_dir_flaw(const struct conf *conf, const struct stat *st)
{
	const struct conf_run_as *own = &conf->supervisor.as;

	if (!S_ISDIR(st->st_mode))
		return "is no directory";
	if (st->st_uid != own->uid)
		return st->st_uid != 0 ? "belongs to another user"
		    : own->user == NULL
		    ? "belongs to root, not to the user who starts quredisd: chown -R it to that user"
		    : "belongs to root, but supervisor.user is another user: chown -R it to that user";
	if ((st->st_mode & 077) != 0)
		return "others may enter it; it must have mode 0700";
	/* without CAP_DAC_OVERRIDE, root may not enter it */
	return own->switch_user || may_use(conf->redis.dir, R_OK | W_OK | X_OK) ? NULL : strerror(errno);
}

static char *flaw_of_redis_dir(const struct place *p, const struct start *s)
{
	const struct conf *conf = s->conf;
	const char *dir = conf->redis.dir, *why = NULL;
	struct stat st;

	(void)p;
	if (!conf->redis.embedded || dir == NULL || dir[0] != '/')
		return NULL;
	/* a root that may not pass over modes does not see into a directory of supervisor.user: the start does */
	if (stat(dir, &st) == 0)
		why = conf_redis_dir_flaw(conf, &st);
	else if (!conf->supervisor.as.switch_user)
		why = errno == ENOENT ? flaw_of_directory(dir) : strerror(errno);
	return why == NULL ? NULL : alloc_format("%s: %s", dir, why);
}

/* In the order of a start. */
static const struct place places[] = {
	{ .key = "log.target", .status = EX_CANTCREAT, .flaw = flaw_of_file, .path = path_of_log,
	    .kinds = KIND_FILE | KIND_STREAM, .rights = W_OK, .is_first = true,
	    .advice = "set log.target to \"stderr\", or to a file where the supervisor's user may write" },
	{ .key = "supervisor.lock_file", .status = EX_CANTCREAT, .flaw = flaw_of_file, .path = path_of_lock,
	    .kinds = KIND_FILE, .rights = R_OK | W_OK, .makes_directory = true,
	    .advice = "set supervisor.lock_file to a path in a directory of this user, or start quredisd as root" },
	{ .key = "redis.dir", .status = EX_CONFIG, .flaw = flaw_of_redis_dir,
	    .advice = "make it a directory of this user with mode 0700; set another one only if it holds no message"
	},
	{ .key = "--pid-file", .status = EX_CANTCREAT, .flaw = flaw_of_file, .path = path_of_pid_file,
	    .kinds = KIND_FILE, .rights = R_OK | W_OK, .advice = "name a file in a directory of this user" },
	{ .key = "supervisor.control_socket", .status = EX_CANTCREAT, .flaw = flaw_of_file, .path = path_of_socket,
	    .kinds = KIND_SOCKET,
	    .advice = "set supervisor.control_socket to a path in a directory of this user, or start quredisd as root"
	},
};

int conf_start_check(const struct conf *conf, const char *pid_file, conf_start_flaw *found, void *arg)
{
	const struct start s = { conf, pid_file };
	int status = EX_OK;

	for (size_t i = 0; i < nitems(places); i++) {
		char *flaw = places[i].flaw(&places[i], &s);

		if (flaw != NULL)
			found(arg, places[i].key, flaw, places[i].advice);
		if (flaw != NULL && status == EX_OK)
			status = places[i].status;
		free(flaw);
	}
	return status;
}
