/*
 * Checks whether the user of a handler can execute it, and whether only root and that user can change it (common/safe_path.h). The
 * same for purge.check, which runs like a handler. This is checked at load time only; the worker notices later changes.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "common/conf.h"

#include "common/conf_load.h"

struct subject {
	struct conf_loading *l;
	const struct conf_queue *q;
	const struct conf_origin *where;
	const char *key, *path;
};

/* Directories on the way are not looked at. */
static bool may_execute(const struct subject *s, const struct stat *st)
{
	const struct conf_run_as *r = &s->q->run_as;

	return r->switch_user ? conf_run_as_may(r, st, S_IXOTH) : faccessat(AT_FDCWD, s->path, X_OK, AT_EACCESS) == 0;
}

static void check_file(const struct subject *s)
{
	struct stat st;

	if (stat(s->path, &st) == -1)
		conf_error(s->l, s->where, errno == ENOENT ? "%s: %s does not exist" : "%s: %s: %s", s->key, s->path,
		    strerror(errno));
	else if (!S_ISREG(st.st_mode))
		conf_error(s->l, s->where, "%s: %s is not a regular file", s->key, s->path);
	else if (!may_execute(s, &st))
		conf_error(s->l, s->where, "%s: %s cannot be executed by %s (mode %04o)", s->key, s->path,
		    s->q->run_as.login != NULL ? s->q->run_as.login : "the supervisor's user", st.st_mode & 07777);
	conf_check_path(s->l, s->where, s->key, s->path, s->q->run_as.uid, s->q->run_as.uid == 0);
}

static void check_directory(struct conf_loading *l, const struct conf_queue *q)
{
	struct stat st;
	const char *dir = q->run_as.directory;

	if (dir == NULL)
		return;
	if (stat(dir, &st) == -1)
		conf_error(l, conf_queue_origin(q, "run_as.directory"), "run_as.directory: %s: %s", dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		conf_error(l, conf_queue_origin(q, "run_as.directory"), "run_as.directory: %s is not a directory", dir);
}

static void check_program(struct conf_loading *l, const struct conf_queue *q, const struct conf_origin *where, const char *key,
    const char *path)
{
	struct subject s = { .l = l, .q = q, .where = where, .key = key, .path = path };

	if (path[0] != '/') {
		conf_error(l, where, "%s: expected an absolute path first, not \"%s\"", key, path);
		return;
	}
	check_file(&s);
}

static bool has_own_check(const struct conf_queue *q)
{
	return conf_given(conf_queue_origin(q, "purge.check"));
}

/* A shared purge.check was checked already with an earlier queue of the same user. */
static bool is_checked(const struct conf_loading *l, const struct conf_queue *q)
{
	for (size_t i = 0; !has_own_check(q) && i < l->conf->nqueues && l->conf->queues[i] != q; i++) {
		const struct conf_queue *other = l->conf->queues[i];

		if (!has_own_check(other) && conf_is_served(l, other) && other->run_as.uid == q->run_as.uid &&
		    other->run_as.gid == q->run_as.gid)
			return true;
	}
	return false;
}

static void check_purge(struct conf_loading *l, const struct conf_queue *q)
{
	const char *path = q->purge.check == NULL ? NULL : q->purge.check[0];

	if (path == NULL || path[0] != '/' || is_checked(l, q))		/* not absolute: conf_check_purge() says so */
		return;
	check_program(l, q, has_own_check(q) ? conf_queue_origin(q, "purge.check") : conf_origin(l->conf, "purge.check"), "purge.check",
	    path);
}

void conf_check_handler(struct conf_loading *l, struct conf_queue *q)
{
	check_directory(l, q);
	if (q->handler != NULL)
		check_program(l, q, conf_queue_origin(q, "handler"), "handler", q->handler[0]);
	check_purge(l, q);
}
