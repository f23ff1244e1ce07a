#ifndef COMMON_HANDLER_HANDLER_H
#define COMMON_HANDLER_HANDLER_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/handler/cause.h"
#include "common/message/message.h"

/*
 * One run of a queue's handler in exec mode (docs/design.md). No function blocks: the worker polls the descriptors and
 * calls these functions.
 *
 *	started -> running -> (TERM -> KILL) -> leader exited -> group and adopted killed -> finished
 *
 * The caller is a child subreaper without other children, ignores SIGPIPE, and unblocks signals only while it polls.
 */
#define HANDLER_POLLFDS 4	/* stdin, stdout, stderr, replies */

struct handler_job {
	struct message *message;		/* message_payload() gives its input */
	const char *incarnation;
	int attempt;				/* 1 for the first attempt */
	int max_attempts;
	bool redelivered;
	int64_t timeout_ms;			/* from the start of the run, or from a sign of life; -1: no timeout */
	/* NULL-terminated: at most HANDLER_FACTS "QUREDIS_NAME=VALUE", in place of attempt, max_attempts and
	 * redelivered. NULL: these */
	char *const *facts;
};

#define HANDLER_FACTS 4

struct handler_reply;
struct handler_emissions;

enum handler_end {
	HANDLER_EXITED,			/* code */
	HANDLER_SIGNALED,		/* signal, core */
	HANDLER_TIMED_OUT,		/* killed after timeout_ms; code or signal say how it ended */
	HANDLER_CANCELLED,		/* killed by handler_cancel(); code or signal say how it ended */
	/* handler_stop() was called, and the handler did not end with an exit status that means done, or it replied */
	HANDLER_STOPPED,
	HANDLER_UNRUNNABLE,		/* could not be executed: see error, stage */
	/* input = "argv", and the message has a NUL or is too long for the command line: never started */
	HANDLER_UNREPRESENTABLE
};

struct handler_result {
	enum handler_end end;
	int code;			/* -1: no exit status */
	int signal;			/* 0: no signal */
	const char *limit;		/* TIMED_OUT: handler_limit_text() of process.h; else NULL */
	int error;			/* errno of what failed before the executable ran */
	const char *stage;		/* "execve", "chdir", "setuid", …: what failed */
	int64_t duration_ms;
	const char *stderr_tail;	/* last bytes of stderr, owned by the handler, valid until the next start */
	size_t stderr_len;
	bool exit_after_stop;		/* it was asked to stop, and exited by itself with `code`, without a verdict */
	/* its last reply, valid until the next start; NULL: none. It decides if it EXITED */
	const struct handler_reply *verdict;
	struct handler_emissions *emitted;	/* emit.h; likewise. NULL: nothing. The caller may take its contents */
};

struct handler;

/* conf must live as long as the handler. */
struct handler *handler_new(const struct conf_queue *conf);
void handler_free(struct handler *h);

/*
 * Returns 0: running, or finished at once with UNREPRESENTABLE or UNRUNNABLE; -1: no process, descriptor or memory for
 * it (errno: EAGAIN, ENOMEM, EMFILE, ENFILE): nothing was started, try again later. job and its message must live until
 * the run is finished.
 */
int handler_start(struct handler *h, const struct handler_job *job, int64_t now_ms);

pid_t handler_pgid(const struct handler *h);		/* 0: no process */
/* when the timeout, the KILL or the next check is due; INT64_MAX: never */
int64_t handler_deadline_ms(const struct handler *h);
int64_t handler_timeout_at_ms(const struct handler *h);	/* of this run; INT64_MAX: no timeout */
/* the last PROGRESS since the last call; NULL: none */
const struct handler_reply *handler_progress(struct handler *h);
size_t handler_pollfds(const struct handler *h, struct pollfd *p);	/* at most HANDLER_POLLFDS */
void handler_io(struct handler *h, const struct pollfd *p, size_t n);	/* p, n: as handler_pollfds() filled them in */

/* Timers and waitpid: call it after every poll and on SIGCHLD. */
void handler_tick(struct handler *h, int64_t now_ms);
/* The worker stood still for ms, in which it neither read nor wrote: the deadlines of this run move by that time,
 * HANDLER_FORGIVEN_MAX times at most. */
void handler_forgive(struct handler *h, int64_t ms);
/* TERM to the group, KILL after kill_grace. A second call does nothing */
void handler_stop(struct handler *h, int64_t now_ms);
/* the same. Its end is CANCELLED, whatever it does, unless it has ended already, or is being ended */
void handler_cancel(struct handler *h, int64_t now_ms);
void handler_kill(struct handler *h);			/* KILL to the group at once */

/*
 * True once the leader is reaped, its group and all adopted processes are gone, and the outputs are drained. The result
 * is then filled in, and the handler can be started again.
 */
bool handler_finished(struct handler *h, struct handler_result *result);

/* The other headers of this folder. */
#include "common/handler/emit.h"
#include "common/handler/persistent.h"
#include "common/handler/script.h"

#endif
