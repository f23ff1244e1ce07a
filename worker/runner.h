#ifndef WORKER_RUNNER_H
#define WORKER_RUNNER_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "worker/tray.h"

struct handler;
struct worker;
struct persistent;

/* A runner runs one kind of handler: runner_exec.c or runner_persistent.c. It polls at most RUNNER_POLLFDS
 * descriptors. */
struct runner {
	void (*init)(struct worker *w);
	void (*free)(struct worker *w);
	int (*room)(const struct worker *w);			/* how many more messages it takes now */
	bool (*ready)(const struct worker *w);			/* false: the handler is still starting up */
	/* the next message is the first of its process; false: the used one was told to end */
	bool (*fresh)(struct worker *w, int64_t now_ms);
	/* starts waiting messages, as many as the runner takes */
	void (*start)(struct worker *w, int64_t now_ms);
	void (*end)(struct worker *w, int64_t now_ms);		/* settles messages whose run has ended */
	void (*flush)(struct worker *w);			/* at most one write in a turn */
	/* continues without a poll in between. True: some message was answered */
	bool (*go_on)(struct worker *w);
	/* TERM, and KILL after kill_grace. A second call does nothing */
	void (*stop)(struct worker *w, int64_t now_ms);
	/* ends the run of a message that cancel_of() knows, as a timeout does */
	void (*cancel)(struct worker *w, int64_t now_ms);
	void (*kill)(struct worker *w, int64_t now_ms);		/* KILL at once */
	/* the worker stood still: deadlines of what runs move by that time */
	void (*forgive)(struct worker *w, int64_t ms);
	/* no message runs: ends an idle process. True: no process is left */
	bool (*dismiss)(struct worker *w, int64_t now_ms);
	size_t (*pollfds)(const struct worker *w, struct pollfd *p);
	/* p NULL: the poll found no event */
	void (*io)(struct worker *w, const struct pollfd *p, size_t n, int64_t now_ms);
	int64_t (*deadline_ms)(const struct worker *w);
};
#define RUNNER_POLLFDS 4
extern const struct runner runner_exec, runner_persistent;

/* Owner: runner_exec.c. */
struct runner_exec {
	struct handler *handler;
	struct place running;		/* place of the message that runs; tray -1: none */
};

/* Owner: runner_persistent.c. */
struct runner_persistent {
	struct persistent *process;
	/* undecided: of the process that has ended; no other starts until it is settled */
	struct persistent_end end;
	bool undecided;			/* whether that end was a stop's: exit_judge_end() */
	/*
	 * Each unanswered job is at its serial modulo given_size, a power of two: with more entries than the window
	 * has jobs. A serial whose entry is taken by an older job is not used.
	 */
	struct given {
		uint64_t serial;
		struct place place;	/* tray -1: no job */
	} *given;
	unsigned given_size;
	uint64_t next_serial;
	uint64_t progress_serial;	/* the job whose progress the slot shows; 0: none */
};

#endif
