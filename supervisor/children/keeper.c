/*
 * The embedded Redis: a process in a session of its own that starts redis-server, starts it again when it dies, and
 * ends it when master, sweepers and workers have ended. The keeper shares a lock with redis-server, which keeps a
 * second server off the directory (two servers destroy the append-only file).
 */
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "supervisor/children/keeper.h"

#include "common/base/base.h"
#include "common/board/board.h"
#include "common/conf/conf.h"
#include "common/log/log.h"
#include "supervisor/children/policy.h"
#include "supervisor/children/unsaved.h"

#define LOCK_MS 90000		/* an earlier Redis may still be saving */
#define LOCK_EVERY_MS 100
#define SAVE_MS 60000		/* from END_SIGNAL to KILL */
/* the same after an order to lose what is not in the file: Redis has nothing to save, and may refuse to end */
#define GIVEN_UP_MS 5000
/* Redis takes it as SIGTERM, which is blocked there: a stop may send that to every process, also while workers still
 * need Redis, or its disk is full. */
#define END_SIGNAL SIGINT
#define MARK "a Redis has written its append-only file here\n"
#define MARK_EVERY_MS 1000
#define SILENT_MS 2000		/* a buffer that is written within this time is not worth a word */
#define ASK_EVERY_MS 100	/* while silent; then SPEAK_ASK_MS */
#define SPEAK_ASK_MS 1000
#define SPEAK_EVERY_MS 10000

struct keeper {
	const struct conf *conf;
	struct scoreboard *board;
	struct slot *slot;
	int life_fd;
	int lock_fd;
	int signal_fd;
	pid_t redis;		/* 0: does not run */
	int64_t started_ms;
	int64_t next_ms;	/* when it may be started */
	int deaths;		/* in a row */
	bool marked;		/* the lock file says that a Redis has written here */
	bool ending;		/* the keeper has ordered Redis to end */
};

/* ---- the directory ---- */

static int refuse_directory(char *error, size_t size, const char *dir, const char *why)
{
	snprintf(error, size, "redis.dir %s: %s", dir, why);
	return -1;
}

static int check_links(char *error, size_t size, const char *dir, uid_t user)
{
	char *link = file_link_flaw(dir, user);
	int rc = link == NULL ? 0 : refuse_directory(error, size, dir, link);

	free(link);
	return rc;
}

static int make_as_owner(const char *dir, const struct conf_run_as *own)
{
	int rc;

	privileges_files_as(own->uid, own->gid);
	rc = mkdir(dir, 0700);
	privileges_files_as(geteuid(), getegid());
	return rc;
}

/* A root that may not pass over modes sees it only as its owner. */
static int stat_or_as_owner(const char *dir, const struct conf_run_as *own, struct stat *st)
{
	int rc = stat(dir, st);

	if (rc == 0 || errno != EACCES)
		return rc;
	privileges_files_as(own->uid, own->gid);
	rc = stat(dir, st);
	privileges_files_as(geteuid(), getegid());
	return rc;
}

/* Only a directory that this call has made gets another owner. */
static int make_directory(const char *dir, const struct conf_run_as *own)
{
	int fd, rc;

	if (own->switch_user && (make_as_owner(dir, own) == 0 || errno == EEXIST))
		return 0;
	if (mkdir(dir, 0700) == -1)
		return errno == EEXIST ? 0 : -1;
	if (!own->switch_user)
		return 0;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd == -1)
		return -1;
	rc = fchown(fd, own->uid, own->gid);
	close(fd);
	return rc;
}

int keeper_check(const struct conf *conf, char *error, size_t size)
{
	const struct conf_run_as *own = &conf->supervisor.as;
	const char *dir = conf->redis.dir, *why;
	struct sockaddr_un sa;
	struct stat st;

	if (strlen(dir) + sizeof("/redis.sock") > sizeof(sa.sun_path))
		return refuse_directory(error, size, dir, "too long for the name of a socket in it");
	if (check_links(error, size, dir, own->uid) == -1)
		return -1;
	if (make_directory(dir, own) == -1)
		return refuse_directory(error, size, dir, strerror(errno));
	if (stat_or_as_owner(dir, own, &st) == -1)
		return refuse_directory(error, size, dir, strerror(errno));
	why = conf_redis_dir_flaw(conf, &st);
	return why == NULL ? 0 : refuse_directory(error, size, dir, why);
}

/* ---- waiting ---- */

static void drain_signals(struct keeper *k)
{
	struct signalfd_siginfo info;

	while (read(k->signal_fd, &info, sizeof(info)) > 0)
		;
	log_follow(atomic_load(&k->board->master.log_epoch));
}

/* Waits for a signal, the end of life_fd, or the timeout. True: no process holds the other end of life_fd any more. */
static bool is_alone(struct keeper *k, int64_t timeout_ms)
{
	struct pollfd p[] = {
		{ .fd = k->life_fd, .events = POLLIN },
		{ .fd = k->signal_fd, .events = POLLIN },
	};
	int n = poll(p, 2, timeout_ms > INT_MAX ? -1 : (int)timeout_ms);

	if (n == -1)
		clock_poll_failed();
	if (n > 0 && p[1].revents != 0)
		drain_signals(k);
	return n > 0 && p[0].revents != 0;
}

static int open_lock(const char *dir)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/quredis.lock", dir);
	return open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static _Noreturn void give_up(const char *reason, const char *dir, int status)
{
	log_error("keeper_failed", log_str("reason", reason), log_str("dir", dir));
	_exit(status);
}

static void await_lock(struct keeper *k)
{
	const char *dir = k->conf->redis.dir;
	int64_t end_ms = clock_monotonic_ms() + LOCK_MS;
	bool logged = false;

	k->lock_fd = open_lock(dir);
	if (k->lock_fd == -1)
		give_up(strerror(errno), dir, EX_CANTCREAT);
	while (flock(k->lock_fd, LOCK_EX | LOCK_NB) == -1) {
		if (!logged)
			log_info("keeper_waiting", log_str("reason", "another Redis still holds the directory"),
			    log_str("dir", dir));
		logged = true;
		if (is_alone(k, LOCK_EVERY_MS))
			_exit(CHILD_EXIT_DONE);
		if (clock_monotonic_ms() >= end_ms)
			give_up("another Redis still holds the directory", dir, EX_TEMPFAIL);
	}
}

/* ---- the data ---- */

enum data { DATA_MISSING, DATA_THERE, DATA_UNKNOWN };

/* Redis 6 has one file, Redis 7 a directory with a manifest, without which it overwrites what lies there. */
static enum data look_for_data(const char *dir)
{
	static const char *const names[] = { "appendonlydir/appendonly.aof.manifest", "appendonly.aof" };
	enum data data = DATA_MISSING;
	char path[PATH_MAX];

	for (size_t i = 0; i < nitems(names); i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		if (access(path, F_OK) == 0)
			return DATA_THERE;
		if (errno != ENOENT)
			data = DATA_UNKNOWN;
	}
	return data;
}

/* Redis begins with nothing where it finds no data. So a lock file that is not empty remembers that there was some. */
static void mark_data(struct keeper *k)
{
	if (!k->marked && look_for_data(k->conf->redis.dir) == DATA_THERE)
		k->marked = pwrite(k->lock_fd, MARK, sizeof(MARK) - 1, 0) == (ssize_t)sizeof(MARK) - 1;
}

/* The keeper alone writes into the lock file while it holds it, so it reads the mark once. */
static void read_mark(struct keeper *k)
{
	struct stat st;

	if (fstat(k->lock_fd, &st) == -1)
		give_up(strerror(errno), k->conf->redis.dir, EX_OSERR);
	k->marked = st.st_size > 0;
}

static void check_data(struct keeper *k)
{
	static const char missing[] = "its append-only file is missing (appendonlydir with its manifest, or "
	    "appendonly.aof), although a Redis has written one: mount or restore it; to begin with an empty Redis, "
	    "remove quredis.lock there, too";
	enum data data = look_for_data(k->conf->redis.dir);

	mark_data(k);
	if (k->marked && data != DATA_THERE)
		give_up(data == DATA_MISSING ? missing : "its append-only file cannot be examined",
		    k->conf->redis.dir, data == DATA_MISSING ? EX_DATAERR : EX_OSERR);
}

/* ---- redis-server ---- */

static _Noreturn void exec_redis(const struct keeper *k, pid_t keeper_pid)
{
	const char *dir = k->conf->redis.dir;
	char socket[PATH_MAX], logfile[PATH_MAX];
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t blocked;

	snprintf(socket, sizeof(socket), "%s/redis.sock", dir);
	snprintf(logfile, sizeof(logfile), "%s/redis.log", dir);
	prctl(PR_SET_PDEATHSIG, END_SIGNAL);
	if (getppid() != keeper_pid)
		_exit(EX_TEMPFAIL);
	if (null != -1)
		dup2(null, STDIN_FILENO);
	dup2(STDERR_FILENO, STDOUT_FILENO);
	fcntl(k->lock_fd, F_SETFD, 0);		/* redis-server holds the lock as well */
	process_reset_signals();
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGTERM);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	signal(SIGXFSZ, SIG_IGN);	/* beyond its file size limit Redis then refuses writes, and stays */
	execlp(k->conf->redis.server, "redis-server", "--port", "0", "--unixsocket", socket, "--unixsocketperm", "700",
	    "--dir", dir, "--logfile", logfile, "--daemonize", "no", "--supervised", "no", "--save", "",
	    "--appendonly", "yes", "--appendfsync", "everysec", "--maxmemory-policy", "noeviction", (char *)NULL);
	log_error("redis_failed", log_str("reason", strerror(errno)), log_str("server", k->conf->redis.server));
	_exit(EX_UNAVAILABLE);
}

static void start_redis(struct keeper *k, int64_t now_ms)
{
	pid_t self = getpid(), pid;

	check_data(k);
	pid = fork();
	if (pid == 0)
		exec_redis(k, self);
	if (pid == -1) {
		log_error("redis_failed", log_str("reason", strerror(errno)));
		k->next_ms = now_ms + policy_delay_ms(++k->deaths, 0);
		return;
	}
	k->redis = pid;
	k->started_ms = now_ms;
	atomic_store(&k->slot->handler_pgid, pid);
	log_info("redis_started", log_int("child", pid), log_str("dir", k->conf->redis.dir));
}

static void log_end(const struct keeper *k, int status)
{
	struct log_field how = WIFSIGNALED(status) ? log_str("signal", process_signal_name(WTERMSIG(status)))
						   : log_int("exit", WEXITSTATUS(status));

	log_event(k->ending ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "redis_exited", log_int("child", k->redis), how);
}

/* Reaps redis-server if it has ended. */
static void reap_redis(struct keeper *k, int64_t now_ms)
{
	int status;
	pid_t pid;

	if (k->redis == 0)
		return;
	do
		pid = waitpid(k->redis, &status, WNOHANG);
	while (pid == -1 && errno == EINTR);
	if (pid != k->redis)
		return;
	log_end(k, status);
	if (now_ms - k->started_ms >= POLICY_ALIVE_MS)
		k->deaths = 0;
	k->next_ms = now_ms + policy_delay_ms(++k->deaths, 0);
	k->redis = 0;
	atomic_store(&k->slot->handler_pgid, 0);
}

static void await_signal(struct keeper *k, int64_t timeout_ms)
{
	struct pollfd p = { .fd = k->signal_fd, .events = POLLIN };
	int n = poll(&p, 1, (int)timeout_ms);

	if (n == -1)
		clock_poll_failed();
	if (n > 0)
		drain_signals(k);
	reap_redis(k, clock_monotonic_ms());
}

static void log_unsaved(const struct keeper *k, const char *event, const struct unsaved *u)
{
	struct log_field bytes = u->bytes == SLOT_UNSAVED_UNKNOWN ? log_str("bytes", "unknown")
	    : log_int("bytes", u->bytes);

	log_warning(event, log_int("child", k->redis), bytes, log_str("reason", u->why),
	    log_str("dir", k->conf->redis.dir));
}

/*
 * Keeps Redis alive until all that it acknowledged is in its file, or the master orders to give that up. The master
 * does so only after slot->unsaved has told people what they lose. Returns how long Redis may take to end then.
 */
static int64_t await_file(struct keeper *k)
{
	int64_t speak_ms = clock_monotonic_ms() + SILENT_MS, ask_ms = ASK_EVERY_MS, save_ms = SAVE_MS, now_ms;
	const _Atomic uint32_t *order = &k->board->master.orders[k->slot - k->board->slots];
	struct unsaved u;

	while (k->redis != 0 && unsaved_ask(k->conf->redis.dir, &u)) {
		if (atomic_load(order) == ORDER_HAND_BACK) {
			log_unsaved(k, "redis_unsaved_given_up", &u);
			save_ms = GIVEN_UP_MS;
			break;
		}
		now_ms = clock_monotonic_ms();
		if (now_ms >= speak_ms || ask_ms == SPEAK_ASK_MS) {
			ask_ms = SPEAK_ASK_MS;
			slot_wait_for_file(k->slot, u.bytes, u.why, now_ms);
		}
		if (now_ms >= speak_ms) {
			log_unsaved(k, "redis_unsaved", &u);
			speak_ms = now_ms + SPEAK_EVERY_MS;
		}
		await_signal(k, ask_ms);
	}
	atomic_store(&k->slot->unsaved, 0);
	return save_ms;
}

/* Sends sig, and waits up to most_ms for the end of Redis. */
static void await_end(struct keeper *k, int sig, int64_t most_ms)
{
	int64_t now_ms = clock_monotonic_ms(), end_ms = now_ms + most_ms;

	k->ending = true;
	if (k->redis != 0)
		kill(k->redis, sig);
	for (; k->redis != 0 && now_ms < end_ms; now_ms = clock_monotonic_ms())
		await_signal(k, end_ms - now_ms);
}

static _Noreturn void finish_keeper(struct keeper *k)
{
	int64_t save_ms;

	mark_data(k);
	save_ms = await_file(k);
	await_end(k, END_SIGNAL, save_ms);
	await_end(k, SIGKILL, SAVE_MS);
	_exit(k->redis == 0 ? CHILD_EXIT_DONE : EX_TEMPFAIL);
}

static int open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGTERM);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

_Noreturn void keeper_run(const struct conf *conf, struct scoreboard *board, int slot, int life_fd)
{
	struct keeper k = {
		.conf = conf, .board = board, .slot = &board->slots[slot],
		.life_fd = life_fd, .signal_fd = open_signals(),
	};
	int64_t now_ms;

	setsid();
	if (k.signal_fd == -1)
		give_up(strerror(errno), conf->redis.dir, EX_OSERR);
	await_lock(&k);
	read_mark(&k);
	slot_set_state(k.slot, SLOT_RUNNING);
	do {
		now_ms = clock_monotonic_ms();
		reap_redis(&k, now_ms);
		if (k.redis == 0 && now_ms >= k.next_ms)
			start_redis(&k, now_ms);
		mark_data(&k);
	} while (!is_alone(&k, k.redis == 0 ? k.next_ms - now_ms : k.marked ? INT64_MAX : MARK_EVERY_MS));
	finish_keeper(&k);
}
