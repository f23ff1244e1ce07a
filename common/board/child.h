#ifndef COMMON_BOARD_CHILD_H
#define COMMON_BOARD_CHILD_H

#include <stdint.h>

#include "common/base/base.h"
#include "common/board/scoreboard.h"
#include "common/conf/conf.h"

/*
 * The whole contract between the master and a child. The master forks; the child calls worker_run() or sweeper_run()
 * with this struct.
 *
 * First the master has made the child a subreaper, set the dispositions of signals (PIPE and those of a terminal are
 * ignored), the title and log_process(), and closed all its own descriptors. With supervisor.user the child has then
 * given up root's rights (supervisor/children/rights.c). PDEATHSIG (TERM) and the dumpable flag are set last, since the
 * kernel forgets both at a change of user. It has set the slot to STARTING, with the generation of its last user: the
 * child takes slot_next_generation() before each registration. The children share the secrets of the seals
 * (seal_share()). The boot token is in the child's environment, which handlers inherit. If this boot has a cgroup, the
 * child is in it.
 *
 * SIGTERM means "read your order, and the gate of your queue". EOF on master_fd means that the master has died: the
 * child acts as for ORDER_HAND_BACK. All signals are blocked at the start, except those of a fault and ABRT, which ends
 * a stuck child with a core. A child unblocks TERM and CHLD only while it polls.
 *
 * Each child, also the sweeper, does this in each turn of its loop: it writes its heartbeat, reads its order, and
 * passes board->master.log_epoch to log_follow(). The master considers a child stuck if it has no turn for 10 s beyond
 * its deadline_ms, and sends ABRT, then KILL.
 *
 * A reload starts the next sweeper while the previous one finishes: two at once do no harm. The gate of a queue is
 * QUEUE_RECOVERING only until a sweeper of this master has recovered the queue. So the next sweeper leaves the other
 * gates as they are, and does not touch the bare transit list again.
 */
struct child {
	const struct conf *conf;
	const struct conf_queue *queue;		/* worker only */
	struct scoreboard *board;
	int slot;				/* of this child, in board->slots */
	int queue_index;			/* in board->queues; worker only */
	int index;				/* number among the workers of the queue, as in "mail/2"; worker only */
	/* sweeper only: the place in board->queues of a queue of conf; -1: none */
	int (*queue_index_of)(const char *name);
	/* worker: the read end of a pipe to which the master never writes. Sweeper: see struct child_death */
	int master_fd;
	uint64_t boot;				/* of the master: part of every incarnation */
	const char *lock_identity;		/* of the lock file: supervisor/host/lock.h */
	const unsigned char *lock_key;		/* sweeper only: identifies the leftovers of earlier supervisors */
	const struct leftovers_users *handler_users;	/* sweeper only: users under which leftovers may run */
	/* sweeper only: its process that searches for leftovers; 0: it searches itself */
	pid_t search_pid;
	int search_fd;				/* the socket to that process */
	pid_t master_pid;
};

/* Exit statuses of children. Anything else, and any signal, is a death. */
#define CHILD_EXIT_DONE 0	/* as ordered */
#define CHILD_EXIT_UNSETTLED 75	/* as ordered, but messages of it are left in its trays: a death that charges nothing */
#define CHILD_EXIT_NO_SEARCH 76	/* a sweeper whose search has ended: the master starts both again */

/* The messages that the death of a worker charges (docs/design.md, "What a death charges"). */
enum blame {
	/* no message: an ordered stop, an incarnation that its living worker has left, messages that arrived late */
	BLAME_NOBODY,
	BLAME_WORKER,		/* this worker alone died: the message that it ran */
	BLAME_OUTAGE		/* the whole supervisor, or several workers at once: only the message on trial */
};

/*
 * A death, which the master reports to the sweeper. For the sweeper master_fd is a SOCK_SEQPACKET socket. The sweeper
 * answers each report with its serial when all trays of the dead worker are empty. The master sends unanswered reports
 * again to the next sweeper.
 *
 * The dead worker had the incarnations of its slot from first_generation to generation. An earlier death in the same
 * slot may still be unanswered, and charge other messages, so a report covers only its own worker.
 */
struct child_death {
	uint64_t serial;
	uint64_t first_generation, generation;
	int32_t slot;
	int32_t queue_index;
	int32_t blame;		/* enum blame */
	char queue[65];		/* its name, since the queue may have left the configuration meanwhile */
};
struct child_death_answer {
	uint64_t serial;
};
/*
 * The serial of no death: a gate has opened, or there are orders to cancel messages, and workers sleep until a signal.
 * The master sends it to the workers of each queue whose word `openings` has changed, so an answer that is lost only
 * delays that until its next turn.
 */
#define CHILD_GATE_OPENED 0

_Noreturn void worker_run(const struct child *child);	/* worker/worker.c */

#endif
