/*
 * Judges whether the user of a queue can execute the handler, by the files that it needs: the program, its interpreter,
 * the loader of that, and the files that an interpreter reads. They must exist, and a table of checks says what each use
 * of a file asks for. quredisd -t, a start, a reload and quredis doctor show these judgements.
 */
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

#define HEAD_SIZE 512
#define LINE_MAX_KERNEL 255	/* bytes of the first line that the kernel reads (BINPRM_BUF_SIZE - 1) */
#define BOM "\357\273\277"
#define DEPTH_MAX 5		/* interpreters of interpreters that the kernel follows */

/* How the handler uses a file. */
#define USE_EXEC 1u		/* by execve(2) */
#define USE_SEARCH 2u		/* by execvp(3), which gives a file that begins with no #! to /bin/sh */
#define USE_READ 4u		/* by an interpreter */
#define USE_ENTER 8u		/* as its directory */

struct file {
	const struct conf_queue *q;
	const char *path;	/* absolute */
	unsigned uses;
	int depth;		/* 0: the command line names it */
};

struct flaw {
	char *text, *advice;	/* new strings */
};

static bool judge_file(const struct file *f, struct flaw *flaw);

/* For the ends of checks: false. */
static bool is_flawed(struct flaw *flaw, char *text, char *advice)
{
	*flaw = (struct flaw){ text, advice };
	return false;
}

static const char *user_of(const struct conf_queue *q)
{
	return q->run_as.user != NULL ? q->run_as.user : q->run_as.login != NULL ? q->run_as.login
	    : "the supervisor's user";
}

/* The kernel also knows the groups of this process, and access control lists, which may allow more than the mode. */
static bool user_may(const struct conf_run_as *r, const char *path, const struct stat *st, mode_t right)
{
	if (r->uid == geteuid() && r->ngroups == 0)
		return faccessat(AT_FDCWD, path, right == S_IROTH ? R_OK : X_OK, AT_EACCESS) == 0;
	return conf_run_as_may(r, st, right) || getxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

/* ---- what the mode and the mount allow ---- */

static bool may_enter(void *arg, const char *dir, const struct stat *st)
{
	return user_may(arg, dir, st, S_IXOTH);
}

static bool has_open_way(const struct file *f, struct flaw *flaw)
{
	struct conf_run_as user = f->q->run_as;
	char *closed = file_closed_directory(f->path, may_enter, &user);

	if (closed == NULL)
		return true;
	is_flawed(flaw, alloc_format("%s may not enter %s", user_of(f->q), closed),
	    alloc_format("chmod o+x %s, or move the handler elsewhere", closed));
	free(closed);
	return false;
}

static bool is_regular(const struct file *f, const struct stat *st, struct flaw *flaw)
{
	return S_ISREG(st->st_mode) || is_flawed(flaw, alloc_string("it is not a regular file"),
	    alloc_format("name a file instead of %s", f->path));
}

static bool is_directory(const struct file *f, const struct stat *st, struct flaw *flaw)
{
	return S_ISDIR(st->st_mode) || is_flawed(flaw, alloc_string("it is not a directory"),
	    alloc_format("name a directory instead of %s", f->path));
}

static bool is_executable(const struct file *f, const struct stat *st, struct flaw *flaw)
{
	return user_may(&f->q->run_as, f->path, st, S_IXOTH) || is_flawed(flaw,
	    alloc_format("%s may not execute it (mode %04o)", user_of(f->q), st->st_mode & 07777),
	    alloc_format("chmod +x %s", f->path));
}

static bool is_readable(const struct file *f, const struct stat *st, struct flaw *flaw)
{
	return user_may(&f->q->run_as, f->path, st, S_IROTH) || is_flawed(flaw,
	    alloc_format("%s may not read it, but its interpreter has to", user_of(f->q)),
	    alloc_format("chmod o+r %s", f->path));
}

static bool has_exec_mount(const struct file *f, const struct stat *st, struct flaw *flaw)
{
	struct statvfs fs;

	(void)st;
	return statvfs(f->path, &fs) == -1 || (fs.f_flag & ST_NOEXEC) == 0 || is_flawed(flaw,
	    alloc_string("its file system is mounted noexec"),
	    alloc_format("move %s elsewhere, or mount its file system with exec", f->path));
}

/* ---- files that it leads to ---- */

/* Frees near. */
static bool lacks_program(const struct file *f, struct flaw *flaw, char *text, char *near)
{
	is_flawed(flaw, text, near != NULL
	    ? alloc_format("did you mean %s? Correct the first line of %s", near, f->path)
	    : alloc_format("install it, or correct the first line of %s", f->path));
	free(near);
	return false;
}

/* Why nothing is there. Static; NULL: a file is there, or it is not known, as in a directory that is closed to this
 * process. */
static const char *why_missing(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return NULL;
	if (errno == ELOOP)
		return "is a link that leads to itself";
	return errno == ENOENT || errno == ENOTDIR ? "does not exist" : NULL;
}

/* what: "its interpreter" */
static bool leads_to(const struct file *f, const char *what, const char *path, unsigned uses, struct flaw *flaw)
{
	const struct file next = { f->q, path, uses, f->depth + 1 };
	struct flaw inner = {0};

	if (next.depth > DEPTH_MAX || judge_file(&next, &inner))
		return true;
	is_flawed(flaw, alloc_format("%s %s: %s", what, path, inner.text), inner.advice);
	free(inner.text);
	return false;
}

static bool has_interpreter(const struct file *f, const char *path, struct flaw *flaw)
{
	const char *why = why_missing(path);

	return why == NULL ? leads_to(f, "its interpreter", path, USE_EXEC, flaw)
	    : lacks_program(f, flaw, alloc_format("its interpreter %s %s", path, why), conf_similar_path(path));
}

static bool has_loader(const struct file *f, const char *path, struct flaw *flaw)
{
	const char *why = path[0] == '/' ? why_missing(path) : NULL;

	if (why != NULL)
		return is_flawed(flaw, alloc_format("its loader %s %s", path, why),
		    alloc_format("install the C library for which %s was built, or build it for this host", f->path));
	return path[0] != '/' || leads_to(f, "its loader", path, USE_EXEC, flaw);
}

/* ---- the first line ---- */

/* A relative directory of PATH counts from the one in which the handler runs; an empty one is that. A new string. */
static char *in_directory(const struct conf_queue *q, const char *dir, const char *name)
{
	const char *here = dir[0] == '/' ? "" : q->run_as.directory == NULL ? "/" : q->run_as.directory;

	return alloc_format("%s%s%s/%s", here, dir[0] == '/' ? "" : "/", dir, name);
}

/* Frees the flaw if another one was found first. */
static void keep_first(struct flaw *first, const struct flaw *next)
{
	if (first->text == NULL) {
		*first = *next;
		return;
	}
	free(next->text);
	free(next->advice);
}

/* Takes the first file that can be executed, as execvp(3) of env does. *first: why the first of this name cannot. */
static bool finds_in_path(const struct file *f, const char *path, const char *name, struct flaw *first)
{
	char *what = alloc_format("its first line asks env for %s, which is", name);
	char *copy = alloc_string(path), *rest = copy, *dir;
	bool found = false;

	while (!found && (dir = strsep(&rest, ":")) != NULL) {
		char *file = in_directory(f->q, dir, name);
		struct flaw next = {0};
		struct stat st;

		found = stat(file, &st) == 0 && leads_to(f, what, file, USE_EXEC | USE_SEARCH, &next);
		keep_first(first, &next);
		free(file);
	}
	free(copy);
	free(what);
	return found;
}

static bool has_program_of_env(const struct file *f, char *argument, struct flaw *flaw)
{
	const char *name = conf_env_program(argument), *path = conf_handler_path(f->q, getenv("PATH"));
	struct flaw first = {0};

	if (name == NULL || finds_in_path(f, path, name, &first)) {
		free(first.text);
		free(first.advice);
		return true;
	}
	if (first.text == NULL)
		return lacks_program(f, flaw, alloc_format("its first line asks env for %s, which is not in %s", name,
		    path), conf_similar_in_path(path, name));
	*flaw = first;
	return false;
}

/* By its name, since one program may be many commands, and by its file, which other paths lead to, too. */
static bool is_env(const char *path)
{
	struct stat st, env;

	return strcmp(strrchr(path, '/'), "/env") == 0 && stat(path, &st) == 0 && stat("/usr/bin/env", &env) == 0 &&
	    env.st_dev == st.st_dev && env.st_ino == st.st_ino;
}

static bool ends_with_cr(const char *word)
{
	return word[0] != '\0' && word[strlen(word) - 1] == '\r';
}

/* line: behind "#!". is_cut: the kernel sees no more of it. What is said of an argument has to be sure, since
 * interpreters read theirs as they like: env takes a CR for a blank behind -S. */
static bool has_command(const struct file *f, char *line, bool is_cut, struct flaw *flaw)
{
	char *interpreter, *argument;

	line += strspn(line, " \t");
	interpreter = strsep(&line, " \t");
	argument = line == NULL ? interpreter + strlen(interpreter) : line + strspn(line, " \t");
	if (interpreter[0] != '/')
		return is_flawed(flaw, alloc_string("its first line names no interpreter with its path"),
		    alloc_format("begin %s with #!/bin/sh or another interpreter", f->path));
	if (is_cut && line == NULL)
		return is_flawed(flaw, alloc_format("its interpreter's name does not end within %d bytes, and the "
		    "kernel reads no more of the first line", LINE_MAX_KERNEL),
		    alloc_format("shorten the first line of %s", f->path));
	if (ends_with_cr(interpreter) || (is_env(interpreter) && argument[0] != '-' && ends_with_cr(argument)))
		return is_flawed(flaw, alloc_string("its lines end with CR LF, and the kernel takes the CR for a "
		    "part of the interpreter's name"), alloc_format("save it with LF line ends: dos2unix %s", f->path));
	return has_interpreter(f, interpreter, flaw) &&
	    (!is_env(interpreter) || has_program_of_env(f, argument, flaw));
}

static bool has_first_line(const struct file *f, const struct stat *st, char *head, struct flaw *flaw)
{
	char *line = head;
	size_t len = strcspn(line, "\n");
	bool is_cut = len > LINE_MAX_KERNEL;

	if (is_cut)
		len = LINE_MAX_KERNEL;
	line[len] = '\0';
	while (!is_cut && strchr(" \t", line[len - 1]) != NULL)
		line[--len] = '\0';		/* the kernel does the same */
	return has_command(f, line + 2, is_cut, flaw) && is_readable(f, st, flaw);
}

/* ---- the whole ---- */

static bool has_good_elf(const struct file *f, int fd, const struct stat *st, struct flaw *flaw)
{
	char loader[PATH_MAX];
	const char *text = conf_elf_flaw(fd, st->st_size, loader);

	if (text != NULL)
		return is_flawed(flaw, alloc_string(text), alloc_format("build or install %s again for this host",
		    f->path));
	return loader[0] == '\0' || has_loader(f, loader, flaw);
}

static bool has_beginning(const struct file *f, int fd, const struct stat *st, struct flaw *flaw)
{
	char head[HEAD_SIZE + 1];
	ssize_t n = pread(fd, head, HEAD_SIZE, 0);

	if (n == -1)
		return true;
	head[n] = '\0';
	if (strncmp(head, "#!", 2) == 0)
		return has_first_line(f, st, head, flaw);
	if (strncmp(head, "\177ELF", 4) == 0)
		return has_good_elf(f, fd, st, flaw);
	if (strncmp(head, BOM "#!", strlen(BOM "#!")) == 0)
		return is_flawed(flaw, alloc_string("a byte order mark (UTF-8 BOM) stands before its #!"),
		    alloc_format("save it without one: sed -i '1s/^\\xEF\\xBB\\xBF//' %s", f->path));
	return (f->uses & USE_SEARCH) != 0 || memchr(head, '\0', (size_t)n) != NULL || is_flawed(flaw,
	    alloc_string("it is neither a program nor a script that begins with #!"),
	    alloc_format("begin %s with #!/bin/sh or another interpreter", f->path));
}

/*
 * A program that is only executed need not be readable, and is not judged then. Nothing is said of a file with zero
 * bytes that is no ELF program: the kernel may know a loader for it (binfmt_misc), as for a jar.
 */
static bool has_good_contents(const struct file *f, const struct stat *st, struct flaw *flaw)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool good = fd == -1 || has_beginning(f, fd, st, flaw);

	if (fd != -1)
		close(fd);
	return good;
}

static const struct check {
	unsigned uses;		/* that ask for it */
	bool (*is_met)(const struct file *, const struct stat *, struct flaw *);
} checks[] = {
	{ USE_EXEC | USE_READ, is_regular },
	{ USE_ENTER, is_directory },
	{ USE_EXEC, is_executable },
	{ USE_EXEC, has_exec_mount },
	{ USE_READ, is_readable },
	{ USE_EXEC, has_good_contents },
};

/* The first flaw of a file makes the others pointless. True also if nothing can be known of the file. */
static bool judge_file(const struct file *f, struct flaw *flaw)
{
	struct stat st;

	if (!has_open_way(f, flaw))
		return false;
	if (stat(f->path, &st) == -1)
		return true;
	for (size_t i = 0; i < nitems(checks); i++)
		if ((checks[i].uses & f->uses) != 0 && !checks[i].is_met(f, &st, flaw))
			return false;
	return true;
}

/* ---- the files of a command line ---- */

struct judgement {
	const struct conf_queue *q;
	conf_flaw_found *found;
	void *arg;
};

/* Of one that is missing. remedy: NULL: another name. Frees remedy. */
static char *advice_of_missing(const char *path, char *remedy)
{
	char *near = remedy == NULL ? conf_similar_path(path) : NULL, *advice;

	if (remedy != NULL)
		return remedy;
	advice = near == NULL ? alloc_string("put it there, or correct the path")
	    : alloc_format("did you mean %s?", near);
	free(near);
	return advice;
}

/* check_programs.c reports a path that is not absolute. remedy: if it is missing; NULL: another name. Frees it. */
static void judge_named(const struct judgement *j, const char *key, const char *path, unsigned uses, char *remedy)
{
	const struct file f = { j->q, path, uses, 0 };
	const char *missing = path[0] == '/' ? why_missing(path) : NULL;
	struct flaw flaw = {0};

	if (missing != NULL) {
		flaw.text = alloc_format("it %s", missing);
		flaw.advice = advice_of_missing(path, remedy);
		remedy = NULL;
	} else if (path[0] == '/') {
		judge_file(&f, &flaw);
	}
	if (flaw.text != NULL)
		j->found(j->arg, &(struct conf_flaw){ key, path, flaw.text, flaw.advice });
	free(flaw.text);
	free(flaw.advice);
	free(remedy);
}

static void judge_script(const struct judgement *j, const char *key, char *const *argv)
{
	struct conf_script script;
	char *path;

	if (!conf_find_script(argv, &script))
		return;
	path = conf_script_path(j->q, &script);
	judge_named(j, key, path, script.may == R_OK ? USE_READ : USE_EXEC, NULL);
	free(path);
}

void conf_command_check(const struct conf_queue *q, const char *key, char *const *argv, conf_flaw_found *found,
    void *arg)
{
	const struct judgement j = { q, found, arg };

	judge_named(&j, key, argv[0], USE_EXEC, NULL);
	judge_script(&j, key, argv);
}

static void judge_function(const struct judgement *j)
{
	const char *key = j->q->interpreter != NULL ? "interpreter" : "function";
	struct conf_function_parts parts;

	conf_function_parts(j->q, &parts);
	judge_named(j, key, j->q->handler[0], USE_EXEC, j->q->interpreter != NULL ? NULL
	    : alloc_format("install it (Debian: apt install %s), or set interpreter", parts.package));
	judge_named(j, "function", parts.runner, USE_READ, alloc_string("make install copies it"));
	judge_named(j, "function", parts.file, USE_READ, NULL);
	free(parts.file);
}

void conf_program_check(const struct conf_queue *q, conf_flaw_found *found, void *arg)
{
	const struct judgement j = { q, found, arg };

	if (q->handler == NULL)
		return;
	if (q->run_as.directory != NULL)
		judge_named(&j, "run_as.directory", q->run_as.directory, USE_ENTER, NULL);
	if (conf_queue_origin(q, "handler")->kind == CONF_ORIGIN_DERIVED)
		judge_function(&j);
	else
		conf_command_check(q, "handler", q->handler, found, arg);
}
