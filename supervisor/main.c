/*
 * quredisd: reads options and configuration, takes the lock, and runs the master. Everything that can make a start fail
 * before the first fork is checked here; the reason goes to stderr and to the log.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/stdlib.h>

#include "common/base/base.h"
#include "common/conf/conf.h"
#include "common/log/log.h"
#include "common/redis/redis.h"
#include "supervisor/master.h"

#define LOCK_EVERY_MS 100
#define LOCK_EXTRA_MS 5000	/* added to kill_grace, for workers of a master that was killed */

struct options {
	struct conf_choice conf;
	const char *pid_file;	/* NULL: none */
	int ready_fd;		/* -1: none */
	bool test, print;
};

static const char usage_text[] =
    "usage: quredisd [-c FILE] [--pid-file FILE] [--ready-fd N]\n"
    "       quredisd [-c FILE] -t | -T\n"
    "       quredisd -V | -h\n"
    "\n"
    "  -c, --config FILE   configuration (else $QUREDIS_CONF, else ./quredis.conf of a user who is not root, else\n"
    "                      " CONF_SYSTEM_PATH ")\n"
    "  -t, --test          test the configuration and its handlers, and exit: 0 good, 78 not\n"
    "  -T, --print         print the configuration as it is in effect\n"
    "      --pid-file FILE write the pid to FILE, which stays locked\n"
    "      --ready-fd N    write a newline to descriptor N when ready, and close it\n"
    "  -V, --version       print the version\n"
    "  -h, --help          print this\n";

static _Noreturn void usage(FILE *out, int status)
{
	fputs(usage_text, out);
	exit(status);
}

/* No child may keep it over an exec: its reader may wait for its end. */
static int parse_ready_fd(const char *text)
{
	const char *error = NULL;
	int fd = (int)strtonum(text, STDERR_FILENO + 1, INT_MAX, &error);
	int flags = error == NULL ? fcntl(fd, F_GETFL) : -1;

	if (flags == -1 || (flags & O_ACCMODE) == O_RDONLY || fcntl(fd, F_SETFD, FD_CLOEXEC) == -1) {
		fprintf(stderr, "quredisd: --ready-fd %s: expected a descriptor above 2 that is open for writing\n",
		    text);
		usage(stderr, EX_USAGE);
	}
	return fd;
}

static void warn_if_deprecated(const struct option *names, int letter)
{
	const struct deprecated *d;
	char *advice;

	while (names->name != NULL && names->val != letter)
		names++;
	d = names->name == NULL ? NULL : deprecated_find(DEPRECATED_OPTION, "quredisd --", names->name);
	if (d == NULL)
		return;
	advice = deprecated_advice(d);
	warnx("warning: --%s is %s", names->name, advice);
	free(advice);
}

static struct options parse_options(int argc, char *argv[])
{
	static const struct option names[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "test", no_argument, NULL, 't' },
		{ "print", no_argument, NULL, 'T' },
		{ "pid-file", required_argument, NULL, 'p' },
		{ "ready-fd", required_argument, NULL, 'r' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .ready_fd = -1 };
	const char *conf_path = NULL;
	int c;

	while ((c = getopt_long(argc, argv, "c:tTVh", names, NULL)) != -1) {
		if (c == 'V') {
			puts("quredisd " QUREDIS_VERSION);
			for (size_t i = 0; i < libraries_count; i++)
				printf("%s %s\n", libraries[i].name, libraries[i].version());
			exit(EX_OK);
		}
		if (c == 'h')
			usage(stdout, EX_OK);
		if (c == '?')
			usage(stderr, EX_USAGE);
		warn_if_deprecated(names, c);
		conf_path = c == 'c' ? optarg : conf_path;
		o.pid_file = c == 'p' ? optarg : o.pid_file;
		o.ready_fd = c == 'r' ? parse_ready_fd(optarg) : o.ready_fd;
		o.test = o.test || c == 't';
		o.print = o.print || c == 'T';
	}
	if (optind != argc) {
		fprintf(stderr, "quredisd: unexpected argument '%s'. Name a configuration with -c\n", argv[optind]);
		usage(stderr, EX_USAGE);
	}
	conf_choose(conf_path, &o.conf);
	return o;
}

/* Occupies descriptors 0 to 2 if they are closed, so that no file that is opened later becomes stdout or stderr. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd != -1 && fd <= STDERR_FILENO);
	if (fd != -1)
		close(fd);
}

static void print_flaw(void *arg, const char *key, const char *flaw, const char *advice)
{
	(void)arg;
	warnx("%s: %s: %s", key, flaw, advice);
}

/* Another supervisor is no flaw: the file may be that of the one that runs now. */
static void print_good(const struct conf *conf, const char *file)
{
	const char *path = conf->supervisor.control_socket;

	if (unix_socket_answers(path))
		warnx("note: supervisor.control_socket: a supervisor answers at %s, and a second one does not start "
		    "beside it", path);
	fprintf(stderr, "%s: good\n", file);
}

/* Functions may do anything when they are loaded, and need what their users have: a test of the files loads none. */
static void note_functions(const struct conf *conf, const char *path)
{
	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i]->function != NULL) {
			warnx("note: functions are not loaded here: quredis%s%s doctor loads them, as their users",
			    path == NULL ? "" : " -c ", path == NULL ? "" : path);
			return;
		}
}

static int test_or_print(const struct options *o)
{
	struct conf_report report;
	struct conf *conf = conf_load(o->conf.path, CONF_LOOK, &report);
	char *file = conf_choice_text(&o->conf);
	int status = conf == NULL ? EX_CONFIG : EX_OK;

	conf_report_print(&report, stderr);
	if (conf == NULL)
		warnx("the configuration is %s, and quredisd does not start with it%s", file,
		    report.n == report.errors ? "" : ", because of the lines without \"warning\" or \"queue held\"");
	else if (!o->print && (status = conf_start_check(conf, o->pid_file, print_flaw, NULL)) != EX_OK)
		warnx("%s: a start of this user would fail", file);
	else if (report.blocked > 0)
		warnx("%s: quredisd starts with it, but a queue cannot run its handler or its purge.check", file);
	else if (!o->print)
		print_good(conf, file);
	if (conf != NULL && !o->print)
		note_functions(conf, o->conf.path);
	if (status == EX_OK && report.blocked > 0 && !o->print)
		status = EX_CONFIG;
	if (conf != NULL && o->print) {
		printf("# %s\n", file);
		conf_print(conf, stdout);
	}
	free(file);
	conf_report_free(&report);
	conf_free(conf);
	return fflush(stdout) == 0 ? status : EX_IOERR;
}

/* Also prints the reason on stderr: the log may be a file, and an operator at a terminal must see it. */
static int fail_start(const struct master *m, int status, const char *reason)
{
	if (strcmp(m->config.conf->log.target, "stderr") != 0)
		warnx("%s", reason);
	log_error("start_failed", log_str("reason", reason), log_int("exit", status));
	return status;
}

static void add_reason(void *arg, const char *key, const char *flaw, const char *advice)
{
	struct buffer *text = arg;

	buffer_format(text, "%s%s: %s: %s", text->len > 0 ? "; " : "", key, flaw, advice);
}

static int check_start(const struct master *m, const struct options *o)
{
	struct buffer reasons = {0};
	int status = conf_start_check(m->config.conf, o->pid_file, add_reason, &reasons);

	if (status != EX_OK)
		fail_start(m, status, reasons.data);
	buffer_free(&reasons);
	return status;
}

/* A living supervisor that holds the lock is an error. Workers of a killed supervisor hold the lock until they end, so
 * this waits for them. */
static int await_lock(struct master *m)
{
	const char *path = m->config.conf->supervisor.lock_file;
	int64_t end_ms = clock_monotonic_ms() + m->config.conf->supervisor.kill_grace_ms + LOCK_EXTRA_MS;
	char error[PATH_MAX + 256];
	bool logged = false;
	pid_t holder;
	int r;

	if (lock_open(&m->lock, path, error, sizeof(error)) == -1)
		return fail_start(m, EX_CANTCREAT, error);
	while ((r = lock_try(&m->lock, path, &holder, error, sizeof(error))) == 1) {
		if (holder != 0) {
			snprintf(error, sizeof(error), "%s: quredisd runs already, pid %d", path, (int)holder);
			return fail_start(m, EX_TEMPFAIL, error);
		}
		if (!logged)
			log_info("lock_waiting", log_str("path", path));
		logged = true;
		if (signals_wait_stop(LOCK_EVERY_MS) != 0)
			return fail_start(m, EX_TEMPFAIL, "stopped by a signal while waiting for the lock");
		if (clock_monotonic_ms() >= end_ms) {
			snprintf(error, sizeof(error),
			    "%s: still held by processes of another quredisd (lslocks names them)", path);
			return fail_start(m, EX_TEMPFAIL, error);
		}
	}
	return r == 0 ? EX_OK : fail_start(m, EX_CANTCREAT, error);
}

static int open_pid_file(struct master *m, const char *path)
{
	char error[PATH_MAX + 256];
	pid_t other = 0;
	int r = path == NULL ? 0 : pid_file_open(&m->pid_file, path, &other, error, sizeof(error));

	if (r == 0)
		return EX_OK;
	if (r == 1 && other != 0)
		snprintf(error, sizeof(error), "%s: held by pid %d", path, (int)other);
	else if (r == 1)
		snprintf(error, sizeof(error), "%s: held by another process (lslocks names it)", path);
	return fail_start(m, r == 1 ? EX_TEMPFAIL : EX_CANTCREAT, error);
}

static int check_keeper(const struct master *m)
{
	char error[PATH_MAX + 256];

	if (!m->config.conf->redis.embedded || keeper_check(m->config.conf, error, sizeof(error)) == 0)
		return EX_OK;
	return fail_start(m, EX_CONFIG, error);
}

static int serve(const struct options *o)
{
	struct master *m = alloc_zero(1, sizeof(*m));
	char error[PATH_MAX + 256];
	int status;

	if (master_init(m) == -1)
		err(EX_OSERR, "signals");
	notify_ready_on(&m->notify, o->ready_fd);
	if ((status = reload_start(&m->config, &o->conf)) == EX_OK && (status = check_start(m, o)) == EX_OK &&
	    (status = await_lock(m)) == EX_OK &&
	    (status = check_keeper(m)) == EX_OK && (status = open_pid_file(m, o->pid_file)) == EX_OK &&
	    (status = master_run(m, error, sizeof(error))) != EX_OK)
		fail_start(m, status, error);
	pid_file_remove(&m->pid_file);
	lock_text_free(&m->lock.text);
	reload_free(&m->config);
	free(m);
	return status;
}

int main(int argc, char *argv[], char *envp[])
{
	struct options o;
	int status;

	signals_hold();
	process_hide_memory(true);
	open_standard();
	title_init(argc, argv, envp);
	o = parse_options(argc, argv);
	if (o.test || o.print)
		signals_release();
	status = o.test || o.print ? test_or_print(&o) : serve(&o);
	conf_choice_free(&o.conf);
	return status;
}
