#ifndef SWEEPER_DEATHS_H
#define SWEEPER_DEATHS_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/child.h"
#include "sweeper/trouble.h"

struct sweeper;

/* A death the master reported and we have not answered. */
struct death {
	TAILQ_ENTRY(death) entry;
	struct child_death told;
	bool looked_up;		/* its incarnations are in the queue's rescues, or were */
	struct trouble trouble;
};
TAILQ_HEAD(deaths, death);

/* Takes what the master has sent; sets master_gone at its end. */
void deaths_receive(struct sweeper *s);
void deaths_free(struct sweeper *s);

#endif
