/*
 * Judges whether the user of a queue can execute the handler: the directories above each file of it, its mount, its
 * interpreter and the line ends of a script. quredisd -t, a start, a reload and quredis doctor show these judgements.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

#define HEAD_SIZE 512
#define NAMES_MAX 8192		/* of a directory in which a similar name is looked for */

struct program {
	const struct conf_queue *q;
	const char *path;
	bool executed;		/* by execve(2) */
	bool read;		/* by an interpreter that the command line names */
	conf_flaw_found *found;
	void *arg;
};

static void add_flaw(const struct program *p, char *text, char *advice)
{
	p->found(p->arg, p->path, text, advice);
	free(text);
	free(advice);
}

static const char *user_of(const struct conf_queue *q)
{
	return q->run_as.user != NULL ? q->run_as.user : q->run_as.login != NULL ? q->run_as.login
	    : "the supervisor's user";
}

/* The kernel also knows the groups of this process, and access control lists, which may allow more than the mode. */
static bool may(const struct program *p, const char *path, const struct stat *st, mode_t right)
{
	const struct conf_run_as *r = &p->q->run_as;

	if (r->uid == geteuid() && r->ngroups == 0)
		return faccessat(AT_FDCWD, path, right == S_IROTH ? R_OK : X_OK, AT_EACCESS) == 0;
	return conf_run_as_may(r, st, right) || getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

static void check_directories(const struct program *p, const struct stat *of_file)
{
	char *dir = alloc_string(p->path);
	struct stat st;

	(void)of_file;
	for (char *slash = strchr(dir + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (stat(dir, &st) == 0 && !may(p, dir, &st, S_IXOTH)) {
			add_flaw(p, alloc_format("%s may not enter %s", user_of(p->q), dir),
			    alloc_format("chmod o+x %s, or move the handler elsewhere", dir));
			break;
		}
		*slash = '/';
	}
	free(dir);
}

static void check_readable(const struct program *p, const struct stat *st)
{
	if (!may(p, p->path, st, S_IROTH))
		add_flaw(p, alloc_format("%s may not read it, but its interpreter has to", user_of(p->q)),
		    alloc_format("chmod o+r %s", p->path));
}

static void check_mount(const struct program *p, const struct stat *st)
{
	struct statvfs fs;

	(void)st;
	if (p->executed && statvfs(p->path, &fs) == 0 && (fs.f_flag & ST_NOEXEC) != 0)
		add_flaw(p, alloc_string("its file system is mounted noexec"),
		    alloc_format("move %s elsewhere, or mount its file system with exec", p->path));
}

/* ---- the first line ---- */

/* "/usr/bin/python3" for "/usr/bin/pyhton3": a new string; NULL: the directory has no similar name. */
static char *nearest_in(const char *dir, const char *name)
{
	const char **names = alloc_zero(NAMES_MAX, sizeof(*names)), *found;
	DIR *d = opendir(dir);
	struct dirent *e;
	char *path;
	size_t n = 0;

	while (d != NULL && n < NAMES_MAX && (e = readdir(d)) != NULL)
		names[n++] = alloc_string(e->d_name);
	if (d != NULL)
		closedir(d);
	found = nearest(name, names, n);
	path = found == NULL ? NULL : alloc_format("%s/%s", dir, found);
	for (size_t i = 0; i < n; i++)
		free((void *)(uintptr_t)names[i]);
	free(names);
	return path;
}

/* Frees near. */
static void add_missing(const struct program *p, char *text, char *near)
{
	add_flaw(p, text, near != NULL ? alloc_format("did you mean %s? Correct the first line of %s", near, p->path)
	    : alloc_format("install it, or correct the first line of %s", p->path));
	free(near);
}

/* The program that "#!/usr/bin/env ARGUMENT" looks for: the whole rest of the line, unless it begins with -S. NULL: not
 * known */
static const char *env_program(char *argument)
{
	char *name = argument;

	if (strncmp(name, "-S", 2) == 0) {
		name += 2;
		name += strspn(name, " \t");
		name[strcspn(name, " \t")] = '\0';
	}
	return name[0] == '-' || name[0] == '\0' || strpbrk(name, "=/\"'\\$") != NULL ? NULL : name;
}

static void check_env(const struct program *p, char *argument)
{
	const char *name = env_program(argument), *where = conf_handler_path(p->q, getenv("PATH"));
	char *copy = alloc_string(where), *rest = copy, *dir, *near = NULL;
	bool found = name == NULL;

	while (!found && (dir = strsep(&rest, ":")) != NULL) {
		char *file = alloc_format("%s/%s", dir, name);

		found = access(file, X_OK) == 0;
		free(file);
		if (!found && near == NULL)
			near = nearest_in(dir, name);
	}
	if (found)
		free(near);
	else
		add_missing(p, alloc_format("its first line asks env for %s, which is not in %s", name, where), near);
	free(copy);
}

/* By its name, since one program may be many commands, and by its file, which other paths lead to, too. */
static bool is_env(const char *path, const struct stat *st)
{
	struct stat env;

	return strcmp(strrchr(path, '/'), "/env") == 0 && stat("/usr/bin/env", &env) == 0 &&
	    env.st_dev == st->st_dev && env.st_ino == st->st_ino;
}

/* line: behind "#!" */
static void check_interpreter(const struct program *p, char *line)
{
	char *interpreter, *argument, *slash;
	struct stat st;

	line += strspn(line, " \t");
	interpreter = strsep(&line, " \t");
	argument = line == NULL ? interpreter + strlen(interpreter) : line + strspn(line, " \t");
	if (interpreter[0] != '/') {
		add_flaw(p, alloc_string("its first line names no interpreter with its path"),
		    alloc_format("begin %s with #!/bin/sh or another interpreter", p->path));
	} else if (stat(interpreter, &st) == -1) {
		char *text = alloc_format("its interpreter %s does not exist", interpreter);

		slash = strrchr(interpreter, '/');
		*slash = '\0';
		add_missing(p, text, nearest_in(interpreter[0] == '\0' ? "/" : interpreter, slash + 1));
	} else if (!may(p, interpreter, &st, S_IXOTH)) {
		add_flaw(p, alloc_format("%s may not execute its interpreter %s", user_of(p->q), interpreter),
		    alloc_format("change the mode of the interpreter, or the first line of %s", p->path));
	} else if (is_env(interpreter, &st)) {
		check_env(p, argument);
	}
}

static void check_first_line(const struct program *p, const struct stat *st, char *head)
{
	char *line = strsep(&head, "\n");
	size_t len = strlen(line);

	if (len > 0 && line[len - 1] == '\r') {
		add_flaw(p, alloc_string("its lines end with CR LF, and the kernel takes the CR for a part of the "
		    "interpreter's name"), alloc_format("save it with LF line ends: dos2unix %s", p->path));
		return;
	}
	while (len > 0 && strchr(" \t", line[len - 1]) != NULL)
		line[--len] = '\0';		/* the kernel does the same */
	check_interpreter(p, line);
	check_readable(p, st);
}

/*
 * A program that is only executed need not be readable, and is not judged then. Nothing is said of a file with zero
 * bytes that is no ELF program: the kernel may know a loader for it (binfmt_misc), as for a jar.
 */
static void check_contents(const struct program *p, const struct stat *st)
{
	char head[HEAD_SIZE + 1];
	int fd = p->executed ? open(p->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
	ssize_t n = fd == -1 ? -1 : read(fd, head, HEAD_SIZE);

	if (fd != -1)
		close(fd);
	if (p->read)
		check_readable(p, st);
	if (n == -1)
		return;
	head[n] = '\0';
	if (strncmp(head, "#!", 2) == 0)
		check_first_line(p, st, head + 2);
	else if (memchr(head, '\0', (size_t)n) == NULL)
		add_flaw(p, alloc_string("it is neither a program nor a script that begins with #!"),
		    alloc_format("begin %s with #!/bin/sh or another interpreter", p->path));
}

static void (*const checks[])(const struct program *, const struct stat *) = {
	check_directories, check_mount, check_contents,
};

static void check_file(const struct program *p)
{
	struct stat st;

	if (p->path[0] != '/' || stat(p->path, &st) == -1 || !S_ISREG(st.st_mode))
		return;		/* check_programs.c reports it */
	for (size_t i = 0; i < nitems(checks); i++)
		checks[i](p, &st);
}

void conf_program_check(const struct conf_queue *q, conf_flaw_found *found, void *arg)
{
	struct program p = { .q = q, .found = found, .arg = arg };
	struct conf_script script;

	if (q->handler == NULL)
		return;
	p.path = q->handler[0];
	p.executed = true;
	check_file(&p);
	p.executed = false;
	if (conf_queue_origin(q, "handler")->kind == CONF_ORIGIN_DERIVED) {
		struct conf_function_parts parts;

		conf_function_parts(q, &parts);
		p.path = parts.file;
		p.read = true;
		check_file(&p);
		free(parts.file);
	} else if (conf_find_script(q->handler, &script)) {
		char *path = conf_script_path(q, &script);

		p.path = path;
		p.read = script.may == R_OK;
		check_file(&p);
		free(path);
	}
}
