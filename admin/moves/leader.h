#ifndef ADMIN_MOVES_LEADER_H
#define ADMIN_MOVES_LEADER_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/cli.h"

/* Which supervisor would execute an operation on a queue. */
struct leader {
	bool lives;		/* a supervisor works on the queue */
	bool leads;		/* and its sweeper leads it, or that of an older version */
	int64_t within_ms;	/* lives, but none leads: it can lead within this time */
};

/* Looks at the lead of the queue in a->keys, the reports of nodes, and the leases of workers. -1: error of Redis */
int leader_look(struct admin *a, struct leader *l);

#endif
