#ifndef SWEEPER_SWEPT_H
#define SWEEPER_SWEPT_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/dead.h"
#include "common/queue.h"
#include "common/scoreboard.h"
#include "sweeper/rescue.h"
#include "sweeper/task.h"
#include "sweeper/trouble.h"

/* How far a queue's recovery is (recover.c). */
enum recovery { RECOVER_KEYS, RECOVER_RIGHTS, RECOVER_OWNERS, RECOVER_LISTS, RECOVERED };

/* One queue, as the sweeper sees it. */
struct swept {
	TAILQ_ENTRY(swept) entry;
	struct queue_keys keys;
	const struct conf_queue *conf;	/* NULL: not configured here; only its dead are seen to */
	struct board_queue *board;	/* NULL: not on the board */
	enum recovery recovery;
	bool was_recovered;		/* by our predecessor: the gate does not wait for us */
	bool rehearse;			/* the server may be another since the rights were rehearsed */
	bool unregistered;		/* the registry would not take it: logged */
	struct rescue_list rescues;	/* dead owners, reported ones first */
	uint64_t rescued, escaped;	/* by recovery, for its log line */
	bool polled;			/* paused is known */
	bool paused;
	struct absence *absences;	/* owners last seen without a lease */
	size_t nabsences;
	bool broken_off;		/* the last look found a rescue that nobody may be going on with */
	uint32_t renamed_seen;		/* board->renamed at the last look that it caused, */
	int64_t renamed_connection;	/* and redis.connection */
	bool unlooked;			/* this round has not come to it yet */
	struct task_in_queue *tasks[TASKS];	/* NULL: the task has nothing to remember of a queue (task.h) */
	struct trouble_list troubles;	/* what is wrong, first ones first (trouble.c) */
	enum queue_trouble published;	/* what we wrote into board->trouble last */
};
TAILQ_HEAD(swept_list, swept);

#endif
