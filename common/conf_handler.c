/*
 * Whether a handler can be executed by its user, and whether only those may change it who may change the
 * configuration. A look at load time: what happens to the file later is the worker's to notice.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"

struct subject {
	struct conf_loading *l;
	const struct conf_queue *q;
	const struct conf_origin *where;
	const char *path;
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
		conf_error(s->l, s->where, errno == ENOENT ? "handler: %s does not exist" : "handler: %s: %s", s->path,
		    strerror(errno));
	else if (!S_ISREG(st.st_mode))
		conf_error(s->l, s->where, "handler: %s is not a regular file", s->path);
	else if (!may_execute(s, &st))
		conf_error(s->l, s->where, "handler: %s cannot be executed by %s (mode %04o)", s->path,
		    s->q->run_as.login != NULL ? s->q->run_as.login : "the supervisor's user", st.st_mode & 07777);
	else if ((st.st_mode & S_IWOTH) != 0)
		conf_error(s->l, s->where, "handler: everybody can write %s: chmod o-w %s", s->path, s->path);
	else if ((st.st_mode & S_IWGRP) != 0 && st.st_gid != 0)
		conf_warning(s->l, s->where, "handler: its group can write %s", s->path);
}

static void check_parent(const struct subject *s)
{
	const char *slash = strrchr(s->path, '/');
	char *dir = slash == s->path ? alloc_string("/") : alloc_copy(s->path, (size_t)(slash - s->path));
	struct stat st;

	if (stat(dir, &st) == 0 && (st.st_mode & S_ISVTX) == 0) {
		if ((st.st_mode & S_IWOTH) != 0)
			conf_error(s->l, s->where, "handler: everybody can write the directory %s: chmod o-w %s", dir, dir);
		else if ((st.st_mode & S_IWGRP) != 0 && st.st_gid != 0)
			conf_warning(s->l, s->where, "handler: its group can write the directory %s", dir);
	}
	free(dir);
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

void conf_check_handler(struct conf_loading *l, struct conf_queue *q)
{
	struct subject s = { .l = l, .q = q, .where = conf_queue_origin(q, "handler") };

	check_directory(l, q);
	if (q->handler == NULL)
		return;
	s.path = q->handler[0];
	if (s.path[0] != '/') {
		conf_error(l, s.where, "handler: expected an absolute path first, not \"%s\"", s.path);
		return;
	}
	check_file(&s);
	check_parent(&s);
}
