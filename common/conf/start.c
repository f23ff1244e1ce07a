/*
 * Judges the files that quredisd opens before it forks: the lock file, the control socket, the directory of an embedded
 * Redis. Looks only, and makes nothing, so quredisd -t and quredis doctor use it as a start does. A start opens them
 * itself afterwards (supervisor/host/, supervisor/children/keeper.c), and knows more then, such as who holds the lock.
 */
#include <sys/stat.h>
#include <sys/un.h>

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
	size_t len = (size_t)(strrchr(path, '/') - path);

	return alloc_copy(path, len == 0 ? 1 : len);
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

static char *flaw_of_lock(const struct conf *conf)
{
	const char *path = conf->supervisor.lock_file, *why = NULL;
	char *dir = directory_of(path);
	bool makes = !may_use(dir, F_OK) && errno == ENOENT;

	if (may_use(path, F_OK))
		why = may_use(path, R_OK | W_OK) ? NULL : strerror(errno);
	else
		why = flaw_of_directory(dir);
	free(dir);
	return why == NULL ? NULL
	    : alloc_format("%s: %s: %s", path, makes ? "its directory cannot be made" : "cannot be opened", why);
}

/* Its directory is not made, but that of the lock file is, which may be the same. */
static char *flaw_of_socket(const struct conf *conf)
{
	const char *path = conf->supervisor.control_socket, *why;
	char *dir = directory_of(path), *of_lock = directory_of(conf->supervisor.lock_file);

	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		why = "too long for the name of a socket";
	else if (strcmp(dir, of_lock) == 0)
		why = flaw_of_directory(dir);
	else
		why = may_use(dir, W_OK | X_OK) ? NULL : strerror(errno);
	free(dir);
	free(of_lock);
	return why == NULL ? NULL : alloc_format("%s cannot be made: %s", path, why);
}

const char *conf_redis_dir_flaw(const struct conf *conf, const struct stat *st)
{
	const struct conf_run_as *own = &conf->supervisor.as;

	if (!S_ISDIR(st->st_mode))
		return "is no directory";
	if (st->st_uid != own->uid)
		return st->st_uid != 0 ? "belongs to another user"
		    : own->user == NULL ? "belongs to root, not to the user who starts quredisd: chown -R it to that user"
		    : "belongs to root, but supervisor.user is another user: chown -R it to that user";
	if ((st->st_mode & 077) != 0)
		return "others may enter it; it must have mode 0700";
	/* without CAP_DAC_OVERRIDE, root may not enter it */
	return own->switch_user || may_use(conf->redis.dir, R_OK | W_OK | X_OK) ? NULL : strerror(errno);
}

static char *flaw_of_redis_dir(const struct conf *conf)
{
	const char *dir = conf->redis.dir, *why = NULL;
	struct stat st;

	if (!conf->redis.embedded || dir == NULL || dir[0] != '/')
		return NULL;
	/* a root that may not pass over modes does not see into a directory of supervisor.user: the start does */
	if (stat(dir, &st) == 0)
		why = conf_redis_dir_flaw(conf, &st);
	else if (!conf->supervisor.as.switch_user)
		why = errno == ENOENT ? flaw_of_directory(dir) : strerror(errno);
	return why == NULL ? NULL : alloc_format("%s: %s", dir, why);
}

static const struct check {
	const char *key;
	int status;		/* of a start that fails there: sysexits(3) */
	char *(*flaw)(const struct conf *conf);		/* a new string; NULL: none */
	const char *advice;
} checks[] = {
	{ "supervisor.lock_file", EX_CANTCREAT, flaw_of_lock,
	    "set supervisor.lock_file to a path in a directory of this user, or start quredisd as root" },
	{ "redis.dir", EX_CONFIG, flaw_of_redis_dir,
	    "set redis.dir to a directory of this user with mode 0700, or to a path that does not exist yet" },
	{ "supervisor.control_socket", EX_CANTCREAT, flaw_of_socket,
	    "set supervisor.control_socket to a path in a directory of this user, or start quredisd as root" },
};

int conf_start_check(const struct conf *conf, conf_start_flaw *found, void *arg)
{
	int status = EX_OK;

	for (size_t i = 0; i < nitems(checks); i++) {
		char *flaw = checks[i].flaw(conf);

		if (flaw != NULL)
			found(arg, checks[i].key, flaw, checks[i].advice);
		if (flaw != NULL && status == EX_OK)
			status = checks[i].status;
		free(flaw);
	}
	return status;
}
