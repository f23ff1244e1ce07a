#ifndef SUPERVISOR_REAP_H
#define SUPERVISOR_REAP_H

#include <stdint.h>

struct master;

void reap_children(struct master *m, int64_t now_ms);	/* after SIGCHLD */

/* Kills orphans, if some may be alive, and reaps all processes that have ended. Returns when to call again; INT64_MAX:
 * there are none. */
int64_t reap_orphans(struct master *m, int64_t now_ms);

#endif
