/*
 * Whether a handler could be executed by its user: what the configuration's own check leaves out, from the directories on
 * the way to the interpreter of a script. And what a unit's sandbox hides from it.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/doctor.h"

#include "common/alloc.h"
#include "common/nitems.h"

#define HEAD_SIZE 512
#define PROGRAMS "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

struct subject {
	struct doctor *d;
	const struct conf_queue *q;
	const char *path;
};

static const char *user_of(const struct subject *s)
{
	return s->q->run_as.user != NULL ? s->q->run_as.user : "the supervisor's user";
}

static void tell(const struct subject *s, const char *what, const char *advice)
{
	struct finding *f = doctor_tell(s->d, SEVERITY_ERROR, s->path, "%s: %s", s->q->name, what);

	doctor_advise(f, "%s", advice);
}

/* The two texts are new strings, and are freed. */
static void tell_new(const struct subject *s, char *what, char *advice)
{
	tell(s, what, advice);
	free(what);
	free(advice);
}

/* ---- the way ---- */

static bool may_pass(const struct subject *s, const char *dir)
{
	struct stat st;

	return stat(dir, &st) == -1 || conf_run_as_may(&s->q->run_as, &st, S_IXOTH);
}

static void check_way(const struct subject *s)
{
	char *dir = alloc_string(s->path);

	for (char *slash = strchr(dir + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (!may_pass(s, dir)) {
			tell_new(s, alloc_format("%s may not pass through %s", user_of(s), dir),
			    alloc_format("chmod o+x %s, or put the handler elsewhere", dir));
			break;
		}
		*slash = '/';
	}
	free(dir);
}

static void check_mount(const struct subject *s)
{
	struct statvfs fs;

	if (statvfs(s->path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0)
		tell(s, "its file system is mounted noexec", "put the handler elsewhere, or mount it with exec");
}

/* ---- the file ---- */

/* "env NAME": looked for where commands usually are. */
static void check_env(const struct subject *s, const char *name)
{
	char *path = alloc_string(PROGRAMS), *rest = path, *dir;
	bool found = false;

	while (!found && (dir = strsep(&rest, ":")) != NULL) {
		char *file = alloc_format("%s/%s", dir, name);

		found = access(file, X_OK) == 0;
		free(file);
	}
	if (!found && name[0] != '-' && name[0] != '\0')
		tell_new(s, alloc_format("its first line asks env for %s, which is not in %s", name, PROGRAMS),
		    alloc_format("install %s, or name it with its path on the first line", name));
	free(path);
}

static void check_interpreter(const struct subject *s, const char *interpreter)
{
	struct stat st;

	if (interpreter[0] != '/')
		tell(s, "its first line names no interpreter with its path", "begin it with #!/bin/sh, or what it is written in");
	else if (stat(interpreter, &st) == -1)
		tell_new(s, alloc_format("its interpreter %s does not exist", interpreter),
		    alloc_format("install %s, or correct the first line", interpreter));
	else if (!conf_run_as_may(&s->q->run_as, &st, S_IXOTH))
		tell_new(s, alloc_format("%s may not execute its interpreter %s", user_of(s), interpreter),
		    alloc_format("look at the mode of %s", interpreter));
}

/* head: what stands behind "#!". */
static void check_script(const struct subject *s, const struct stat *st, char *head)
{
	char *line = strsep(&head, "\n"), *interpreter, *argument;
	size_t len = strlen(line);

	if (len > 0 && line[len - 1] == '\r') {
		tell_new(s, alloc_string("its lines end with CR LF: the kernel looks for an interpreter with a CR in its name"),
		    alloc_format("save it with LF alone: dos2unix %s", s->path));
		return;
	}
	line += strspn(line, " \t");
	interpreter = strsep(&line, " \t");
	argument = line == NULL ? interpreter + strlen(interpreter) : line + strspn(line, " \t");
	check_interpreter(s, interpreter);
	if (strcmp(interpreter, "/usr/bin/env") == 0)
		check_env(s, argument);
	if (!conf_run_as_may(&s->q->run_as, st, S_IROTH))
		tell_new(s, alloc_format("%s may not read it, and its interpreter must", user_of(s)), alloc_format("chmod o+r %s", s->path));
}

static void check_head(const struct subject *s, const struct stat *st)
{
	char head[HEAD_SIZE + 1];
	int fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t n = fd == -1 ? -1 : read(fd, head, HEAD_SIZE);

	if (fd != -1)
		close(fd);
	if (n == -1)
		return;		/* we may not; the supervisor's own check tells what it may */
	head[n] = '\0';
	if (strncmp(head, "#!", 2) == 0)
		check_script(s, st, head + 2);
	else if (n < 4 || memcmp(head, "\177ELF", 4) != 0)
		tell(s, "it is neither a program nor a script that begins with #!", "begin it with #!/bin/sh, or what it is written in");
}

/* The configuration's check looked with our eyes. */
static void check_mode(const struct subject *s, const struct stat *st)
{
	if (s->d->supervisor_uid != geteuid() && !conf_run_as_may(&s->q->run_as, st, S_IXOTH))
		tell_new(s, alloc_format("%s may not execute it", user_of(s)), alloc_format("chmod +x %s", s->path));
}

/* ---- what is behind it ---- */

static bool is_script_name(const char *path)
{
	static const char *const ends[] = { ".py", ".rb", ".pl", ".php", ".js", ".sh", ".lua" };
	const char *dot = strrchr(path, '.');

	for (size_t i = 0; dot != NULL && i < nitems(ends); i++)
		if (strcmp(dot, ends[i]) == 0)
			return true;
	return false;
}

/* handler = ["/usr/bin/python3", "/srv/send.py"]: the second is what matters. */
static void check_argument(const struct subject *s)
{
	const char *script = s->q->handler[1];
	struct stat st;

	if (script == NULL || script[0] != '/' || !is_script_name(script))
		return;
	if (stat(script, &st) == -1)
		tell_new(s, alloc_format("its script %s does not exist", script), alloc_string("correct handler in the configuration"));
	else if (!conf_run_as_may(&s->q->run_as, &st, S_IROTH))
		tell_new(s, alloc_format("%s may not read its script %s", user_of(s), script), alloc_format("chmod o+r %s", script));
}

int doctor_handlers(struct doctor *d)
{
	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		const struct conf_queue *q = d->a->conf->queues[i];
		struct subject s = { .d = d, .q = q, .path = q->handler == NULL ? NULL : q->handler[0] };
		struct stat st;

		/* What is not there, or is no file, the configuration's check has told. */
		if (s.path == NULL || s.path[0] != '/' || stat(s.path, &st) == -1 || !S_ISREG(st.st_mode))
			continue;
		check_way(&s);
		check_mount(&s);
		check_mode(&s, &st);
		check_head(&s, &st);
		check_argument(&s);
	}
	return 0;
}

/* ---- the sandbox ---- */

static bool is_below(const char *path, const char *const *dirs, size_t n)
{
	for (size_t i = 0; path != NULL && i < n; i++) {
		size_t len = strlen(dirs[i]);

		if (strncmp(path, dirs[i], len) == 0 && (path[len] == '/' || path[len] == '\0'))
			return true;
	}
	return false;
}

static bool is_set(const struct unit_file *u, const char *key, const char *const *values, size_t n)
{
	const char *value = unit_file_get(u, key);

	for (size_t i = 0; value != NULL && i < n; i++)
		if (strcmp(value, values[i]) == 0)
			return true;
	return false;
}

static void check_hidden(struct doctor *d, const char *name, const char *path)
{
	static const char *const homes[] = { "/home", "/root", "/run/user" }, *const temporary[] = { "/tmp", "/var/tmp" };
	static const char *const hide[] = { "yes", "true", "on", "1", "tmpfs" };
	const char *why = NULL;

	if (is_below(path, homes, nitems(homes)) && is_set(&d->unit, "ProtectHome", hide, nitems(hide)))
		why = "ProtectHome";
	else if (is_below(path, temporary, nitems(temporary)) && is_set(&d->unit, "PrivateTmp", hide, nitems(hide) - 1))
		why = "PrivateTmp";
	if (why == NULL)
		return;
	doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "%s: the unit has %s=%s, so that it does not exist under systemd", name, why,
	    unit_file_get(&d->unit, why)), "put it elsewhere, or systemctl edit quredisd: [Service] %s=no", why);
}

int doctor_sandbox(struct doctor *d)
{
	const struct conf *conf = d->a->conf;

	if (strncmp(conf->redis.url, "unix://", 7) == 0)
		check_hidden(d, "the socket of Redis", conf->redis.url + 7);
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		check_hidden(d, q->name, q->handler == NULL ? NULL : q->handler[0]);
		check_hidden(d, q->name, q->run_as.directory);
	}
	return 0;
}
