/*
 * Checks the programs of queues against this host, at load time only: whether they and the files that they get exist,
 * and whether others can change them. program.c judges whether their users can execute them.
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

static void check_working_directory(struct conf_loading *l, const struct conf_queue *q)
{
	struct stat st;
	const char *dir = q->run_as.directory;

	if (dir == NULL)
		return;
	if (stat(dir, &st) == -1 && errno != EACCES)
		conf_error(l, conf_queue_origin(q, "run_as.directory"), "run_as.directory: %s: %s", dir,
		    strerror(errno));
	else if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
		conf_error(l, conf_queue_origin(q, "run_as.directory"), "run_as.directory: %s is not a directory", dir);
}

/* program.c judges one that exists, also behind a directory that this user may not enter. */
static void check_program(struct conf_loading *l, const struct conf_queue *q, const struct conf_origin *where,
    const char *key, const char *path)
{
	struct stat st;

	if (path[0] != '/') {
		conf_error(l, where, "%s: expected an absolute path as the first element, not \"%s\"", key, path);
		return;
	}
	if (stat(path, &st) == -1 && errno != EACCES)
		conf_error(l, where, errno == ENOENT ? "%s: %s does not exist" : "%s: %s: %s", key, path,
		    strerror(errno));
	conf_check_path(l, where, key, path, q->run_as.uid, q->run_as.uid == 0);
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

struct command {
	struct conf_loading *l;
	const struct conf_origin *where;
	const char *key;
};

static void report_blocked(void *arg, const char *path, const char *flaw, const char *advice)
{
	const struct command *c = arg;

	conf_blocked(c->l, c->where, "%s: %s: %s: %s", c->key, path, flaw, advice);
}

static void check_purge_program(struct conf_loading *l, const struct conf_queue *q)
{
	const char *path = q->purge.check == NULL ? NULL : q->purge.check[0];
	struct command c = { l, has_own_check(q) ? conf_queue_origin(q, "purge.check")
	    : conf_origin(l->conf, "purge.check"), "purge.check" };

	/* not absolute: conf_check_purge() reports it */
	if (path == NULL || path[0] != '/' || is_checked(l, q))
		return;
	check_program(l, q, c.where, c.key, path);
	conf_command_check(q, q->purge.check, report_blocked, &c);
}

void conf_check_execution(struct conf_loading *l, struct conf_queue *q)
{
	const char *key = q->function == NULL ? "handler" : "function";

	conf_check_user(l, q);
	check_working_directory(l, q);
	if (conf_queue_origin(q, "handler")->kind == CONF_ORIGIN_DERIVED) {
		check_function(l, q);
	} else if (q->handler != NULL) {
		check_program(l, q, conf_queue_origin(q, "handler"), "handler", q->handler[0]);
		check_script(l, q);
	}
	conf_program_check(q, report_blocked, &(struct command){ l, conf_queue_origin(q, key), key });
	check_purge_program(l, q);
}
