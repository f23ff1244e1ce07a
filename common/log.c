/*
 * The log: one line an event, one write(2) a line, to stderr, a file or syslog. Renders logfmt or
 * JSON into one static buffer, so that logging needs no memory. A target that takes nothing (disk
 * full, reader stalled or gone) costs lines, never a wait without end: lost lines are counted and
 * reported by `log_lines_lost` once it heals. What is logged when is the callers' business.
 */
#include <sys/socket.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

#define LIBBSD_NETBSD_VIS 1	/* neither strnvis is used; says so to the header */
#include <bsd/string.h>
#include <bsd/vis.h>

#include "common/clock.h"
#include "common/log.h"

#define LINE_SIZE 24576
#define LINE_TAIL 32		/* kept free for ` truncated=true`, `}` and the newline */
#define STALL_MS 200		/* longest wait for a slow reader; after that none until it takes a line */

static const char *const level_names[] = { "debug", "info", "warning", "error" };
static const int level_priorities[] = { LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERR };

static struct {
	int fd;
	bool owned;		/* fd is ours to close */
	bool socket;
	bool blocking;		/* fd's description is shared with others and cannot be made non-blocking */
	bool syslog;
	bool journal;
	char *path;		/* of a file target; NULL: stderr or syslog */
	enum log_format format;
	enum log_level level;
	char process[96];
	uint64_t lost;		/* lines since the last one that went out */
	bool stalled;		/* a wait for the reader ended in vain */
	bool torn;		/* the last line went out in part: the next write begins with a newline */
} state = { .fd = STDERR_FILENO, .blocking = true, .level = LOG_LEVEL_INFO };

/* text[0] is kept for the newline that ends a torn line. */
static struct line {
	char text[LINE_SIZE];
	size_t len;
	bool empty;		/* no field yet */
	bool full;		/* something did not fit since this was last cleared */
} line;

/* ---- rendering ---- */

static void put(const char *data, size_t len)
{
	if (len > LINE_SIZE - LINE_TAIL - line.len) {
		line.full = true;
		return;
	}
	memcpy(line.text + line.len, data, len);
	line.len += len;
}

static void put_string(const char *s)
{
	put(s, strlen(s));
}

__attribute__((format(printf, 1, 2)))
static void put_format(const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_string(text);
}

/* Length of the UTF-8 sequence at p and its code point; 0: not UTF-8 (overlong, surrogate, cut off). */
static size_t utf8_decode(const unsigned char *p, size_t len, uint32_t *point)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	if (n == 0 || n > len)
		return 0;
	*point = p[0] & first_bits[n];
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (p[i] & 0x3f);
	}
	if (*point < least[n] || *point > 0x10ffff || (*point >= 0xd800 && *point <= 0xdfff))
		return 0;
	return n;
}

/* Not a control (C0, C1, DEL), nothing that reorders or hides text on a terminal. */
static bool showable(uint32_t point)
{
	return (point >= 0x20 && point < 0x7f) ||
	    (point >= 0xa0 && !(point >= 0x200b && point <= 0x200f) && !(point >= 0x2028 && point <= 0x202e) &&
		!(point >= 0x2060 && point <= 0x206f) && point != 0xfeff && !(point >= 0xfff9 && point <= 0xfffb));
}

/* Bytes from p on that can stand in a logfmt line as they are. */
static size_t plain_run(const unsigned char *p, size_t len, bool quoted)
{
	size_t i = 0, n;
	uint32_t point;

	while (i < len && (n = utf8_decode(p + i, len - i, &point)) > 0 && showable(point)) {
		if (point == '"' || point == '\\' || (!quoted && (point == ' ' || point == '=')))
			break;
		i += n;
	}
	return i;
}

static void put_logfmt(const unsigned char *p, size_t len)
{
	char escaped[8];
	size_t i = 0;

	while (i < len) {
		size_t n = plain_run(p + i, len - i, true);

		put((const char *)p + i, n);
		i += n;
		if (i == len)
			break;
		escaped[0] = '\0';
		vis(escaped, p[i], VIS_CSTYLE | VIS_OCTAL | VIS_TAB | VIS_NL | VIS_DQ | VIS_NOLOCALE,
		    i + 1 < len ? p[i + 1] : 0);
		put_string(escaped);
		i++;
	}
}

static void put_json(const unsigned char *p, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n == 0 ? 1 : n) {
		uint32_t point = 0;

		n = utf8_decode(p + i, len - i, &point);
		if (n == 0)
			put_format("\\\\x%02x", p[i]);
		else if (point == '"' || point == '\\')
			put_format("\\%c", (char)point);
		else if (point == '\n')
			put_string("\\n");
		else if (!showable(point) && point <= 0xffff)
			put_format("\\u%04x", point);
		else
			put((const char *)p + i, n);
	}
}

static void put_key(const char *key)
{
	bool json = state.format == LOG_FORMAT_JSON;

	if (!line.empty)
		put_string(json ? "," : " ");
	if (json)
		put_string("\"");
	put_string(key);
	put_string(json ? "\":" : "=");
}

static void put_value(const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t shown = len > LOG_VALUE_MAX ? LOG_VALUE_MAX : len;
	bool json = state.format == LOG_FORMAT_JSON;
	bool quoted = json || len == 0 || shown < len || plain_run(p, shown, false) < shown;

	if (quoted)
		put("\"", 1);
	if (json)
		put_json(p, shown);
	else
		put_logfmt(p, shown);
	if (shown < len)
		put_format("...(+%zu bytes)", len - shown);
	if (quoted)
		put("\"", 1);
}

/* Whole or not at all. */
static void put_field(struct log_field f)
{
	size_t mark = line.len;

	if (f.type != LOG_FIELD_INT && f.data == NULL)
		return;
	put_key(f.key);
	if (f.type == LOG_FIELD_INT)
		put_format("%" PRId64, f.value);
	else
		put_value(f.data, f.type == LOG_FIELD_STRING ? strlen(f.data) : f.len);
	if (line.full)
		line.len = mark;
	else
		line.empty = false;
}

static void render(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	bool json = state.format == LOG_FORMAT_JSON, truncated = false;
	char time[CLOCK_RFC3339_SIZE];

	line.text[0] = '\n';
	line.len = 1;
	line.empty = true;
	line.full = false;
	if (state.journal)
		put_format("<%d>", level_priorities[level]);
	if (json)
		put("{", 1);
	if (!state.journal && !state.syslog)
		put_field(log_str("time", clock_rfc3339(clock_realtime_ms(), time)));
	put_field(log_str("level", level_names[level]));
	put_field(log_str("event", event));
	if (state.process[0] != '\0')
		put_field(log_str("process", state.process));
	put_field(log_int("pid", getpid()));
	for (size_t i = 0; i < n; i++) {
		put_field(fields[i]);
		truncated |= line.full;
		line.full = false;
	}
	if (truncated)
		strlcpy(line.text + line.len, json ? ",\"truncated\":true" : " truncated=true", LINE_TAIL);
	line.len += truncated ? strlen(line.text + line.len) : 0;
	if (json)
		line.text[line.len++] = '}';
	line.text[line.len] = '\n';
}

/* ---- targets ---- */

static bool writable(int timeout_ms)
{
	struct pollfd p = { .fd = state.fd, .events = POLLOUT };

	return poll(&p, 1, timeout_ms) > 0;
}

/* Waits for a slow reader, but in vain only once until it takes something again. */
static bool wait_for_reader(void)
{
	if (state.stalled || !writable(STALL_MS))
		state.stalled = true;
	return !state.stalled;
}

static int send_all(const char *p, size_t len)
{
	size_t sent = 0;

	if (state.blocking && !writable(0) && !wait_for_reader())
		return -1;
	while (sent < len) {
		ssize_t n = state.socket ? send(state.fd, p + sent, len - sent, MSG_DONTWAIT | MSG_NOSIGNAL)
					 : write(state.fd, p + sent, len - sent);

		if (n >= 0)
			sent += (size_t)n;
		if (n == 0 || (n == -1 && errno != EINTR && (errno != EAGAIN || !wait_for_reader())))
			break;
	}
	if (sent > 0)
		state.torn = p[sent - 1] != '\n';
	return sent == len ? 0 : -1;
}

static void deliver(enum log_level level)
{
	size_t from = state.torn ? 0 : 1;

	if (state.syslog) {
		line.text[line.len] = '\0';
		syslog(level_priorities[level], "%s", line.text + 1);
	} else if (send_all(line.text + from, line.len + 1 - from) == -1) {
		state.lost++;
	} else {
		state.stalled = false;
	}
}

static void report_lost(void)
{
	uint64_t lost = state.lost;
	struct log_field count = log_int("count", (int64_t)lost);

	if (lost == 0)
		return;
	state.lost = 0;
	render(LOG_LEVEL_WARNING, "log_lines_lost", &count, 1);
	deliver(LOG_LEVEL_WARNING);
	if (state.lost > 0)		/* not healed: this very line does not count */
		state.lost = lost;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	int saved = errno;

	if (!log_enabled(level))
		return;
	report_lost();
	render(level, event, fields, n);
	deliver(level);
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

/* Never 0-2: whoever closes or redirects those must not hit the log. */
static int above_standard(int fd)
{
	int high;

	if (fd == -1 || fd > STDERR_FILENO)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	close(fd);
	return high;
}

static int open_file(const char *path)
{
	return above_standard(open(path, O_WRONLY | O_APPEND | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0640));
}

/*
 * Pipes and terminals are opened once more: O_NONBLOCK on descriptor 2 itself would hit everybody who
 * shares it. Not a file: an offset of our own would overwrite what others write there.
 */
static int open_stderr(mode_t type)
{
	if (type != S_IFIFO && type != S_IFCHR)
		return -1;
	return above_standard(open("/proc/self/fd/2", O_WRONLY | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

static bool is_journal(const struct stat *st)
{
	const char *stream = getenv("JOURNAL_STREAM");
	uintmax_t device, inode;

	return stream != NULL && sscanf(stream, "%ju:%ju", &device, &inode) == 2 && device == st->st_dev &&
	    inode == st->st_ino;
}

static void use_stderr(void)
{
	struct stat st = {0};

	if (fstat(STDERR_FILENO, &st) == -1)
		st.st_mode = 0;
	state.fd = open_stderr(st.st_mode & S_IFMT);
	state.owned = state.fd != -1;
	state.socket = S_ISSOCK(st.st_mode);
	state.journal = is_journal(&st);
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
	state.stalled = state.torn = false;
}

static void use_file(int fd, char *path)
{
	state.fd = fd;
	state.owned = true;
	state.path = path;
}

static void use_syslog(void)
{
	openlog("quredisd", LOG_PID | LOG_NDELAY, LOG_DAEMON);
	state.syslog = true;
}

static int open_path(const char *target)
{
	char *path;
	int fd;

	if (target[0] != '/') {
		errno = EINVAL;
		return -1;
	}
	path = strdup(target);
	fd = path == NULL ? -1 : open_file(path);
	if (fd == -1) {
		free(path);
		return -1;
	}
	close_target();
	use_file(fd, path);
	return 0;
}

int log_open(const char *target, enum log_format format, enum log_level level)
{
	if (strcmp(target, "stderr") == 0) {
		close_target();
		use_stderr();
	} else if (strcmp(target, "syslog") == 0) {
		close_target();
		use_syslog();
	} else if (open_path(target) == -1) {
		return -1;
	}
	state.format = format;
	state.level = level;
	return 0;
}

int log_reopen(void)
{
	int fd;

	if (state.path == NULL)
		return 0;
	fd = open_file(state.path);
	if (fd == -1)
		return -1;
	close(state.fd);
	state.fd = fd;
	state.stalled = state.torn = false;
	return 0;
}
