/*
 * Checks the programs of queues against this host, at load time only: whether their users can execute them, and whether
 * the files that they get exist.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

struct program {
	struct conf_loading *l;
	const struct conf_queue *q;
	const struct conf_origin *where;
	const char *key, *path;
};

/* Looks at the file alone, not at the directories of its path. */
static bool may_execute(const struct program *s, const struct stat *st)
{
	const struct conf_run_as *r = &s->q->run_as;

	return r->switch_user || s->l->conf->supervisor.as.switch_user ? conf_run_as_may(r, st, S_IXOTH)
	    : faccessat(AT_FDCWD, s->path, X_OK, AT_EACCESS) == 0;
}

static void check_executable(const struct program *s)
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

static void check_working_directory(struct conf_loading *l, const struct conf_queue *q)
{
	struct stat st;
	const char *dir = q->run_as.directory;

	if (dir == NULL)
		return;
	if (stat(dir, &st) == -1)
		conf_error(l, conf_queue_origin(q, "run_as.directory"), "run_as.directory: %s: %s", dir,
		    strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		conf_error(l, conf_queue_origin(q, "run_as.directory"), "run_as.directory: %s is not a directory", dir);
}

static void check_program(struct conf_loading *l, const struct conf_queue *q, const struct conf_origin *where,
    const char *key, const char *path)
{
	struct program s = { .l = l, .q = q, .where = where, .key = key, .path = path };

	if (path[0] != '/') {
		conf_error(l, where, "%s: expected an absolute path as the first element, not \"%s\"", key, path);
		return;
	}
	check_executable(&s);
}

/*
 * Only a script that is missing is an error: program.c says whether the handler may read it. Nothing is said of a path
 * that the supervisor cannot follow.
 */
static void check_script(struct conf_loading *l, const struct conf_queue *q)
{
	struct conf_script script;
	struct stat st;
	char *path;

	if (!conf_find_script(q->handler, &script))
		return;
	path = conf_script_path(q, &script);
	if (stat(path, &st) == -1 && errno == ENOENT)
		conf_error(l, conf_queue_origin(q, "handler"), "handler: %s does not exist", path);
	else
		conf_check_path(l, conf_queue_origin(q, "handler"), "handler", path, q->run_as.uid,
		    q->run_as.uid == 0);
	free(path);
}

static bool is_missing(const char *path)
{
	struct stat st;

	return stat(path, &st) == -1 && errno == ENOENT;
}

/* Of a handler that follows from a function: its file, its runner and its interpreter. */
static void check_function(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "function");
	struct conf_function_parts parts;

	conf_function_parts(q, &parts);
	if (q->interpreter == NULL && is_missing(q->handler[0]))
		conf_error(l, where,
		    "function: %s does not exist: install it (Debian: apt install %s), or set interpreter",
		    q->handler[0], parts.package);
	else
		check_program(l, q, where, "interpreter", q->handler[0]);
	if (is_missing(parts.runner))
		conf_error(l, where, "function: its runner %s does not exist: make install copies it", parts.runner);
	else
		conf_check_path(l, where, "function: its runner", parts.runner, q->run_as.uid, q->run_as.uid == 0);
	if (is_missing(parts.file))
		conf_error(l, where, "function: %s does not exist", parts.file);
	else
		conf_check_path(l, where, "function", parts.file, q->run_as.uid, q->run_as.uid == 0);
	free(parts.file);
}

static bool has_own_check(const struct conf_queue *q)
{
	return conf_given(conf_queue_origin(q, "purge.check"));
}

/* True: the global purge.check was checked already, with an earlier queue of the same user. */
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

static void check_purge_program(struct conf_loading *l, const struct conf_queue *q)
{
	const char *path = q->purge.check == NULL ? NULL : q->purge.check[0];

	/* not absolute: conf_check_purge() reports it */
	if (path == NULL || path[0] != '/' || is_checked(l, q))
		return;
	check_program(l, q, has_own_check(q) ? conf_queue_origin(q, "purge.check")
	    : conf_origin(l->conf, "purge.check"), "purge.check", path);
}

struct seen {
	struct conf_loading *l;
	const struct conf_queue *q;
};

static void add_flaw(void *arg, const char *path, const char *flaw, const char *advice)
{
	const struct seen *s = arg;
	const char *key = s->q->function == NULL ? "handler" : "function";

	conf_blocked(s->l, conf_queue_origin(s->q, key), "%s: %s: %s: %s", key, path, flaw, advice);
}

void conf_check_execution(struct conf_loading *l, struct conf_queue *q)
{
	conf_check_user(l, q);
	check_working_directory(l, q);
	if (conf_queue_origin(q, "handler")->kind == CONF_ORIGIN_DERIVED) {
		check_function(l, q);
	} else if (q->handler != NULL) {
		check_program(l, q, conf_queue_origin(q, "handler"), "handler", q->handler[0]);
		check_script(l, q);
	}
	conf_program_check(q, add_flaw, &(struct seen){ l, q });
	check_purge_program(l, q);
}
