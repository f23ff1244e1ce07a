/*
 * Checks whether the user of each handler can execute it: the directories above it, the mount, the interpreter and the
 * line ends of a script. The check of the configuration reports a handler that does not exist.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

#define HEAD_SIZE 512
#define PROGRAMS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct handler {
	struct doctor *d;
	const struct conf_queue *q;
	const char *path;
	const char *user;
};

/* A finding about the handler; advice is a format for its path. */
#define add(h, advice, ...) findings_advise(findings_add((h)->d, SEVERITY_ERROR, (h)->path, __VA_ARGS__), advice, \
    (h)->path)

static bool may(const struct handler *h, const struct stat *st, mode_t right)
{
	return conf_run_as_may(&h->q->run_as, st, right);
}

static void check_directories(const struct handler *h)
{
	char *dir = alloc_string(h->path);
	struct stat st;

	for (char *slash = strchr(dir + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (stat(dir, &st) == 0 && !may(h, &st, S_IXOTH)) {
			findings_advise(findings_add(h->d, SEVERITY_ERROR, h->path, "%s: %s may not enter %s",
			    h->q->name, h->user, dir), "chmod o+x %s, or move the handler elsewhere", dir);
			break;
		}
		*slash = '/';
	}
	free(dir);
}

/* "#!/usr/bin/env NAME" */
static bool env_finds(const char *name)
{
	char *path = alloc_string(PROGRAMS), *rest = path, *dir;
	bool found = name[0] == '-' || name[0] == '\0';

	while (!found && (dir = strsep(&rest, ":")) != NULL) {
		char *file = alloc_format("%s/%s", dir, name);

		found = access(file, X_OK) == 0;
		free(file);
	}
	free(path);
	return found;
}

/* line: the first line of a script, behind "#!". */
static void check_interpreter(const struct handler *h, char *line)
{
	const char *interpreter, *argument;
	struct stat st;

	line += strspn(line, " \t");
	interpreter = strsep(&line, " \t");
	argument = line == NULL ? "" : line + strspn(line, " \t");
	if (interpreter[0] != '/')
		add(h, "begin %s with #!/bin/sh or another interpreter",
		    "%s: its first line names no interpreter with its path", h->q->name);
	else if (stat(interpreter, &st) == -1)
		add(h, "install it, or correct the first line of %s", "%s: its interpreter %s does not exist",
		    h->q->name, interpreter);
	else if (!may(h, &st, S_IXOTH))
		add(h, "change the mode of the interpreter, or the first line of %s",
		    "%s: %s may not execute its interpreter %s", h->q->name, h->user, interpreter);
	else if (strcmp(interpreter, "/usr/bin/env") == 0 && !env_finds(argument))
		add(h, "install it, or name the interpreter with its path on the first line of %s",
		    "%s: its first line asks env for %s, which is not in %s", h->q->name, argument, PROGRAMS);
}

static void check_script(const struct handler *h, const struct stat *st, char *head)
{
	char *line = strsep(&head, "\n");
	size_t len = strlen(line);

	if (len > 0 && line[len - 1] == '\r') {
		add(h, "save it with LF line ends: dos2unix %s",
		    "%s: its lines end with CR LF, and the kernel takes the CR for a part of the interpreter's name",
		    h->q->name);
		return;
	}
	check_interpreter(h, line);
	if (!may(h, st, S_IROTH))
		add(h, "chmod o+r %s", "%s: %s may not read it, but its interpreter has to", h->q->name, h->user);
}

/* The check of the configuration reports a file that this user may not read. */
static void check_contents(const struct handler *h, const struct stat *st)
{
	char head[HEAD_SIZE + 1];
	int fd = open(h->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n = fd == -1 ? -1 : read(fd, head, HEAD_SIZE);

	if (fd != -1)
		close(fd);
	if (n == -1)
		return;
	head[n] = '\0';
	if (strncmp(head, "#!", 2) == 0)
		check_script(h, st, head + 2);
	else if (n < 4 || memcmp(head, "\177ELF", 4) != 0)
		add(h, "begin %s with #!/bin/sh or another interpreter",
		    "%s: it is neither a program nor a script that begins with #!", h->q->name);
}

static void check_handler(const struct handler *h)
{
	struct statvfs fs;
	struct stat st;

	if (h->path == NULL || h->path[0] != '/' || stat(h->path, &st) == -1 || !S_ISREG(st.st_mode))
		return;
	check_directories(h);
	if (statvfs(h->path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0)
		add(h, "move %s elsewhere, or mount its file system with exec", "%s: its file system is mounted noexec",
		    h->q->name);
	/* otherwise the check of the configuration reports it */
	if (h->d->conf.supervisor_uid != geteuid() && !may(h, &st, S_IXOTH))
		add(h, "chmod +x %s", "%s: %s may not execute it", h->q->name, h->user);
	check_contents(h, &st);
}

int check_handlers(struct doctor *d)
{
	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		const struct conf_queue *q = d->a->conf->queues[i];

		check_handler(&(struct handler){ .d = d, .q = q, .path = q->handler == NULL ? NULL : q->handler[0],
		    .user = q->run_as.user != NULL ? q->run_as.user : "the supervisor's user" });
	}
	return 0;
}
