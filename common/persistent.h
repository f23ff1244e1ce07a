#ifndef COMMON_PERSISTENT_H
#define COMMON_PERSISTENT_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/handler.h"
#include "common/persistent_reply.h"

/*
 * A handler that stays and is fed jobs (docs/design.md; quredis-handler(7), PERSISTENT HANDLERS). Never blocks.
 * A turn of its owner's loop:
 *
 *	ppoll(persistent_pollfds()) -> persistent_io() or _quiet() -> persistent_reply() until false -> persistent_tick()
 *	-> persistent_ended()? -> persistent_give() while persistent_room() > 0 -> persistent_flush()
 *
 * The caller is a child subreaper without other children, ignores SIGPIPE, and opens signals, SIGCHLD among
 * them, only while it polls. now_ms is CLOCK_MONOTONIC everywhere.
 */
#define PERSISTENT_POLLFDS 4	/* stderr, stdout, replies, stdin */

enum persistent_how {
	PERSISTENT_EXITED,		/* code */
	PERSISTENT_SIGNALED,		/* signal */
	PERSISTENT_TIMED_OUT,		/* killed by us: the oldest unanswered job took too long */
	PERSISTENT_STOPPED,		/* persistent_stop() or persistent_kill() */
	PERSISTENT_UNRUNNABLE,		/* could not be executed: error, stage */
	PERSISTENT_DESYNC		/* killed by us: it answered what it was not asked, or can answer no more (logged) */
};

/* Its end. Unanswered are the serials whose reply persistent_reply() did not give. */
struct persistent_end {
	enum persistent_how how;
	int code;			/* exit status; -1: none */
	int signal;			/* 0: none */
	int error;			/* UNRUNNABLE: errno */
	const char *stage;		/* UNRUNNABLE: "execve", "chdir", … */
	bool asked;			/* it was told to go, by persistent_drain() or recycle: no fault of its own */
	bool read_any;			/* false: the process read no byte of any job, so no message can be the cause of its end */
	bool answered_any;		/* false: it may be the handler that is broken, not a job */
	int unanswered;
	uint64_t oldest;		/* serial of the oldest unanswered: TIMED_OUT: this one did. unanswered > 0 only */
	uint64_t unread_from;		/* unanswered ones from this serial on it never read a byte of; UINT64_MAX: none */
	int64_t duration_ms;		/* of the oldest unanswered, since it became the oldest; 0: none */
	int64_t lived_ms;
	const char *stderr_tail;	/* what stderr said since then, or since the last answer. Valid until the next start */
	size_t stderr_len;
};

struct persistent;

/* conf is kept. worker_name ("mail/2") is only for the log. */
struct persistent *persistent_new(const struct conf_queue *conf, const char *worker_name);
void persistent_free(struct persistent *p);		/* kills what runs */

/* Returns 0 (it may still end as UNRUNNABLE), -1: no process could be started (errno): try later. The last one's end was taken. */
int persistent_start(struct persistent *p, const char *incarnation, int64_t now_ms);

bool persistent_alive(const struct persistent *p);	/* executed, and takes jobs or will when there is room */
bool persistent_running(const struct persistent *p);	/* started, and its end was not taken */
bool persistent_ready(const struct persistent *p);	/* the process has read from its input or answered, so it has started up */
int persistent_room(const struct persistent *p);	/* so many jobs may be given now */
int persistent_unanswered(const struct persistent *p);

/*
 * room > 0. Serials rise, over all processes. The message's bytes (not the struct) must live until it is
 * answered or the end is taken; job itself only for the call. Written by persistent_flush().
 */
void persistent_give(struct persistent *p, uint64_t serial, const struct handler_job *job, int64_t now_ms);
void persistent_flush(struct persistent *p);		/* one write; what does not fit goes by poll and io */
bool persistent_unwritten(const struct persistent *p);	/* something waits to be written */
/* Jobs of which nothing was written were never given. The first one's serial; UINT64_MAX: there is none. */
uint64_t persistent_recall(struct persistent *p);

size_t persistent_pollfds(const struct persistent *p, struct pollfd *fds);	/* at most PERSISTENT_POLLFDS */
void persistent_io(struct persistent *p, const struct pollfd *fds, size_t n, int64_t now_ms);
void persistent_quiet(struct persistent *p);	/* instead: the poll found nothing */
bool persistent_read(struct persistent *p, int64_t now_ms);	/* answers only, without a poll. False: there are none yet */

/* The next answer, in the order they came; never BEAT. Until false in each turn: only then can it be found to have ended. */
bool persistent_reply(struct persistent *p, struct persistent_reply *out);

void persistent_tick(struct persistent *p, int64_t now_ms);	/* deadlines, recycling, reaping. After every poll */
void persistent_drain(struct persistent *p, int64_t now_ms);	/* EOF on its stdin: it answers what it has, and exits */
void persistent_stop(struct persistent *p, int64_t now_ms);	/* TERM to the group, KILL after kill_grace. Again: nothing */
void persistent_kill(struct persistent *p);			/* KILL to the group, now */

/* True once, when leader, group and adopted are gone and all answers were taken. Then it can be started again. */
bool persistent_ended(struct persistent *p, struct persistent_end *out);

pid_t persistent_pgid(const struct persistent *p);		/* 0: none */
int64_t persistent_deadline_ms(const struct persistent *p);	/* when persistent_tick() is due; INT64_MAX: never */
int64_t persistent_timeout_at_ms(const struct persistent *p);	/* of the oldest unanswered job; INT64_MAX: never, or none */

#endif
