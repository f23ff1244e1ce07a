/*
 * quredisd: options, configuration, lock, and then the master. Everything that can make a start fail
 * before the first fork fails here, with its reason on stderr and in the log.
 */
#include <sys/prctl.h>

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

#include "common/alloc.h"
#include "common/clock.h"
#include "common/conf.h"
#include "common/log.h"
#include "common/process.h"
#include "supervisor/keeper.h"
#include "supervisor/master.h"
#include "supervisor/reload.h"
#include "supervisor/signals.h"
#include "supervisor/title.h"

#define LOCK_EVERY_MS 100
#define LOCK_EXTRA_MS 5000	/* on top of kill_grace: for workers of a master that was killed */

struct options {
	const char *conf_path;
	const char *pid_file;	/* NULL: none */
	bool test, print;
};

static const char usage_text[] =
    "usage: quredisd [-c FILE] [--pid-file FILE]\n"
    "       quredisd [-c FILE] -t | -T\n"
    "       quredisd -V | -h\n"
    "\n"
    "  -c, --config FILE   configuration (" QUREDIS_SYSCONFDIR "/quredis/quredis.conf)\n"
    "  -t, --test          test the configuration and exit: 0 good, 78 not\n"
    "  -T, --print         print the configuration as it is in effect\n"
    "      --pid-file FILE write the pid to FILE, which stays locked\n"
    "  -V, --version       print the version\n"
    "  -h, --help          print this\n";

static _Noreturn void usage(FILE *out, int status)
{
	fputs(usage_text, out);
	exit(status);
}

static struct options parse(int argc, char *argv[])
{
	static const struct option names[] = {
		{ "config", required_argument, NULL, 'c' },
		{ "test", no_argument, NULL, 't' },
		{ "print", no_argument, NULL, 'T' },
		{ "pid-file", required_argument, NULL, 'p' },
		{ "version", no_argument, NULL, 'V' },
		{ "help", no_argument, NULL, 'h' },
		{ 0 },
	};
	struct options o = { .conf_path = QUREDIS_SYSCONFDIR "/quredis/quredis.conf" };
	int c;

	while ((c = getopt_long(argc, argv, "c:tTVh", names, NULL)) != -1) {
		if (c == 'V') {
			puts("quredisd " QUREDIS_VERSION);
			exit(EX_OK);
		}
		if (c == 'h')
			usage(stdout, EX_OK);
		if (c == '?')
			usage(stderr, EX_USAGE);
		o.conf_path = c == 'c' ? optarg : o.conf_path;
		o.pid_file = c == 'p' ? optarg : o.pid_file;
		o.test = o.test || c == 't';
		o.print = o.print || c == 'T';
	}
	if (optind != argc) {
		fprintf(stderr, "quredisd: what is '%s'? A configuration is given with -c\n", argv[optind]);
		usage(stderr, EX_USAGE);
	}
	return o;
}

/* Whatever opens a descriptor next must not get one that means stdout to somebody. */
static void open_standard(void)
{
	int fd;

	do
		fd = open("/dev/null", O_RDWR);
	while (fd != -1 && fd <= STDERR_FILENO);
	if (fd != -1)
		close(fd);
}

static int test_or_print(const struct options *o)
{
	struct conf_report report;
	struct conf *conf = conf_load(o->conf_path, 0, &report);

	conf_report_print(&report, stderr);
	if (conf != NULL && o->print)
		conf_print(conf, stdout);
	else if (conf != NULL)
		fprintf(stderr, "%s: good\n", o->conf_path);
	conf_report_free(&report);
	if (conf == NULL)
		return EX_CONFIG;
	conf_free(conf);
	return fflush(stdout) == 0 ? EX_OK : EX_IOERR;
}

/* The log may be a file that nobody looks at while they type. */
static int fail(const struct master *m, int status, const char *reason)
{
	if (strcmp(m->conf->log.target, "stderr") != 0)
		warnx("%s", reason);
	log_error("start_failed", log_str("reason", reason), log_int("exit", status));
	return status;
}

/* A reload must find the same file wherever we are, and titles are written over the arguments. */
static char *absolute(const char *path)
{
	char *real = realpath(path, NULL);

	return real != NULL ? real : alloc_string(path);
}

static int load(struct master *m, const char *path)
{
	struct conf_report report;

	m->conf_path = absolute(path);
	m->conf = conf_load(m->conf_path, 0, &report);
	if (m->conf == NULL) {
		conf_report_print(&report, stderr);
	} else if (log_open(m->conf->log.target, m->conf->log.format, m->conf->log.level) == -1) {
		warnx("log.target %s: %s", m->conf->log.target, log_open_error());
		conf_report_free(&report);
		return EX_CANTCREAT;
	} else {
		log_process("master");
		reload_log_report(&report);
	}
	conf_report_free(&report);
	return m->conf == NULL ? EX_CONFIG : EX_OK;
}

/* Another supervisor that lives is a mistake; workers of one that was killed are about to go. */
static int await_lock(struct master *m)
{
	const char *path = m->conf->supervisor.lock_file;
	int64_t end_ms = clock_monotonic_ms() + m->conf->supervisor.kill_grace_ms + LOCK_EXTRA_MS;
	char error[PATH_MAX + 256];
	bool told = false;
	pid_t holder;
	int r;

	if (lock_open(&m->lock, path, error, sizeof(error)) == -1)
		return fail(m, EX_CANTCREAT, error);
	while ((r = lock_try(&m->lock, path, &holder, error, sizeof(error))) == 1) {
		if (holder != 0) {
			snprintf(error, sizeof(error), "%s: quredisd runs already, pid %d", path, (int)holder);
			return fail(m, EX_TEMPFAIL, error);
		}
		if (!told)
			log_info("lock_waiting", log_str("path", path));
		told = true;
		if (signals_wait_stop(LOCK_EVERY_MS) != 0)
			return fail(m, EX_TEMPFAIL, "told to stop while waiting for the lock");
		if (clock_monotonic_ms() >= end_ms) {
			snprintf(error, sizeof(error), "%s: still held by processes of another quredisd (lslocks names them)", path);
			return fail(m, EX_TEMPFAIL, error);
		}
	}
	return r == 0 ? EX_OK : fail(m, EX_CANTCREAT, error);
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
	return fail(m, r == 1 ? EX_TEMPFAIL : EX_CANTCREAT, error);
}

static int check_keeper(const struct master *m)
{
	char error[PATH_MAX + 256];

	if (!m->conf->redis.embedded || keeper_check(m->conf, error, sizeof(error)) == 0)
		return EX_OK;
	return fail(m, EX_CONFIG, error);
}

static int serve(const struct options *o)
{
	struct master *m = alloc_zero(1, sizeof(*m));
	char error[PATH_MAX + 256];
	int status;

	/* The master holds secrets, and may have the same user as a handler: hide its memory from /proc, ptrace(2) and core files. */
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	m->lock.fd = m->pid_file.fd = m->cgroup_fd = m->life_fd[0] = m->life_fd[1] = m->keeper_fd[0] = m->keeper_fd[1] = -1;
	control_init(&m->control);
	m->signal_fd = signals_open();
	if (m->signal_fd == -1)
		err(EX_OSERR, "signals");
	notify_open(&m->notify);
	if ((status = load(m, o->conf_path)) == EX_OK && (status = await_lock(m)) == EX_OK &&
	    (status = check_keeper(m)) == EX_OK && (status = open_pid_file(m, o->pid_file)) == EX_OK &&
	    (status = master_run(m, error, sizeof(error))) != EX_OK)
		fail(m, status, error);
	pid_file_remove(&m->pid_file);
	leftovers_users_free(&m->lock.users);
	conf_free(m->conf);
	free(m->conf_path);
	free(m);
	return status;
}

int main(int argc, char *argv[], char *envp[])
{
	struct options o;

	open_standard();
	title_init(argc, argv, envp);
	o = parse(argc, argv);
	return o.test || o.print ? test_or_print(&o) : serve(&o);
}
