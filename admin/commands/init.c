/*
 * quredis init: writes a first queue that needs no root: a handler, and a configuration whose Redis, lock file and
 * control socket lie in the same directory. What can be checked is checked before the first file is written, and what
 * was written is removed again if a later file cannot be, or if quredisd would not start with it (init_judge.c).
 */
#include <sys/stat.h>
#include <sys/un.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/commands/commands.h"
#include "admin/commands/init_judge.h"
#include "admin/commands/init_template.h"

#include "common/base/base.h"
#include "common/conf/conf.h"

#define CONF_FILE "quredis.conf"
#define RUN "run"
#define DATA "redis"
#define LONGEST_SOCKET "/" DATA "/redis.sock"	/* of those below DIR */

struct place {
	char *dir;			/* absolute, without links */
	const struct init_template *template;
	char *conf;			/* the text of the configuration */
	char *deepest;			/* directory that this command has made; NULL: none */
	size_t above;			/* how many, with those above it */
	size_t made;			/* entries of DIR that this command has made, in their order */
};

/* The entries of DIR, in the order in which they are made; NULL after the last one. */
static const char *entry_name(const struct place *p, size_t i)
{
	const char *const names[] = { RUN, DATA, p->template->file, CONF_FILE, NULL };

	return names[i];
}

static bool entry_is_directory(size_t i)
{
	return i < 2;
}

/* ---- the directory ---- */

/* The absolute path, without links, of a directory that may be missing, with directories above it: a new string. NULL:
 * errno says why not. */
static char *resolve(const char *dir)
{
	char *real = realpath(dir, NULL), *above, *copy;
	const char *name;
	size_t len = strlen(dir);
	struct stat st;

	if (real != NULL || errno != ENOENT || len == 0)
		return real;
	if (lstat(dir, &st) == 0 && S_ISLNK(st.st_mode)) {	/* to nothing */
		errno = ENOENT;
		return NULL;
	}
	while (len > 1 && dir[len - 1] == '/')
		len--;
	copy = alloc_copy(dir, len);
	name = strrchr(copy, '/');
	name = name == NULL ? copy : name + 1;
	if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
		above = name == copy ? alloc_string(".") : alloc_copy(copy, (size_t)(name - copy));
		real = resolve(above);
		free(above);
	}
	above = real;
	if (above != NULL)
		real = alloc_format("%s%s%s", above, strcmp(above, "/") == 0 ? "" : "/", name);
	free(above);
	free(copy);
	return real;
}

static bool has_control_character(const char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char)*text < ' ' || *text == 127)
			return true;
	return false;
}

static bool is_utf8(const char *text)
{
	json_t *string = json_string(text);
	bool is = string != NULL;

	json_decref(string);
	return is;
}

static int check_path(struct admin *a, const struct place *p)
{
	size_t room = sizeof(((struct sockaddr_un *)NULL)->sun_path) - sizeof(LONGEST_SOCKET);

	if (has_control_character(p->dir))
		return admin_fail(a, EX_USAGE, "%s: its path has a control character", p->dir);
	if (a->options.json && !is_utf8(p->dir))
		return admin_fail(a, EX_USAGE, "--json: the path of the directory is not UTF-8");
	if (strcmp(p->template->language, "node") == 0 && strchr(p->dir, '\\') != NULL)
		return admin_fail(a, EX_USAGE, "%s: Node imports no file whose path has a backslash", p->dir);
	if (strlen(p->dir) > room)
		return admin_fail(a, EX_USAGE, "%s: its path has %zu bytes; for the sockets in it, it may have %zu",
		    p->dir, strlen(p->dir), room);
	return 0;
}

/* Nothing may be in the way: neither a file, nor a directory of another Redis. */
static int check_entries(struct admin *a, const struct place *p)
{
	struct buffer found = {0};
	const char *name;
	struct stat st;
	int rc = 0;

	for (size_t i = 0; (name = entry_name(p, i)) != NULL; i++) {
		char *path = alloc_format("%s/%s", p->dir, name);

		if (lstat(path, &st) == 0)
			buffer_format(&found, "%s%s", found.len == 0 ? "" : ", ", name);
		else if (errno != ENOENT && rc == 0)
			rc = admin_fail(a, EX_CANTCREAT, "%s: %s", path, strerror(errno));
		free(path);
	}
	buffer_append(&found, "", 1);
	if (rc == 0 && found.len > 1)
		rc = admin_fail(a, EX_CANTCREAT, "%s has %s already; nothing was written", p->dir, found.data);
	buffer_free(&found);
	return rc;
}

static int make_directory(struct place *p, const char *path)
{
	if (mkdir(path, 0700) == -1)
		return errno == EEXIST ? 0 : -1;
	free(p->deepest);
	p->deepest = alloc_string(path);
	p->above++;
	return 0;
}

/* With those above it. -1: errno says why not. */
static int make_directories(struct place *p)
{
	char *path = alloc_string(p->dir);
	int rc = 0;

	for (char *slash = path; rc == 0 && slash != NULL;) {
		slash = strchr(slash + 1, '/');
		if (slash != NULL)
			*slash = '\0';
		if (access(path, F_OK) == -1)
			rc = make_directory(p, path);
		if (slash != NULL)
			*slash = '/';
	}
	free(path);
	return rc;
}

static void remove_directories(struct place *p)
{
	for (; p->above > 0; p->above--) {
		rmdir(p->deepest);
		*strrchr(p->deepest, '/') = '\0';
	}
}

/* ---- the files ---- */

/* For a string of libconfig. */
static void append_escaped(struct buffer *b, const char *text)
{
	for (; *text != '\0'; text++)
		buffer_format(b, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
}

static char *configuration(const struct place *p)
{
	const struct init_template *t = p->template;
	struct buffer b = {0}, dir = {0};

	append_escaped(&dir, p->dir);
	buffer_append(&dir, "", 1);
	buffer_format(&b,
	    "# quredisd and quredis with this configuration need no root: all that they write is in this directory.\n"
	    "# quredis.conf(5) explains every key.\n"
	    "redis = { embedded = true; dir = \"%s/" DATA "\"; };\n"
	    "supervisor = { lock_file = \"%s/" RUN "/quredisd.lock\"; control_socket = \"%s/" RUN
	    "/control.sock\"; };\n\n",
	    dir.data, dir.data, dir.data);
	buffer_format(&b,
	    "queues = (\n"
	    "	{ name = \"greet\"; %s%s/%s%s\n"
	    "	  timeout = \"10s\"; max_attempts = 3;\n"
	    "	  done = { keep = 1000; payload = \"1K\"; }; }		# what quredis done ls shows\n"
	    ");\n", t->handler, dir.data, t->file, t->keys);
	buffer_append(&b, "", 1);
	buffer_free(&dir);
	return b.data;
}

static int write_whole(int fd, const char *text)
{
	size_t len = strlen(text);
	ssize_t n;

	while (len > 0) {
		n = write(fd, text, len);
		if (n == -1 && errno != EINTR)
			return -1;
		text += n == -1 ? 0 : n;
		len -= n == -1 ? 0 : (size_t)n;
	}
	return 0;
}

/* -1: errno says why not. An entry that was made counts in p->made, even if it could not be filled. */
static int make_entry(struct place *p, int dir, size_t i)
{
	const char *name = entry_name(p, i);
	bool is_conf = strcmp(name, CONF_FILE) == 0;
	mode_t mode = is_conf ? 0600 : p->template->mode;
	int fd, rc;

	if (entry_is_directory(i)) {
		rc = mkdirat(dir, name, 0700);
		p->made += rc == 0;
		return rc;
	}
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
	if (fd == -1)
		return -1;
	p->made++;
	rc = write_whole(fd, is_conf ? p->conf : p->template->text);
	return close(fd) == -1 ? -1 : rc;
}

static int make_entries(struct admin *a, struct place *p, int dir)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && entry_name(p, i) != NULL; i++)
		rc = make_entry(p, dir, i);
	return rc == 0 ? 0 : admin_fail(a, EX_CANTCREAT, "%s: %s; nothing was written", p->dir, strerror(errno));
}

static void remove_entries(struct place *p, int dir)
{
	for (; p->made > 0; p->made--)
		unlinkat(dir, entry_name(p, p->made - 1), entry_is_directory(p->made - 1) ? AT_REMOVEDIR : 0);
}

static int write_place(struct admin *a, struct place *p)
{
	int dir = -1, rc;

	if (make_directories(p) == 0)
		dir = open(p->dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir == -1) {
		rc = admin_fail(a, EX_CANTCREAT, "%s: %s", p->dir, strerror(errno));
	} else {
		rc = make_entries(a, p, dir) == -1 || init_judge_written(a, p->dir, CONF_FILE) == -1 ? -1 : 0;
		if (rc == -1)
			remove_entries(p, dir);
		close(dir);
	}
	if (rc == -1)
		remove_directories(p);
	return rc;
}

/* ---- what comes next ---- */

/* The path of a program of this installation, which has them in one directory or in bin and sbin; NULL: not found. */
static char *program_path(const char *name)
{
	static const char *const folders[] = { "", "../sbin/" };
	char self[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (len <= 0)
		return NULL;
	self[len] = '\0';
	strrchr(self, '/')[1] = '\0';
	for (size_t i = 0; i < nitems(folders); i++) {
		char *path = alloc_format("%s%s%s", self, folders[i], name), *real = realpath(path, NULL);

		free(path);
		if (real != NULL && access(real, X_OK) == 0)
			return real;
		free(real);
	}
	return NULL;
}

/* True: a shell that is given the name runs this file. */
static bool is_in_path(const char *name, const char *wanted)
{
	const char *all = getenv("PATH");

	for (size_t len; all != NULL; all = all[len] == ':' ? all + len + 1 : NULL) {
		char *path, *real;
		bool found, same;

		len = strcspn(all, ":");
		path = alloc_format("%.*s/%s", (int)len, all, name);
		real = realpath(path, NULL);
		found = all[0] == '/' && real != NULL && access(real, X_OK) == 0;
		same = found && strcmp(real, wanted) == 0;
		free(real);
		free(path);
		if (found)
			return same;
	}
	return false;
}

/* A whole line for a shell, which works in every directory: a new string. */
static char *command_line(const struct place *p, const char *program, const char *words)
{
	char *path = program_path(program), *conf = alloc_format("%s/" CONF_FILE, p->dir);
	struct buffer line = {0};

	options_append_quoted(&line, path == NULL || is_in_path(program, path) ? program : path);
	buffer_append(&line, " -c ", 4);
	options_append_quoted(&line, conf);
	buffer_format(&line, "%s", words);
	buffer_append(&line, "", 1);
	free(path);
	free(conf);
	return line.data;
}

static void print_next(struct admin *a, const struct place *p)
{
	char *start = command_line(p, "quredisd", ""), *push = command_line(p, "quredis", " push greet Ada"),
	    *look = command_line(p, "quredis", " done ls greet");

	if (a->options.json) {
		json_t *all = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b}", "directory", p->dir, "handler",
		    p->template->file, "configuration", CONF_FILE, "start", start, "push", push, "look", look,
		    "dry_run", a->options.dry_run);

		output_json_document(&a->output, all);
		json_decref(all);
	} else {
		printf("%s %s and " CONF_FILE " in %s\n\n"
		    "Start it; Ctrl-C stops it:\n    %s\n"
		    "Push a message, from another terminal; the log in the first one has the greeting:\n    %s\n"
		    "Look at what is done:\n    %s\n",
		    a->options.dry_run ? "would write" : "wrote", p->template->file, p->dir, start, push, look);
	}
	free(start);
	free(push);
	free(look);
}

static void note_server(void)
{
	if (access(CONF_REDIS_SERVER, X_OK) == -1)
		admin_note("%s is missing: install it (Debian: apt install redis-server), or set redis.server in "
		    CONF_FILE, CONF_REDIS_SERVER);
}

int cmd_init(struct admin *a)
{
	struct place p = { .template = init_template_find(a) };
	const char *given = a->noperands == 0 ? "." : a->operands[0];
	int rc;

	if (p.template == NULL)
		return -1;
	p.dir = resolve(given);
	if (p.dir == NULL)
		return admin_fail(a, EX_CANTCREAT, "%s: %s", given[0] == '\0' ? "an empty DIR" : given,
		    strerror(errno));
	p.conf = configuration(&p);
	rc = check_path(a, &p) == -1 || check_entries(a, &p) == -1 ||
	    (a->options.dry_run ? init_judge_planned(a, p.dir, CONF_FILE, p.conf) : write_place(a, &p)) == -1 ? -1 : 0;
	if (rc == 0) {
		print_next(a, &p);
		note_server();
	}
	free(p.deepest);
	free(p.conf);
	free(p.dir);
	return rc;
}
