#ifndef SUPERVISOR_MASTER_H
#define SUPERVISOR_MASTER_H

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/children/children.h"
#include "supervisor/host/host.h"
#include "supervisor/queues/queues.h"
#include "supervisor/reload.h"
#include "supervisor/staffing.h"
#include "supervisor/stop.h"

/*
 * The master process. It allocates its state once at the start, so that running needs no memory. Each part is a struct
 * that the file of its name owns. The files of this folder get the whole master, and decide what concerns several
 * parts:
 *	main		options, lock and configuration, before the first fork
 *	master		the loop: the steps of a turn, and their order
 *	reload		another configuration
 *	staffing	forks missing children, and dismisses surplus ones
 *	reap		what the end of a child means
 *	stop		the phases of a stop
 *	request		commands of the control socket
 *	status		the answer to one of them
 */
struct master {
	struct configuration config;
	struct lock lock;
	struct pid_file pid_file;
	struct control control;
	struct notify notify;
	int signal_fd;

	struct scoreboard *board;
	struct processes processes;
	struct spawner spawner;
	struct orphans orphans;
	struct deaths deaths;
	struct queues queues;
	struct staffing staffing;
	struct stop stop;

	/* master.c */
	int64_t since_ms;		/* CLOCK_REALTIME and CLOCK_MONOTONIC of the start */
	int64_t started_ms;
	bool ready;			/* the event `ready` was logged */
	int64_t look_ms;		/* when watch, policies and states of queues are due again */
	/* at the last look the path of the lock named no file, or another one; it was logged */
	bool lock_removed;
	int titled;			/* the number of workers in the process title; -1: no title was set */
	int64_t wake_ms;		/* when the next turn of the loop is due */
};

/* Before the configuration is known: nothing is open but the descriptor of signals. *m is zeroed. -1: errno. */
int master_init(struct master *m);

/*
 * Runs until the master is stopped. Returns the exit status; if the master could not start, the reason is in error.
 * main() has loaded the configuration and holds the lock.
 */
int master_run(struct master *m, char *error, size_t size);

/* Gives the parts pointers to each other. Requires the scoreboard. */
void master_connect(struct master *m);

#endif
