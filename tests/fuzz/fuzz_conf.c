/* links: tests/fuzz/input.c */
/* ldflags: -Wl,--wrap=open -Wl,--wrap=getpwnam -Wl,--wrap=getgrnam */
/*
 * Configuration files of any bytes, whole and in pieces of conf.d: what loads, prints, and what was printed loads
 * to the same. Files are read nowhere but in a directory of this process; @include reads none at all.
 *
 * Input: a byte of flags, then quredis.conf, and behind each 0x1e a file of conf.d.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <pwd.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/input.h"

#include "common/base/alloc.h"
#include "common/conf/conf.h"

#define SEPARATOR 0x1e
#define FRAGMENTS_MAX 4
#define PASSWORD_FILE "/pw"		/* what the files call it; it is in our directory */
#define INCLUDED "/it-was-included"
#define PASSWORD "Zq7x-wv0-K"

enum { FLAG_STRICT = 1, FLAG_ENVIRONMENT = 2, FLAG_CREDENTIALS = 4, FLAG_OPEN_PASSWORD = 8 };

static char dir[] = "/tmp/fuzz_conf.XXXXXX";
static int dir_fd, home_fd;	/* relative names are ours only while an input is run */
static bool said_by_input;	/* the password may stand in the files by chance: then nothing can be told of it */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
struct passwd *__wrap_getpwnam(const char *name);
struct group *__wrap_getgrnam(const char *name);
const char *__lsan_default_suppressions(void);

/* libconfig 1.5 forgets a string in which a syntax error came. */
const char *__lsan_default_suppressions(void)
{
	return "leak:libconfig.so\n";
}

/* ---- the machine around it ---- */

int __wrap_open(const char *path, int flags, ...)
{
	if (strcmp(path, PASSWORD_FILE) == 0)
		return __real_open("password", flags);
	if (strncmp(path, dir, strlen(dir)) == 0)
		return __real_open(path, flags);
	errno = ENOENT;
	return -1;
}

struct passwd *__wrap_getpwnam(const char *name)
{
	static char user[] = "nobody", home[] = "/nonexistent";
	static struct passwd pw = { .pw_name = user, .pw_dir = home, .pw_uid = 65534, .pw_gid = 65534 };

	return strcmp(name, user) == 0 ? &pw : NULL;
}

struct group *__wrap_getgrnam(const char *name)
{
	static struct group gr = { .gr_gid = 65534 };

	return strcmp(name, "nogroup") == 0 ? &gr : NULL;
}

static void write_file(const char *name, const void *data, size_t len, mode_t mode)
{
	int fd = __real_open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_ASSERT(fd != -1 && write(fd, data, len) == (ssize_t)len && fchmod(fd, mode) == 0);
	close(fd);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static void leave(void)
{
	nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char bait[] = "log = { target = \"" INCLUDED "\"; };\n";

	(void)argc;
	(void)argv;
	umask(077);
	home_fd = __real_open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	FUZZ_ASSERT(mkdtemp(dir) != NULL && (dir_fd = __real_open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) != -1);
	FUZZ_ASSERT(fchdir(dir_fd) == 0 && mkdir("conf.d", 0700) == 0 && mkdir("again", 0700) == 0);
	write_file("password", PASSWORD "\n", strlen(PASSWORD) + 1, 0600);
	write_file("bait", bait, strlen(bait), 0600);
	FUZZ_ASSERT(fchdir(home_fd) == 0);
	atexit(leave);
	unsetenv("QUREDIS_REDIS_URL");
	unsetenv("QUREDIS_LOG_LEVEL");
	return 0;
}

/* ---- one input ---- */

static char *path_of(const char *name)
{
	return alloc_format("%s/%s", dir, name);
}

static int write_fragments(const char *at, const char *end)
{
	int n = 0;

	while (at < end && n < FRAGMENTS_MAX) {
		const char *next = memchr(at + 1, SEPARATOR, (size_t)(end - at - 1));
		char name[] = "conf.d/0.conf";

		name[7] = (char)('0' + n++);
		if (next == NULL)
			next = end;
		write_file(name, at + 1, (size_t)(next - at - 1), 0600);
		at = next;
	}
	return n;
}

static void remove_fragments(int n)
{
	while (n-- > 0) {
		char name[] = "conf.d/0.conf";

		name[7] = (char)('0' + n);
		unlink(name);
	}
}

static bool is_silent(const char *text)
{
	return said_by_input || strstr(text, PASSWORD) == NULL;
}

static struct conf *load(const char *name, unsigned flags, struct conf_report *report)
{
	char *path = path_of(name);
	struct conf *conf = conf_load(path, flags, report);

	FUZZ_ASSERT((conf == NULL) == (report->errors > 0));
	for (size_t i = 0; i < report->n; i++)
		FUZZ_ASSERT(report->problems[i].text[0] != '\0' && is_silent(report->problems[i].text));
	free(path);
	return conf;
}

static char *printed(const struct conf *conf, size_t *len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, len);

	conf_print(conf, out);
	fclose(out);
	return text;
}

/* What a value is, without where it comes from. */
static void cut_comments(char *text)
{
	char *to = text;

	for (char *line = text, *end; *line != '\0'; line = end + (*end == '\n')) {
		char *comment = strstr(line, "\t# ");

		end = line + strcspn(line, "\n");
		if (comment == NULL || comment > end)
			comment = end;
		memmove(to, line, (size_t)(comment - line));
		to += comment - line;
		*to++ = '\n';
		if (*end == '\0')
			break;
	}
	*to = '\0';
}

static bool sets_environment(const struct conf_queue *q)
{
	for (char **e = q->env; e != NULL && *e != NULL; e++)
		if (strchr(*e, '=') != NULL)
			return true;
	return false;
}

/* What env sets may be secret, and is printed as a comment only. */
static void check_same_queue(const struct conf_queue *a, struct conf_queue *b)
{
	char **env = b->env;

	if (sets_environment(a)) {
		FUZZ_ASSERT(env == NULL || *env == NULL);
		b->env = a->env;
	}
	FUZZ_ASSERT(conf_queue_equal(a, b));
	FUZZ_ASSERT(a->workers == b->workers);
	b->env = env;
}

static void check_same(struct conf *a, struct conf *b)
{
	if (a->redis.password_file == NULL && a->redis.password != NULL) {	/* it is not printed */
		FUZZ_ASSERT(b->redis.password == NULL);
		b->redis.password = alloc_string(a->redis.password);
	}
	FUZZ_ASSERT(conf_globals_equal(a, b));
	FUZZ_ASSERT(a->nqueues == b->nqueues);
	for (size_t i = 0; i < a->nqueues; i++)
		check_same_queue(a->queues[i], b->queues[i]);
}

static void check_loaded(const struct conf *conf)
{
	FUZZ_ASSERT(strcmp(conf->log.target, INCLUDED) != 0);
	FUZZ_ASSERT(conf->redis.url != NULL && conf->supervisor.node[0] != '\0');
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		FUZZ_ASSERT(q->name[0] != '\0' && q->ingress[0] != '\0' && q->transit[0] != '\0' && q->escape[0] != '\0');
		FUZZ_ASSERT(q->handler != NULL && q->handler[0] != NULL);
		FUZZ_ASSERT(conf_queue_find(conf, q->name) == q);
		FUZZ_ASSERT(q->workers >= 0 && q->window > 0 && q->batch.max > 0 && q->max_attempts > 0);
		FUZZ_ASSERT(conf_queue_equal(q, q));
	}
}

/* -T: it parses again, to the same, and prints the same. */
static void check_round_trip(struct conf *conf, unsigned flags)
{
	struct conf_report report;
	size_t len, len_again;
	char *text = printed(conf, &len), *text_again;
	struct conf *again;

	FUZZ_ASSERT(strlen(text) == len);
	FUZZ_ASSERT(is_silent(text));
	write_file("again/quredis.conf", text, len, 0600);	/* the first may be read as a password */
	again = load("again/quredis.conf", flags, &report);
	if (again == NULL)
		conf_report_print(&report, stderr);
	FUZZ_ASSERT(again != NULL);
	check_same(conf, again);
	text_again = printed(again, &len_again);
	cut_comments(text);
	cut_comments(text_again);
	FUZZ_ASSERT(strcmp(text, text_again) == 0);
	free(text);
	free(text_again);
	conf_report_free(&report);
	conf_free(again);
}

static void set_environment(uint8_t flags)
{
	if ((flags & FLAG_ENVIRONMENT) != 0) {
		setenv("QUREDIS_REDIS_URL", "redis://h:1/2", 1);
		setenv("QUREDIS_LOG_LEVEL", "error", 1);
	}
	if ((flags & FLAG_CREDENTIALS) != 0)
		setenv("CREDENTIALS_DIRECTORY", dir, 1);
	if ((flags & FLAG_OPEN_PASSWORD) != 0)
		chmod("password", 0644);
}

static void unset_environment(uint8_t flags)
{
	unsetenv("QUREDIS_REDIS_URL");
	unsetenv("QUREDIS_LOG_LEVEL");
	unsetenv("CREDENTIALS_DIRECTORY");
	if ((flags & FLAG_OPEN_PASSWORD) != 0)
		chmod("password", 0600);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };
	uint8_t flags = input_byte(&in);
	const char *text = (const char *)in.at, *end = text + in.left, *first = memchr(text, SEPARATOR, in.left);
	struct conf_report report;
	struct conf *conf;
	int fragments;

	if (first == NULL)
		first = end;
	said_by_input = memchr(data, '\\', size) != NULL || memmem(data, size, PASSWORD, 4) != NULL;
	FUZZ_ASSERT(fchdir(dir_fd) == 0);
	set_environment(flags);
	write_file("quredis.conf", text, (size_t)(first - text), 0600);
	fragments = write_fragments(first, end);
	conf = load("quredis.conf", (flags & FLAG_STRICT) != 0 ? 0 : CONF_LENIENT_HANDLERS, &report);
	if (conf != NULL) {
		check_loaded(conf);
		check_round_trip(conf, (flags & FLAG_STRICT) != 0 ? 0 : CONF_LENIENT_HANDLERS);
	}
	remove_fragments(fragments);
	unset_environment(flags);
	FUZZ_ASSERT(fchdir(home_fd) == 0);
	conf_report_free(&report);
	conf_free(conf);
	return 0;
}
