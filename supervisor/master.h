#ifndef SUPERVISOR_MASTER_H
#define SUPERVISOR_MASTER_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

#include "common/child.h"
#include "common/conf.h"
#include "common/scoreboard.h"
#include "supervisor/control.h"
#include "supervisor/crew.h"
#include "supervisor/deaths.h"
#include "supervisor/lock.h"
#include "supervisor/notify.h"
#include "supervisor/pid_file.h"
#include "supervisor/policy.h"
#include "supervisor/stop.h"

/* All of the master's state, made once at the start: running it needs no memory it could be refused. */

enum proc_kind { PROC_NONE, PROC_WORKER, PROC_SWEEPER, PROC_KEEPER };

struct proc {			/* a child; its place in master.procs is its slot on the scoreboard */
	pid_t pid;		/* 0: the slot is free */
	enum proc_kind kind;
	int crew;		/* worker: place in master.crews, = its queue's place on the scoreboard */
	int index;		/* worker: the 2 of "mail/2" */
	unsigned epoch;		/* of the configuration it was forked with */
	int64_t spawned_ms;
	uint64_t first_generation;	/* of its first registration, if it comes to one */
	bool leaving;		/* replaced or surplus: it is told to finish, and is not counted as staff */
	int64_t leaving_ms;
	int64_t kill_grace_ms;	/* worker: its queue's */
	int64_t due_ms;		/* killed if it is still there then; 0: it has the time it needs */
	bool fenced;		/* killed because its lease ran out under a handler */
	int64_t stuck_heartbeat_ms;	/* the heartbeat that looked too old at the last look; 0: none did */
	int fd;			/* sweeper: our end of its socket; else -1 */
};

#define MASTER_INHERITED 64

struct master {
	char *conf_path;
	struct conf *conf;
	unsigned epoch;			/* counts configurations */
	struct scoreboard *board;
	uint64_t boot;
	int64_t since_ms;		/* CLOCK_REALTIME and CLOCK_MONOTONIC of the start */
	int64_t started_ms;
	struct lock lock;
	struct pid_file pid_file;
	int cgroup_fd;			/* directory of this boot's cgroup; -1: there is none */
	int signal_fd;
	int life_fd[2];			/* children read EOF when the master is gone */
	int keeper_fd[2];		/* the keeper reads EOF when all of us are gone; -1: none or closed */
	struct control control;
	struct notify notify;

	struct proc procs[SCOREBOARD_SLOTS];
	int top;			/* slots from here on were never used */
	struct crew crews[SCOREBOARD_QUEUES];
	int ncrews;
	struct deaths deaths;
	struct policy sweeper_policy, keeper_policy;
	pid_t inherited[MASTER_INHERITED];	/* children from before the exec that started us: not ours to kill */
	int ninherited;
	pid_t orphan_redis;		/* of a dead keeper: it saves and ends by itself; 0: none */
	int64_t fork_after_ms;		/* fork failed: not again before */
	int fork_failures;

	struct stop stop;
	bool quiet;
	bool ready;			/* `ready` was announced */
	int64_t look_ms;		/* when watch, policies and states are looked at again */
	int titled;			/* workers the title tells of */
	int64_t wake_ms;		/* when the next turn of the loop is due */
};

/* Serves until it is told to stop. Returns the exit status; why it did not begin is in error. m is filled by main(): conf,
 * conf_path, lock, pid_file, notify, signal_fd. */
int master_run(struct master *m, char *error, size_t size);

/* The loop turns again at `at_ms` at the latest. */
void master_wake_at(struct master *m, int64_t at_ms);

void master_set_quiet(struct master *m, bool quiet, int64_t now_ms);	/* no worker fetches */

#endif
