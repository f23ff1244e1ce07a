/*
 * Judges whether the user of a queue can execute or read a file, and what that file leads to: its interpreter, what env
 * runs, the loader of a program. A table of checks says what each use of a file asks for.
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
#include "common/conf/program.h"

#define HEAD_SIZE 512
#define BOM "\357\273\277"
#define DEPTH_MAX 5		/* scripts whose interpreters are scripts: the kernel follows no more */
#define CHAIN_MAX 32		/* files that lead from one to the next: of more, nothing is known */

bool conf_deny(struct conf_file_flaw *flaw, char *text, char *advice)
{
	*flaw = (struct conf_file_flaw){ text, advice };
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

/* Which of the three classes of a mode is that of the user. */
static char class_of(const struct conf_run_as *r, const char *path)
{
	struct stat st;

	if (stat(path, &st) == -1)
		return 'o';
	return st.st_uid == r->uid ? 'u' : st.st_gid == r->gid ? 'g' : 'o';
}

static bool may_enter(void *arg, const char *dir, const struct stat *st)
{
	return user_may(arg, dir, st, S_IXOTH);
}

static bool has_open_way(const struct conf_file *f, struct conf_file_flaw *flaw)
{
	struct conf_run_as user = f->j->q->run_as;
	char *closed = file_closed_directory(f->path, may_enter, &user);

	if (closed == NULL)
		return true;
	conf_deny(flaw, alloc_format("%s may not enter %s", user_of(f->j->q), closed),
	    alloc_format("chmod %c+x %s, or move the handler elsewhere", class_of(&user, closed), closed));
	free(closed);
	return false;
}

static bool is_regular(const struct conf_file *f, const struct stat *st, struct conf_file_flaw *flaw)
{
	return S_ISREG(st->st_mode) || conf_deny(flaw, alloc_string("it is not a regular file"),
	    alloc_format("name a file instead of %s", f->path));
}

static bool is_directory(const struct conf_file *f, const struct stat *st, struct conf_file_flaw *flaw)
{
	return S_ISDIR(st->st_mode) || conf_deny(flaw, alloc_string("it is not a directory"),
	    alloc_format("name a directory instead of %s", f->path));
}

static bool is_executable(const struct conf_file *f, const struct stat *st, struct conf_file_flaw *flaw)
{
	return user_may(&f->j->q->run_as, f->path, st, S_IXOTH) || conf_deny(flaw,
	    alloc_format("%s may not execute it (mode %04o)", user_of(f->j->q), st->st_mode & 07777),
	    alloc_format("chmod +x %s", f->path));
}

static bool is_readable(const struct conf_file *f, const struct stat *st, struct conf_file_flaw *flaw)
{
	return user_may(&f->j->q->run_as, f->path, st, S_IROTH) || conf_deny(flaw,
	    alloc_format("%s may not read it, but its interpreter has to", user_of(f->j->q)),
	    alloc_format("chmod %c+r %s", class_of(&f->j->q->run_as, f->path), f->path));
}

static bool has_exec_mount(const struct conf_file *f, const struct stat *st, struct conf_file_flaw *flaw)
{
	struct statvfs fs;

	(void)st;
	return statvfs(f->path, &fs) == -1 || (fs.f_flag & ST_NOEXEC) == 0 || conf_deny(flaw,
	    alloc_string("its file system is mounted noexec"),
	    alloc_format("move %s elsewhere, or mount its file system with exec", f->path));
}

/* ---- files that it leads to ---- */

const char *conf_file_why_missing(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		return NULL;
	if (errno == ELOOP)
		return "is a link that leads to itself";
	return errno == ENOENT || errno == ENOTDIR ? "does not exist" : NULL;
}

/* f names a program that is missing. where: "the first line of /opt/mail". Frees near. */
static bool deny_missing(struct conf_file_flaw *flaw, char *text, char *near, const char *where)
{
	conf_deny(flaw, text, near != NULL ? alloc_format("did you mean %s? Correct %s", near, where)
	    : alloc_format("install it, or correct %s", where));
	free(near);
	return false;
}

/* A first line names its interpreter, or what env runs, each time anew. */
static bool runs_itself(const struct conf_file *f, const struct stat *st)
{
	struct stat earlier;

	for (f = f->from; f != NULL; f = f->from)
		if (stat(f->path, &earlier) == 0 && earlier.st_dev == st->st_dev && earlier.st_ino == st->st_ino)
			return true;
	return false;
}

static int chain_length(const struct conf_file *f)
{
	int n = 0;

	for (; f != NULL; f = f->from)
		n++;
	return n;
}

/* what: "its interpreter". depth: of the other file */
static bool leads_to(const struct conf_file *f, const char *what, const char *path, unsigned uses, int depth,
    struct conf_file_flaw *flaw)
{
	const struct conf_file next = { f->j, path, uses, depth, f, NULL };
	struct conf_file_flaw inner = {0};

	if (chain_length(f) >= CHAIN_MAX || conf_file_is_good(&next, &inner))
		return true;
	conf_deny(flaw, alloc_format("%s %s: %s", what, path, inner.text), inner.advice);
	free(inner.text);
	return false;
}

static bool has_loader(const struct conf_file *f, const char *path, struct conf_file_flaw *flaw)
{
	const char *why = path[0] == '/' ? conf_file_why_missing(path) : NULL;

	if (why != NULL)
		return conf_deny(flaw, alloc_format("its loader %s %s", path, why),
		    alloc_format("install the C library for which %s was built, or build it for this host", f->path));
	return path[0] != '/' || leads_to(f, "its loader", path, USE_EXEC, f->depth, flaw);
}

/* ---- what env runs ---- */

/* Frees the flaw if another one was found first. */
static void keep_first(struct conf_file_flaw *first, const struct conf_file_flaw *next)
{
	if (first->text == NULL) {
		*first = *next;
		return;
	}
	free(next->text);
	free(next->advice);
}

/*
 * Takes the first file that can be executed, as execvp(3) does. *first: why the first of this name cannot. A relative
 * directory of PATH counts from the one in which the handler runs; an empty one is that.
 */
static bool finds_in_path(const struct conf_file *f, const char *dirs, const char *name, const char *what,
    struct conf_file_flaw *first)
{
	char *copy = alloc_string(dirs), *rest = copy, *dir;
	bool is_found = false;

	while (!is_found && (dir = strsep(&rest, ":")) != NULL) {
		char *relative = alloc_format("%s/%s", dir[0] == '\0' ? "." : dir, name);
		char *path = conf_run_path(f->j->q, relative);
		struct conf_file_flaw next = {0};

		/* true also of one that cannot be looked at: then nothing is known */
		is_found = conf_file_why_missing(path) == NULL &&
		    leads_to(f, what, path, USE_EXEC | USE_SEARCH, 0, &next);
		keep_first(first, &next);
		free(path);
		free(relative);
	}
	free(copy);
	return is_found;
}

/* Goes on judging: the file would be good if the supervisor has this PATH. */
static void report_doubt(const struct conf_file *f, const struct conf_words *w, const char *program, const char *dirs)
{
	char *text = alloc_format("%s asks env for %s, which only the PATH of this shell finds (%s)", w->what, program,
	    dirs), *advice = alloc_string("name its directory by env = [\"PATH=...\"], unless quredisd has that PATH");

	while (f->from != NULL)
		f = f->from;
	f->j->found(f->j->arg, &(struct conf_flaw){ f->key, f->path, text, advice, true });
	free(text);
	free(advice);
}

static bool has_in_path(const struct conf_file *f, const struct conf_env_command *e, const struct conf_words *w,
    struct conf_file_flaw *flaw)
{
	const char *dirs = e->path != NULL ? e->path : conf_handler_path(f->j->q, getenv("PATH"));
	const char *sure = e->path != NULL || f->j->inherits == CONF_INHERITS_THIS ? dirs
	    : conf_handler_path(f->j->q, NULL);
	char *what = alloc_format("%s asks env for %s, which is", w->what, e->program);
	struct conf_file_flaw first = {0};
	bool good = finds_in_path(f, sure, e->program, what, &first);

	if (!good && strcmp(dirs, sure) != 0 && finds_in_path(f, dirs, e->program, what, &first)) {
		report_doubt(f, w, e->program, dirs);
		good = true;
	}
	free(what);
	if (!good && first.text == NULL)
		return deny_missing(flaw, alloc_format("%s asks env for %s, which is not in %s", w->what, e->program,
		    dirs), conf_similar_in_path(dirs, e->program), w->where);
	if (!good) {
		*flaw = first;
		return false;
	}
	free(first.text);
	free(first.advice);
	return true;
}

static bool has_at_path(const struct conf_file *f, const struct conf_env_command *e, const struct conf_words *w,
    struct conf_file_flaw *flaw)
{
	char *path = conf_run_path(f->j->q, e->program), *what = alloc_format("%s asks env for", w->what);
	const char *why = conf_file_why_missing(path);
	bool good = why == NULL ? leads_to(f, what, path, USE_EXEC | USE_SEARCH, 0, flaw)
	    : deny_missing(flaw, alloc_format("%s %s, which %s", what, path, why), conf_similar_path(path), w->where);

	free(what);
	free(path);
	return good;
}

bool conf_file_has_program_of_env(const struct conf_file *f, const struct conf_words *w, struct conf_file_flaw *flaw)
{
	struct conf_env_command e;
	bool good;

	if (!conf_env_find(w->argv, &e))
		return true;
	good = (strchr(e.program, '/') != NULL ? has_at_path : has_in_path)(f, &e, w, flaw);
	free(e.program);
	free(e.path);
	return good;
}

/* ---- the first line ---- */

static bool has_interpreter(const struct conf_file *f, const char *named, const char *path, struct conf_file_flaw *flaw)
{
	const char *why = conf_file_why_missing(path), *dir = f->j->q->run_as.directory;
	char *where;

	if (why == NULL)
		return leads_to(f, "its interpreter", path, USE_EXEC, f->depth + 1, flaw);
	if (named[0] != '/')
		return conf_deny(flaw, alloc_format("its interpreter %s is not in %s, where the handler runs", named,
		    dir == NULL ? "/" : dir),
		    alloc_format("begin %s with the whole path of the interpreter", f->path));
	where = alloc_format("the first line of %s", f->path);
	deny_missing(flaw, alloc_format("its interpreter %s %s", path, why), conf_similar_path(path), where);
	free(where);
	return false;
}

static bool has_command(const struct conf_file *f, const struct conf_first_line *line, struct conf_file_flaw *flaw)
{
	char *interpreter = conf_run_path(f->j->q, line->interpreter), *path = alloc_string(f->path), *argv[4];
	char *where = alloc_format("the first line of %s", f->path);
	const struct conf_words words = { argv, "its first line", where };
	bool is_env = conf_is_env(interpreter), good;
	const struct conf_first_line_flaw *wrong = conf_first_line_flaw(line, is_env);

	conf_first_line_command(line, path, argv);
	/* execvp(3) gives a file that the kernel takes for no script to /bin/sh */
	if (wrong != NULL)
		good = ((f->uses & USE_SEARCH) != 0 && wrong->is_no_script) || conf_deny(flaw,
		    alloc_string(wrong->text), alloc_format("%s%s%s", wrong->before, f->path, wrong->after));
	else
		good = has_interpreter(f, line->interpreter, interpreter, flaw) &&
		    (!is_env || conf_file_has_program_of_env(f, &words, flaw));
	free(interpreter);
	free(path);
	free(where);
	return good;
}

static bool has_first_line(const struct conf_file *f, const struct stat *st, char *head, struct conf_file_flaw *flaw)
{
	struct conf_first_line line;

	if (f->depth >= DEPTH_MAX)
		return conf_deny(flaw, alloc_format("the kernel follows no more than %d scripts whose interpreters are "
		    "scripts", DEPTH_MAX), alloc_format("let a program be the interpreter of %s", f->from->path));
	conf_first_line_read(head, &line);
	return has_command(f, &line, flaw) && is_readable(f, st, flaw);
}

/* ---- the whole ---- */

static bool has_good_elf(const struct conf_file *f, int fd, const struct stat *st, struct conf_file_flaw *flaw)
{
	char loader[PATH_MAX];
	const char *text = conf_elf_flaw(fd, st->st_size, loader);

	if (text != NULL)
		return conf_deny(flaw, alloc_string(text), alloc_format("build or install %s again for this host",
		    f->path));
	return loader[0] == '\0' || has_loader(f, loader, flaw);
}

static bool has_beginning(const struct conf_file *f, int fd, const struct stat *st, struct conf_file_flaw *flaw)
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
		return conf_deny(flaw, alloc_string("a byte order mark (UTF-8 BOM) stands before its #!"),
		    alloc_format("save it without one: sed -i '1s/^\\xEF\\xBB\\xBF//' %s", f->path));
	return (f->uses & USE_SEARCH) != 0 || memchr(head, '\0', (size_t)n) != NULL || conf_deny(flaw,
	    alloc_string("it is neither a program nor a script that begins with #!"),
	    alloc_format("begin %s with #!/bin/sh or another interpreter", f->path));
}

/*
 * A program that is only executed need not be readable, and is not judged then. Nothing is said of a file with zero
 * bytes that is no ELF program: the kernel may know a loader for it (binfmt_misc), as for a jar.
 */
static bool has_good_contents(const struct conf_file *f, const struct stat *st, struct conf_file_flaw *flaw)
{
	int fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	bool good = fd == -1 || has_beginning(f, fd, st, flaw);

	if (fd != -1)
		close(fd);
	return good;
}

static const struct check {
	unsigned uses;		/* that ask for it */
	bool (*is_met)(const struct conf_file *, const struct stat *, struct conf_file_flaw *);
} checks[] = {
	{ USE_EXEC | USE_READ, is_regular },
	{ USE_ENTER, is_directory },
	{ USE_EXEC, is_executable },
	{ USE_EXEC, has_exec_mount },
	{ USE_READ, is_readable },
	{ USE_EXEC, has_good_contents },
};

/* The first flaw of a file makes the others pointless. True also if nothing can be known of the file. */
bool conf_file_is_good(const struct conf_file *f, struct conf_file_flaw *flaw)
{
	struct stat st;

	if (!has_open_way(f, flaw))
		return false;
	if (stat(f->path, &st) == -1)
		return true;
	if (runs_itself(f, &st))
		return conf_deny(flaw, alloc_string("it would run itself again and again"),
		    alloc_format("correct the first line of %s", f->from->path));
	for (size_t i = 0; i < nitems(checks); i++)
		if ((checks[i].uses & f->uses) != 0 && !checks[i].is_met(f, &st, flaw))
			return false;
	return true;
}
