#ifndef SUPERVISOR_STAFFING_H
#define SUPERVISOR_STAFFING_H

#include <stdbool.h>
#include <stdint.h>

#include "supervisor/children/children.h"

struct master;

/* Crash policies of the children that serve no single queue. */
struct staffing {
	struct policy sweeper, keeper;
};

/*
 * Forks missing children (keeper, sweeper, workers), as far as crash policies and memory allow; dismisses surplus
 * workers; orders leaving children to finish once they are replaced. Returns when to call again; INT64_MAX: after the
 * next event.
 */
int64_t staffing_step(struct master *m, int64_t now_ms);

bool staffing_is_complete(const struct master *m);

/* the configuration changed: the sweeper leaves, another one follows at once */
void staffing_replace_sweeper(struct master *m, int64_t now_ms);

#endif
