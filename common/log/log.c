/*
 * Writes the log: one line for each event, with one write(2), to stderr, a file or syslog, from one static buffer, so
 * that logging needs no memory. log/line.c formats the line, log/target.c opens the file, and the callers decide which
 * events to log. If the target takes nothing (disk full, reader stalled or gone), lines are lost, but no process waits
 * without end: the log counts lost lines, and reports them as `log_lines_lost` when the target takes lines again.
 */
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/log/line.h"
#include "common/log/log.h"
#include "common/log/target.h"

/* longest wait for a slow reader; after that no further wait until the reader takes a line */
#define STALL_MS 200

static const char *const level_names[] = { "debug", "info", "warning", "error" };
static const int level_priorities[] = { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERR };

static struct {
	int fd;
	bool owned;		/* this file closes fd */
	bool socket;
	bool blocking;		/* fd's description is shared with others and cannot be made non-blocking */
	bool syslog;
	bool journal;
	char *path;		/* of a file target; NULL: stderr or syslog */
	enum log_format format;
	enum log_level level;
	char process[96];
	struct log_field bound[2];	/* of log_bind(); data NULL: left out */
	uint64_t lost;		/* lost lines since the last one that was written */
	bool stalled;		/* the last wait for the reader ended without room */
	uint32_t epoch;		/* the last one that log_follow() was given */
	struct {
		/* only a part of the last line was written: the next write, perhaps of a child, begins with a
		 * newline */
		atomic_bool torn;
		_Atomic uint64_t lost;
		/* of the first line that was lost since the last one that was written; 0: that one was */
		_Atomic int64_t since_ms;
		atomic_int error;
	} *shared;		/* by all processes that write to this target; NULL: not known */
} state = { .fd = STDERR_FILENO, .blocking = true, .level = LOG_LEVEL_INFO };

static struct log_line line;

static void render(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	char prefix[8] = "\n", time[CLOCK_RFC3339_SIZE];

	if (state.journal)
		snprintf(prefix, sizeof(prefix), "\n<%d>", level_priorities[level]);
	log_line_begin(&line, state.format, prefix);
	if (!state.journal && !state.syslog)
		log_line_field(&line, log_str("time", clock_rfc3339(clock_realtime_ms(), time)));
	log_line_field(&line, log_str("level", level_names[level]));
	log_line_field(&line, log_str("event", event));
	if (state.process[0] != '\0')
		log_line_field(&line, log_str("process", state.process));
	log_line_field(&line, log_int("pid", getpid()));
	for (size_t i = 0; i < nitems(state.bound); i++) {
		size_t own = 0;

		while (own < n && (state.bound[i].data == NULL || strcmp(fields[own].key, state.bound[i].key) != 0))
			own++;
		if (own == n)
			log_line_field(&line, state.bound[i]);
	}
	for (size_t i = 0; i < n; i++)
		log_line_field(&line, fields[i]);
	log_line_end(&line);
}

static bool writable(int timeout_ms)
{
	struct pollfd p = { .fd = state.fd, .events = POLLOUT };

	return poll(&p, 1, timeout_ms) > 0;
}

/* Waits for a slow reader. After a wait without success it does not wait again until the reader has taken something. */
static bool wait_for_reader(void)
{
	if (state.stalled || !writable(STALL_MS))
		state.stalled = true;
	return !state.stalled;
}

static int send_all(const char *p, size_t len)
{
	size_t sent = 0;

	if (state.blocking && !writable(0) && !wait_for_reader()) {
		errno = EAGAIN;
		return -1;
	}
	while (sent < len) {
		ssize_t n = state.socket ? send(state.fd, p + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL)
					 : write(state.fd, p + sent, len - sent);

		if (n >= 0)
			sent += (size_t)n;
		if (n == 0 || (n == -1 && errno != EINTR && (errno != EAGAIN || !wait_for_reader())))
			break;
	}
	if (sent > 0 && state.shared != NULL)
		atomic_store(&state.shared->torn, p[sent - 1] != '\n');
	return sent == len ? 0 : -1;
}

static void note_loss(int error)
{
	int64_t none = 0;

	state.lost++;
	if (state.shared == NULL)
		return;
	atomic_fetch_add(&state.shared->lost, 1);
	atomic_store(&state.shared->error, error);
	atomic_compare_exchange_strong(&state.shared->since_ms, &none, clock_realtime_ms());
}

static void note_success(void)
{
	state.stalled = false;
	if (state.shared != NULL && atomic_load(&state.shared->since_ms) != 0)
		atomic_store(&state.shared->since_ms, 0);
}

void log_losses(struct log_losses *out)
{
	*out = (struct log_losses){0};
	if (state.shared == NULL)
		return;
	out->lines = atomic_load(&state.shared->lost);
	out->since_ms = atomic_load(&state.shared->since_ms);
	out->error = atomic_load(&state.shared->error);
}

/* Writes the line. It begins with a newline, which is written only after a torn line. */
static void write_line(enum log_level level)
{
	size_t from = state.shared != NULL && atomic_load(&state.shared->torn) ? 0 : 1;

	if (state.syslog)
		syslog(level_priorities[level], "%s", line.text + 1);
	else if (send_all(line.text + from, line.len - from) == -1)
		note_loss(errno);
	else
		note_success();
}

static void report_lost(void)
{
	uint64_t lost = state.lost;
	struct log_field count = log_int("count", (int64_t)lost);

	if (lost == 0)
		return;
	state.lost = 0;
	render(LOG_LEVEL_WARNING, "log_lines_lost", &count, 1);
	write_line(LOG_LEVEL_WARNING);
	if (state.lost > 0)		/* the report itself was lost, and does not count */
		state.lost = lost;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	int saved = errno;

	if (!log_enabled(level))
		return;
	report_lost();
	render(level, event, fields, n);
	write_line(level);
	errno = saved;
}

bool log_enabled(enum log_level level)
{
	return level >= state.level;
}

void log_process(const char *name)
{
	strlcpy(state.process, name, sizeof(state.process));
	state.lost = 0;			/* after a fork: the parent reports its own */
}

void log_bind(const char *queue, const char *worker)
{
	state.bound[0] = log_str("queue", queue);
	state.bound[1] = log_str("worker", worker);
}

static void use_stderr(void)
{
	const char *journal = getenv("JOURNAL_STREAM");
	uintmax_t device, inode;
	struct stat st = {0};

	if (fstat(STDERR_FILENO, &st) == -1)
		st.st_mode = 0;
	/*
	 * Opens a pipe or a terminal once more, since O_NONBLOCK on descriptor 2 itself would affect all processes that
	 * share it. Does not open a file again: with an offset of its own the log would overwrite the lines of other
	 * processes.
	 */
	state.fd = S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) ?
	    log_target_above_standard(open("/proc/self/fd/2",
	    O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) : -1;
	state.owned = state.fd != -1;
	state.socket = S_ISSOCK(st.st_mode);
	state.journal = journal != NULL && sscanf(journal, "%ju:%ju", &device, &inode) == 2 && device == st.st_dev &&
	    inode == st.st_ino;
	state.blocking = !state.owned && !state.socket && !S_ISREG(st.st_mode);
	if (!state.owned)
		state.fd = STDERR_FILENO;
}

static void close_target(void)
{
	if (state.owned)
		close(state.fd);
	if (state.syslog)
		closelog();
	free(state.path);
	state.path = NULL;
	state.owned = state.socket = state.blocking = state.syslog = state.journal = false;
	state.stalled = false;
}

/* True: a process that died, or an earlier supervisor, wrote only a part of the last line. */
static bool ends_torn(int fd)
{
	char path[32], last = '\n';
	struct stat st;
	int reader;

	if (fstat(fd, &st) == -1 || !S_ISREG(st.st_mode) || st.st_size == 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	reader = open(path, O_RDONLY | O_CLOEXEC);
	if (reader == -1)
		return false;
	if (pread(reader, &last, 1, st.st_size - 1) != 1)
		last = '\n';
	close(reader);
	return last != '\n';
}

static void look_at_end(int fd)
{
	if (state.shared == NULL) {
		void *page = mmap(NULL, sizeof(*state.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		    0);

		state.shared = page == MAP_FAILED ? NULL : page;
	}
	if (state.shared != NULL)
		atomic_store(&state.shared->torn, ends_torn(fd));
}

static int open_path(const char *target)
{
	int fd = log_target_open(target);

	if (fd == -1)
		return -1;
	close_target();
	state.fd = fd;
	state.owned = true;
	state.path = alloc_string(target);
	return 0;
}

int log_open(const char *target, enum log_format format, enum log_level level)
{
	if (strcmp(target, "stderr") == 0) {
		close_target();
		use_stderr();
	} else if (strcmp(target, "syslog") == 0) {
		close_target();
		openlog("quredisd", LOG_PID | LOG_NDELAY, LOG_DAEMON);
		state.syslog = true;
	} else if (open_path(target) == -1) {
		return -1;
	}
	look_at_end(state.fd);
	state.format = format;
	state.level = level;
	return 0;
}

/* libc owns the connection to syslog: close it here; libc opens it again when needed. */
bool log_move(int fd)
{
	if (state.syslog) {
		closelog();
		openlog("quredisd", LOG_PID, LOG_DAEMON);
	}
	state.lost = 0;			/* the parent reports its own */
	if (!state.owned || state.fd == fd)
		return state.owned;
	if (dup3(state.fd, fd, O_CLOEXEC) == -1) {
		state.fd = STDERR_FILENO;
		state.owned = false;
		return false;
	}
	close(state.fd);
	state.fd = fd;
	return true;
}

int log_reopen(void)
{
	int fd;

	if (state.path == NULL)
		return 0;
	fd = log_target_open(state.path);
	if (fd == -1)
		return -1;
	close(state.fd);
	state.fd = fd;
	state.stalled = false;
	look_at_end(fd);
	return 0;
}

int log_follow(uint32_t epoch)
{
	if (epoch == state.epoch)
		return 0;
	state.epoch = epoch;
	return log_reopen();
}
