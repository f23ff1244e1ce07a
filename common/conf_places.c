/*
 * Files and directories that are used much later, by the sweeper: whether they are there. Only warnings: they may come
 * until then, and what is wrong with them is logged when it matters.
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

static void check_directory(struct conf_loading *l, const struct conf_origin *where, const char *key, const char *dir)
{
	struct stat st;

	if (stat(dir, &st) == -1)
		conf_warning(l, where, "%s: %s: %s", key, dir, strerror(errno));
	else if (!S_ISDIR(st.st_mode))
		conf_warning(l, where, "%s: %s is not a directory", key, dir);
}

static void check_program(struct conf_loading *l, const struct conf_origin *where, const char *key, const char *path)
{
	struct stat st;

	if (path[0] != '/')
		return;			/* that is an error */
	if (stat(path, &st) == -1)
		conf_warning(l, where, "%s: %s: %s", key, path, strerror(errno));
	else if (!S_ISREG(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) == -1)
		conf_warning(l, where, "%s: %s cannot be executed", key, path);
}

static void check_both(struct conf_loading *l, const struct conf_origin *archive_at, const struct conf_dead_letter *d,
    const struct conf_origin *check_at, const struct conf_purge *p)
{
	if (conf_given(archive_at) && d->archive != NULL)
		check_directory(l, archive_at, "dead_letter.archive", d->archive);
	if (conf_given(check_at) && p->check != NULL)
		check_program(l, check_at, "purge.check", p->check[0]);
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

void conf_check_places(struct conf_loading *l)
{
	const struct conf *conf = l->conf;

	check_both(l, conf_origin(conf, "dead_letter.archive"), &conf->dead_letter, conf_origin(conf, "purge.check"), &conf->purge);
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		check_both(l, conf_queue_origin(q, "dead_letter.archive"), &q->dead_letter, conf_queue_origin(q, "purge.check"), &q->purge);
	}
	check_textfile(l);
}
