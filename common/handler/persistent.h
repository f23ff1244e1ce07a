#ifndef COMMON_HANDLER_PERSISTENT_H
#define COMMON_HANDLER_PERSISTENT_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/handler/handler.h"
#include "common/handler/reply.h"

/*
 * A persistent handler: a process that gets many jobs (docs/design.md; quredis-handler(7), PERSISTENT HANDLERS). No
 * function blocks. A turn of its owner's loop:
 *
 *	ppoll(persistent_pollfds()) -> persistent_io() or _quiet() -> persistent_reply() until false ->
 *	persistent_tick() -> persistent_ended()? -> persistent_give() while persistent_room() > 0 -> persistent_flush()
 *
 * The caller is a child subreaper without other children, ignores SIGPIPE, and unblocks signals, SIGCHLD among them,
 * only while it polls. now_ms is CLOCK_MONOTONIC everywhere.
 */
#define PERSISTENT_POLLFDS 4	/* stderr, stdout, replies, stdin */

enum persistent_how {
	PERSISTENT_EXITED,		/* code */
	PERSISTENT_SIGNALED,		/* signal */
	PERSISTENT_TIMED_OUT,		/* killed by this program: the oldest unanswered job took too long */
	PERSISTENT_CANCELLED,		/* persistent_cancel() */
	PERSISTENT_STOPPED,		/* persistent_stop() or persistent_kill() */
	PERSISTENT_UNRUNNABLE,		/* could not be executed: see error, stage */
	PERSISTENT_LATE,		/* killed by this program: not READY within start_timeout */
	PERSISTENT_DESYNC		/* killed by this program: it can answer no more (logged) */
};

/* The end of its process. Unanswered are the jobs whose reply persistent_reply() has not returned. */
struct persistent_end {
	enum persistent_how how;
	int code;			/* exit status; -1: no exit status */
	int signal;			/* 0: no signal */
	const char *limit;		/* TIMED_OUT: handler_limit_text() of process.h; else NULL */
	const char *desync;		/* DESYNC: why; else NULL */
	int error;			/* UNRUNNABLE: errno */
	const char *stage;		/* UNRUNNABLE: "execve", "chdir", … */
	/* it was asked to exit, by persistent_drain() or recycle, so its exit is no fault */
	bool asked;
	/* false: the process read no byte of any job, so no message can be the cause of its end */
	bool read_any;
	bool answered_any;		/* false: the handler may be broken, and not a job */
	bool loaded;			/* false: it must say READY first, and did not */
	int64_t odd_lines;		/* lines that it wrote where answers are expected, and that are none */
	/* the beginning of the last of them; "": there is none. Valid until the next start */
	const char *odd_line;
	/* jobs that it has read anything of, answered ones included. 1: no other message can be the cause */
	int64_t jobs_read;
	int suspects;			/* unanswered jobs that it has read anything of */
	int unanswered;
	/* serial of the oldest unanswered job, the one that TIMED_OUT is about. Valid if unanswered > 0 */
	uint64_t oldest;
	/* the process read no byte of the unanswered jobs from this serial on; UINT64_MAX: no such job */
	uint64_t unread_from;
	int64_t duration_ms;		/* for how long `oldest` was the oldest unanswered job; 0: no unanswered job */
	int64_t lived_ms;
	/* stderr since then, or since the last answer: of `oldest`, unless the process has answered none of several
	 * jobs that it has read. Valid until the next start */
	const char *stderr_tail;
	size_t stderr_len;
};

struct persistent;

/* conf must live as long as the handler. */
struct persistent *persistent_new(const struct conf_queue *conf);
void persistent_free(struct persistent *p);		/* kills the process if it runs */

/*
 * Starts the process, after the end of the last one was taken. Returns 0 (it may still end as UNRUNNABLE); -1: no
 * process, descriptor or memory for it (errno): try again later.
 */
int persistent_start(struct persistent *p, const char *incarnation, int64_t now_ms);

bool persistent_alive(const struct persistent *p);	/* executed, and takes jobs now or when there is room */
bool persistent_running(const struct persistent *p);	/* started, and its end was not taken yet */
/* The process has started up: it has read from its input or answered; with `ready` in its configuration, it has said
 * READY. */
bool persistent_ready(const struct persistent *p);
/* it must say READY, and has not. Of a process that has ended: it never did */
bool persistent_loads(const struct persistent *p);
int persistent_room(const struct persistent *p);	/* how many jobs may be given now */
int persistent_unanswered(const struct persistent *p);
bool persistent_fresh(const struct persistent *p);	/* the process has got no job yet */

/*
 * Requires room > 0. Serials increase, over all processes; the handler never sees them, but a token in their place
 * (token.h). The message's bytes (not the struct) must live until it is answered or the end is taken; job itself only
 * during the call. persistent_flush() writes it.
 */
void persistent_give(struct persistent *p, uint64_t serial, const struct handler_job *job, int64_t now_ms);
/* one write; the rest is written after polls, by persistent_io() */
void persistent_flush(struct persistent *p);
bool persistent_unwritten(const struct persistent *p);	/* some bytes are not written yet */
/*
 * Takes back the jobs of which no byte was written, as if they had not been given. Returns the serial of the first;
 * UINT64_MAX: there is none.
 */
uint64_t persistent_recall(struct persistent *p);

size_t persistent_pollfds(const struct persistent *p, struct pollfd *fds);	/* at most PERSISTENT_POLLFDS */
void persistent_io(struct persistent *p, const struct pollfd *fds, size_t n, int64_t now_ms);
void persistent_quiet(struct persistent *p);	/* call it instead of persistent_io() if the poll found no event */
/* reads answers only, without a poll. False: there are none yet */
bool persistent_read(struct persistent *p, int64_t now_ms);

/*
 * Returns the next answer, in the order of arrival; no sign of life. Call it until it returns false, in each turn: only
 * then can the end of the process be noticed.
 */
bool persistent_reply(struct persistent *p, struct handler_reply *out);
/* lines with the form of an answer that answer no unanswered job, since the last call */
int64_t persistent_strays(struct persistent *p);
/* the last PROGRESS of an unanswered job since the last call; NULL: none */
const struct handler_reply *persistent_progress(struct persistent *p);

void persistent_tick(struct persistent *p, int64_t now_ms);	/* deadlines, recycling, reaping. After every poll */
/* closes its stdin: it answers the jobs it has, and exits */
void persistent_drain(struct persistent *p, int64_t now_ms);
/* as long as it is kept, recycle waits; it holds for all its processes */
void persistent_keep(struct persistent *p, bool keep);
/* the worker stood still for ms: as handler_forgive() */
void persistent_forgive(struct persistent *p, int64_t ms);
/* TERM to the group, KILL after kill_grace. A second call does nothing */
void persistent_stop(struct persistent *p, int64_t now_ms);
/* the same. Its end is CANCELLED, unless it has ended already, or is being ended */
void persistent_cancel(struct persistent *p, int64_t now_ms);
void persistent_kill(struct persistent *p);			/* KILL to the group at once */

/* True once, when the leader, its group and the adopted processes are gone and all answers were taken. Then it can be
 * started again. */
bool persistent_ended(struct persistent *p, struct persistent_end *out);

/* Why no answer has come although the process lived, as far as its lines show: "is its output flushed?". */
void persistent_describe_silence(const struct persistent_end *e, char *out, size_t size);

pid_t persistent_pgid(const struct persistent *p);		/* 0: no process */
int64_t persistent_deadline_ms(const struct persistent *p);	/* when persistent_tick() is due; INT64_MAX: never */
/* of the oldest unanswered job; INT64_MAX: no timeout, or no job */
int64_t persistent_timeout_at_ms(const struct persistent *p);

#endif
