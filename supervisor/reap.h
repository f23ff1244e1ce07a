#ifndef SUPERVISOR_REAP_H
#define SUPERVISOR_REAP_H

#include <stdint.h>

struct master;

void reap_children(struct master *m, int64_t now_ms);	/* after SIGCHLD */
void reap_adopted(struct master *m, int64_t now_ms);	/* what dead children left to us, and was killed */

#endif
