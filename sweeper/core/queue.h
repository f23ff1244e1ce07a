#ifndef SWEEPER_CORE_QUEUE_H
#define SWEEPER_CORE_QUEUE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/conf/conf.h"
#include "common/queue/queue.h"
#include "sweeper/core/task.h"
#include "sweeper/core/task_error.h"

/* One queue in the sweeper. A task keeps its own data about the queue in its state (task.h). */
struct sweeper_queue {
	TAILQ_ENTRY(sweeper_queue) entry;
	RB_ENTRY(sweeper_queue) by_name, by_transit;
	struct queue_keys keys;
	/* NULL: not configured here; the sweeper only returns the messages of its dead owners */
	const struct conf_queue *conf;
	struct board_queue *board;	/* NULL: not on the scoreboard */
	/* the messages of owners that were dead when this sweeper started are returned */
	bool recovered;
	bool was_recovered;		/* an earlier sweeper returned them, so the gate does not wait for this one */
	bool polled;			/* paused is known: Redis has answered */
	bool paused;			/* by an operator */
	struct queue_hold hold;		/* that this sweeper has logged last; until "": and its end, or none */
	struct queue_tasks tasks;	/* owner: task.c */
	struct task_errors errors;	/* owner: task_error.c */
	uint32_t published;		/* what this sweeper wrote into board->sweeper.error last */
};
TAILQ_HEAD(sweeper_queue_list, sweeper_queue);
RB_HEAD(sweeper_queue_names, sweeper_queue);
RB_HEAD(sweeper_queue_transits, sweeper_queue);

#endif
