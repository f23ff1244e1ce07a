#ifndef SWEEPER_CORE_QUEUE_H
#define SWEEPER_CORE_QUEUE_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/conf/conf.h"
#include "common/queue/queue.h"
#include "sweeper/core/task.h"
#include "sweeper/core/task_error.h"

/* One queue, as the sweeper sees it. What a task remembers of it is in the task's own state (task.h). */
struct sweeper_queue {
	TAILQ_ENTRY(sweeper_queue) entry;
	struct queue_keys keys;
	const struct conf_queue *conf;	/* NULL: not configured here; the sweeper only returns what its dead owners left */
	struct board_queue *board;	/* NULL: not on the board */
	bool recovered;			/* what dead owners left at our start is returned */
	bool was_recovered;		/* by our predecessor: the gate does not wait for us */
	bool polled;			/* paused is known */
	bool paused;
	struct task_in_queue *tasks;	/* task.c */
	size_t ntasks;
	struct task_error_list errors;	/* what is wrong, first ones first (task_error.c) */
	enum queue_error published;	/* what we wrote into board->sweeper.error last */
};
TAILQ_HEAD(sweeper_queue_list, sweeper_queue);

#endif
