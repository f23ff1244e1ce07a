#ifndef COMMON_HANDLER_PROCESS_H
#define COMMON_HANDLER_PROCESS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/handler/family.h"
#include "common/handler/spawn.h"
#include "common/message/message.h"

/*
 * The process of a handler, in any mode, from its start until no process of it is left:
 *
 *	IDLE -start-> RUNNING -terminate-> TERMINATING -kill_grace-> KILLING
 *	                 └──── leader ended ───┴───────────────────────┴─> CLEARING -nothing left-> GONE
 *
 * Its owner (handler.c, common/handler/persistent.c) writes its input, reads its output, and decides when its time is
 * up.
 */
enum handler_phase {
	HANDLER_IDLE,		/* never started */
	HANDLER_RUNNING,
	HANDLER_TERMINATING,	/* TERM sent */
	HANDLER_KILLING,	/* KILL sent, the leader is not reaped yet */
	HANDLER_CLEARING,	/* the leader is reaped, adopted processes may be left */
	HANDLER_GONE,
	HANDLER_PHASES
};

struct handler_process {
	const struct conf_queue *conf;
	struct message *message;	/* the message of handler_process_show() */
	int failure_pipe[2];		/* serves every run; -1: not open */
	struct conf_script script;	/* of conf->handler, if has_script */
	bool has_script;
	uint64_t signals;		/* signals whose disposition in this process is not the default */
	pid_t self;
	struct handler_family family;
	enum handler_phase phase;
	pid_t leader;			/* stays set when it is reaped */
	struct handler_failure failure;	/* see handler_process_learn() */
	int64_t now_ms, started_ms;
	int64_t duration_ms;		/* CLEARING, GONE: how long the leader lived */
	int64_t due_ms;			/* when the next step of this phase is due; INT64_MAX: never */
	int64_t give_up_ms;		/* CLEARING */
	int64_t look_ms;		/* CLEARING: pause before the next check */
};

void handler_process_init(struct handler_process *p, const struct conf_queue *conf);
void handler_process_free(struct handler_process *p);		/* does not kill a running process */

/* Prepares what all runs share. Dispositions of signals must not change after the first call. -1: errno */
int handler_process_prepare(struct handler_process *p);

/* plan: argv, envp, stdio and reply must be set. -1: the host has no process, descriptor or memory for it (errno) */
int handler_process_start(struct handler_process *p, struct handler_plan *plan, int64_t now_ms);

/*
 * Reads what the child reported if it could not run the executable, into failure. The report is there at once, or,
 * where vfork is a fork, when the child has ended.
 */
void handler_process_learn(struct handler_process *p);

/* reaps; in TERMINATING and later phases takes the next step */
void handler_process_tick(struct handler_process *p, int64_t now_ms);
void handler_process_terminate(struct handler_process *p, int64_t now_ms);	/* RUNNING: TERM to the group */
/*
 * The deadlines of this phase move by ms: a time that was none of the handler's. So often in a run at most, since a
 * handler that has the user of its worker may stop that again and again.
 */
#define HANDLER_FORGIVEN_MAX 10
void handler_process_forgive(struct handler_process *p, int64_t ms);
void handler_process_force(struct handler_process *p, int64_t now_ms);	/* RUNNING, TERMINATING: KILL to the group */
/* Log lines about the process name this message; NULL: none. It must live until the next call. */
void handler_process_show(struct handler_process *p, struct message *message);

/* The leader's end. Not valid if the executable never ran. */
int handler_process_code(const struct handler_process *p);	/* -1: no exit status */
int handler_process_signal(const struct handler_process *p);	/* 0: no signal */

/* now + wait; INT64_MAX if wait < 0, which means for ever. */
int64_t handler_after(int64_t now_ms, int64_t wait_ms);

/*
 * Which limit a run reached that began at since_ms and timed out at timeout_at_ms: max_duration, or the time between
 * signs of life. "" without max_duration: timeout is the only limit. The end of an error message.
 */
static inline const char *handler_limit_text(const struct conf_queue *conf, int64_t since_ms, int64_t timeout_at_ms)
{
	if (conf->max_duration_ms <= 0)
		return "";
	return timeout_at_ms == handler_after(since_ms, conf->max_duration_ms) ? " (max_duration)"
	    : " (no sign of life within timeout)";
}

static inline int64_t handler_sooner(int64_t a_ms, int64_t b_ms)
{
	return a_ms < b_ms ? a_ms : b_ms;
}

#endif
