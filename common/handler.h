#ifndef COMMON_HANDLER_H
#define COMMON_HANDLER_H

#include <sys/types.h>

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/message.h"

/*
 * One run of a queue's handler in exec mode (docs/design.md): started, fed, drained, timed, killed until
 * nothing of it is left. Never blocks: the worker polls its descriptors and calls in.
 *
 *	started -> running -> (TERM -> KILL) -> leader exited -> group and adopted killed -> finished
 *
 * The caller is a child subreaper without other children, ignores SIGPIPE, and opens signals only while it polls.
 */
#define HANDLER_POLLFDS 3	/* stdin, stdout, stderr */

struct handler_job {
	struct message *message;		/* payload by message_payload() */
	const char *incarnation;
	int attempt;				/* 1 for the first */
	int max_attempts;
	bool redelivered;
	int64_t timeout_ms;			/* from the start; -1: none */
	char *const *facts;			/* NULL-terminated: at most HANDLER_FACTS "QUREDIS_NAME=VALUE", in place of attempt,
						 * max_attempts and redelivered. NULL: these */
};

#define HANDLER_FACTS 4

enum handler_end {
	HANDLER_EXITED,			/* code */
	HANDLER_SIGNALED,		/* signal, core */
	HANDLER_TIMED_OUT,		/* killed by us after timeout_ms; code or signal as it ended */
	HANDLER_STOPPED,		/* handler_stop() was called and it did not end with an answer of its own (done) */
	HANDLER_UNRUNNABLE,		/* could not be executed: error, stage */
	HANDLER_UNREPRESENTABLE		/* input = "argv" and a NUL or more than 100 KiB: never started */
};

struct handler_result {
	enum handler_end end;
	int code;			/* exit status; -1: none */
	int signal;			/* 0: none */
	int error;			/* errno of what failed before the executable ran */
	const char *stage;		/* "execve", "chdir", "setuid", …: where */
	int64_t duration_ms;
	const char *stderr_tail;	/* last bytes of stderr, owned by the handler, valid until the next start */
	size_t stderr_len;
	bool exit_after_stop;		/* it was told to stop and ended by itself with `code` */
};

struct handler;

/* conf is kept. worker_name ("mail/2") is only for the log. */
struct handler *handler_new(const struct conf_queue *conf, const char *worker_name);
void handler_free(struct handler *h);

/* Returns 0 (running, or finished at once with UNREPRESENTABLE/UNRUNNABLE), -1 if no process could be started (errno: EAGAIN,
 * ENOMEM, EMFILE): nothing was started, try later. job and its message must live until it is finished. */
int handler_start(struct handler *h, const struct handler_job *job, int64_t now_ms);

pid_t handler_pgid(const struct handler *h);		/* 0: none */
int64_t handler_deadline_ms(const struct handler *h);	/* when timeout, kill or the next look is due; INT64_MAX: never */
size_t handler_pollfds(const struct handler *h, struct pollfd *p);	/* at most HANDLER_POLLFDS */
void handler_io(struct handler *h, const struct pollfd *p, size_t n);	/* those that handler_pollfds() gave */

/* Timers, and waitpid: call after every poll and on SIGCHLD. */
void handler_tick(struct handler *h, int64_t now_ms);
void handler_stop(struct handler *h, int64_t now_ms);	/* TERM to the group, KILL after kill_grace. Again: nothing */
void handler_kill(struct handler *h);			/* KILL to the group, now */

/* True once the leader is reaped, its group and all adopted are gone, and outputs are drained. The result is then
 * filled in; the handler can be started again. */
bool handler_finished(struct handler *h, struct handler_result *result);

#endif
