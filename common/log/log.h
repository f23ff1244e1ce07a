#ifndef COMMON_LOG_LOG_H
#define COMMON_LOG_LOG_H

#include <sys/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The log has one line for each event, written with one write(2). An event has a stable name (lower case, underscores)
 * and fields; quredisd(8) documents both. Untrusted bytes are escaped (strvis) and capped.
 */
#define LOG_VALUE_MAX 1024	/* the most bytes of a value; `...(+N bytes)` tells how many were cut off */

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARNING, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

struct log_field {
	const char *key;
	enum { LOG_FIELD_STRING, LOG_FIELD_BYTES, LOG_FIELD_INT } type;
	const char *data;	/* STRING, BYTES; NULL: the field is left out */
	size_t len;		/* BYTES */
	int64_t value;		/* INT */
};

static inline struct log_field log_str(const char *key, const char *value)
{
	return (struct log_field){ .key = key, .type = LOG_FIELD_STRING, .data = value };
}

static inline struct log_field log_bytes(const char *key, const void *value, size_t len)
{
	return (struct log_field){ .key = key, .type = LOG_FIELD_BYTES, .data = value, .len = len };
}

static inline struct log_field log_int(const char *key, int64_t value)
{
	return (struct log_field){ .key = key, .type = LOG_FIELD_INT, .value = value };
}

/* Files of log_open() and log_reopen() belong to this user, because children that reopen them have become it. One of
 * root's is given to it. */
void log_owner(uid_t uid, gid_t gid);
/*
 * target: "stderr", "syslog" or an absolute path (appended, created 0640; no link, and no file of another user:
 * common/base/file.h). Children inherit it.
 * Returns -1 and leaves the old target when the file cannot be opened (log_open_error(), errno). With stderr under
 * systemd ($JOURNAL_STREAM) lines begin with <N> priorities and carry no time.
 */
int log_open(const char *target, enum log_format format, enum log_level level);
/* why log_open() or log_reopen() failed: "Permission denied", "is a link: …" */
const char *log_open_error(void);
int log_reopen(void);			/* USR1: opens the same path again */
/*
 * Calls log_reopen() if epoch is another than at the last call. A process that was forked since inherits what its
 * parent followed, as it inherits the descriptor: so it misses no order that came after the fork, before its first
 * call. Returns 0, or what log_reopen() returned.
 */
int log_follow(uint32_t epoch);
/* For a child that closes what it inherited: moves the log to descriptor fd. false: the log needs no descriptor but
 * stderr. */
bool log_move(int fd);
/* Lines that the target did not take from any process that shares it, since the program started; they are not counted
 * for syslog. */
struct log_losses {
	uint64_t lines;
	int64_t since_ms;		/* CLOCK_REALTIME: since then it takes none; 0: it took the last one */
	int error;			/* errno of the last lost line; EAGAIN: its reader stalled */
};
void log_losses(struct log_losses *out);
void log_process(const char *name);	/* "master", "worker mail/2", "sweeper": the field `process` */
/*
 * From now on every event has the fields `queue` and `worker` behind `pid`, unless it has a field of that name itself.
 * NULL: no such field. The caller owns the texts, which must live until the next call.
 */
void log_bind(const char *queue, const char *worker);
bool log_enabled(enum log_level level);

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

#define log_event(level, event, ...)                                                               \
	log_write((level), (event), (const struct log_field[]){ __VA_ARGS__ },                     \
	    sizeof((const struct log_field[]){ __VA_ARGS__ }) / sizeof(struct log_field))
#define log_debug(event, ...) log_event(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_event(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warning(event, ...) log_event(LOG_LEVEL_WARNING, event, __VA_ARGS__)
#define log_error(event, ...) log_event(LOG_LEVEL_ERROR, event, __VA_ARGS__)

#endif
