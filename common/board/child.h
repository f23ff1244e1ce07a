#ifndef COMMON_BOARD_CHILD_H
#define COMMON_BOARD_CHILD_H

#include <stdint.h>

#include "common/base/base.h"
#include "common/board/scoreboard.h"
#include "common/conf/conf.h"

/*
 * The whole contract between the master and a child. The master forks, the child calls worker_run()
 * or sweeper_run() with this. SIGTERM says "look at your order"; EOF on master_fd says that the
 * master is gone: ORDER_HAND_BACK. All signals are blocked at the start (but those of a fault and ABRT,
 * which ends a stuck child with a core); a child opens TERM and CHLD only while it polls.
 *
 * The master has done before: PDEATHSIG TERM, subreaper, dispositions (PIPE and what a terminal sends
 * are ignored), title, log_process(), all descriptors of its own closed, slot STARTING with the
 * generation of its last user (take slot_next_generation() before each registration). The secrets of the seals are shared
 * with the other children (seal_share()). The boot token is in the child's
 * environment, from which handlers get it, and where there is a cgroup of this boot the child is in it.
 * Every child, also the sweeper, each turn of its loop: writes its heartbeat, looks at its order, and
 * calls log_reopen() when board->log_epoch changed. Without a turn for 10 s beyond deadline_ms (a worker that starts or
 * connects: 120 s, for name resolution) it is taken for stuck: ABRT, then KILL. The sweeper announces name resolution in deadline_ms.
 *
 * A reload gives the sweeper a successor while it finishes itself: two at once do no harm. A queue's gate
 * is QUEUE_RECOVERING only when nobody of this master has recovered it yet, so a successor leaves the
 * other gates as they are (and the bare transit list alone).
 */
struct child {
	const struct conf *conf;
	const struct conf_queue *queue;		/* worker only */
	struct scoreboard *board;
	int slot;				/* own */
	int queue_index;			/* in board->queues; worker only */
	int index;				/* among the queue's workers: "mail/2"; worker only */
	uint32_t handler_generation;		/* board_queue.handler_generation of its queue at the fork; worker only */
	int (*queue_index_of)(const char *name);	/* sweeper only: index of a queue of conf; -1 none */
	int master_fd;				/* read end; nothing is ever written for workers */
	uint64_t boot;				/* of the master: part of every incarnation */
	const char *lock_identity;		/* of the lock file: supervisor/host/lock.h */
	const unsigned char *lock_key;		/* sweeper only: recognises what earlier supervisors left */
	const struct leftovers_users *handler_users;	/* sweeper only: users that leftovers can have */
	pid_t master_pid;
};

/* Exit statuses of children. Anything else, and any signal, is a death. */
#define CHILD_EXIT_DONE 0	/* as ordered */
#define CHILD_EXIT_UNSETTLED 75	/* as ordered, but something of it is left in Redis: a death without blame */

/* Which messages the death of a worker is charged to (docs/design.md, "Who is blamed"). */
enum blame {
	BLAME_NOBODY,		/* charges nothing: an ordered stop, a name that its living worker left behind, late arrivals */
	BLAME_WORKER,		/* this worker alone died: charges the message that it had in hand */
	BLAME_OUTAGE		/* the whole supervisor, or several workers at once: charges only the message on trial */
};

/*
 * For the sweeper master_fd is a SOCK_SEQPACKET socket: the master sends deaths, the sweeper answers
 * each with its serial once every tray of that incarnation is empty. Unanswered ones are sent again to the
 * next sweeper. The dead worker had the incarnations of its slot from first_generation to generation. Another death in the
 * same slot may be unanswered, with other blame, so no report speaks of more than its own worker.
 */
struct child_death {
	uint64_t serial;
	uint64_t first_generation, generation;
	int32_t slot;
	int32_t queue_index;
	int32_t blame;		/* enum blame */
	char queue[65];		/* name: the queue may have left the configuration since */
};
struct child_death_answer {
	uint64_t serial;
};

_Noreturn void worker_run(const struct child *child);	/* worker/worker.c */

#endif
