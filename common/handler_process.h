#ifndef COMMON_HANDLER_PROCESS_H
#define COMMON_HANDLER_PROCESS_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/handler_family.h"
#include "common/handler_spawn.h"
#include "common/message.h"

/*
 * The process of a handler, in any mode, from its start until nothing of it is left:
 *
 *	IDLE -start-> RUNNING -terminate-> TERMINATING -kill_grace-> KILLING
 *	                 └──── leader ended ───┴───────────────────────┴─> CLEARING -nothing left-> GONE
 *
 * What it is given and says, and when its time is up, is its owner's (handler.c, common/persistent.c).
 */
enum handler_phase {
	HANDLER_IDLE,		/* never started */
	HANDLER_RUNNING,
	HANDLER_TERMINATING,	/* TERM sent */
	HANDLER_KILLING,	/* KILL sent, the leader is not reaped yet */
	HANDLER_CLEARING,	/* the leader is reaped, adopted processes may be left */
	HANDLER_GONE
};

struct handler_process {
	const struct conf_queue *conf;
	const char *worker;		/* for the log; not owned */
	struct message *message;	/* the same; NULL: none */
	int failure_pipe[2];		/* for every run; -1: not open */
	uint64_t signals;		/* that are not at their default in this process */
	pid_t self;
	struct handler_family family;
	enum handler_phase phase;
	pid_t leader;			/* also when it is reaped */
	struct handler_failure failure;	/* see handler_process_learn() */
	int64_t now_ms, started_ms;
	int64_t duration_ms;		/* CLEARING, GONE: how long the leader lived */
	int64_t due_ms;			/* of the next step of this phase; INT64_MAX: none */
	int64_t give_up_ms;		/* CLEARING */
	int64_t look_ms;		/* CLEARING: pause before the next look */
};

void handler_process_init(struct handler_process *p, const struct conf_queue *conf, const char *worker);
void handler_process_free(struct handler_process *p);		/* leaves a running one alone */

/* What all runs share. Dispositions of signals must not change after the first time. -1: errno */
int handler_process_prepare(struct handler_process *p);

/* plan: argv, envp, stdio and reply are set. -1: no process was made (errno) */
int handler_process_start(struct handler_process *p, struct handler_plan *plan, int64_t now_ms);

/*
 * Reads the child's last words, if it did not get as far as the executable, into failure. They are there
 * at once, or, where vfork is a fork, when it has ended.
 */
void handler_process_learn(struct handler_process *p);

void handler_process_tick(struct handler_process *p, int64_t now_ms);		/* reaps; TERMINATING and later: goes on */
void handler_process_terminate(struct handler_process *p, int64_t now_ms);	/* RUNNING: TERM to the group */
void handler_process_force(struct handler_process *p);				/* KILL to the group */

/* The leader's end. Nothing of it is so if the executable never ran. */
int handler_process_code(const struct handler_process *p);	/* exit status; -1: none */
int handler_process_signal(const struct handler_process *p);	/* 0: none */

/* now + wait; INT64_MAX for a wait < 0, which means for ever. */
int64_t handler_after(int64_t now_ms, int64_t wait_ms);

#endif
