/*
 * Checks paths of the configuration in two ways: whether only root and one user can change them, and whether files and directories
 * exist that the sweeper uses much later. A missing one is only a warning: it may be created until then, and the sweeper
 * logs the error when it matters. A path to write to that others can change is only a warning, too, since a file of another
 * user is refused when it is opened (common/own_file.h).
 */
#include <sys/stat.h>

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/nitems.h"
#include "common/safe_path.h"

/* A relative path starts in the current directory. Returns a new string. */
static char *absolute(const char *path)
{
	char here[PATH_MAX];

	return path[0] == '/' || getcwd(here, sizeof(here)) == NULL ? alloc_string(path) : alloc_format("%s/%s", here, path);
}

void conf_check_path(struct conf_loading *l, const struct conf_origin *where, const char *what, const char *path, uid_t user, bool grave)
{
	char *whole = absolute(path);
	bool everybody;
	char *flaw = safe_path_flaw(whole, user, &everybody);

	if (flaw != NULL && (everybody || grave))
		conf_error(l, where, "%s: %s", what, flaw);
	else if (flaw != NULL)
		conf_warning(l, where, "%s: %s", what, flaw);
	free(flaw);
	free(whole);
}

/* quredis never writes to a file of another user; but another user who can change the path can keep it from writing. */
static void check_target(struct conf_loading *l, const struct conf_origin *where, const char *key, const char *path)
{
	bool everybody;
	char *flaw = path[0] == '/' ? safe_path_flaw(path, geteuid(), &everybody) : NULL;

	if (flaw != NULL)
		conf_warning(l, where, "%s: %s", key, flaw);
	free(flaw);
}

static void check_directory(struct conf_loading *l, const struct conf_origin *where, const char *key, const char *dir)
{
	struct stat st;

	if (stat(dir, &st) == -1)
		conf_warning(l, where, "%s: %s: %s", key, dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		conf_warning(l, where, "%s: %s is not a directory", key, dir);
}

static void check_archive(struct conf_loading *l, const struct conf_origin *where, const struct conf_dead_letter *d)
{
	if (!conf_given(where) || d->archive == NULL)
		return;
	check_directory(l, where, "dead_letter.archive", d->archive);
	check_target(l, where, "dead_letter.archive", d->archive);
}

static void check_textfile(struct conf_loading *l)
{
	const char *path = l->conf->metrics.textfile, *slash = path == NULL ? NULL : strrchr(path, '/');
	char *dir;

	if (slash == NULL)
		return;
	dir = slash == path ? alloc_string("/") : alloc_copy(path, (size_t)(slash - path));
	check_directory(l, conf_origin(l->conf, "metrics.textfile"), "metrics.textfile", dir);
	free(dir);
}

static void check_targets(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct { const char *key, *path; } targets[] = {
		{ "log.target", conf->log.target },
		{ "supervisor.lock_file", conf->supervisor.lock_file },
		{ "metrics.textfile", conf->metrics.textfile },
		{ "redis.dir", conf->redis.embedded ? conf->redis.dir : NULL },
	};

	for (size_t i = 0; i < nitems(targets); i++)
		if (targets[i].path != NULL)
			check_target(l, conf_origin(conf, targets[i].key), targets[i].key, targets[i].path);
}

void conf_check_places(struct conf_loading *l)
{
	const struct conf *conf = l->conf;

	check_archive(l, conf_origin(conf, "dead_letter.archive"), &conf->dead_letter);
	for (size_t i = 0; i < conf->nqueues; i++)
		check_archive(l, conf_queue_origin(conf->queues[i], "dead_letter.archive"), &conf->queues[i]->dead_letter);
	check_textfile(l);
	check_targets(l);
	if (conf->redis.embedded && conf->redis.server != NULL)
		conf_check_path(l, conf_origin(conf, "redis.server"), "redis.server", conf->redis.server, geteuid(), geteuid() == 0);
	for (size_t i = 0; i < l->nfiles; i++)
		conf_check_path(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, conf->files[i] }, "the configuration file", conf->files[i], geteuid(),
		    geteuid() == 0);
}
