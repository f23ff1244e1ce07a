#ifndef SUPERVISOR_REAP_H
#define SUPERVISOR_REAP_H

#include <sys/types.h>

#include <stdbool.h>
#include <stdint.h>

struct master;

/* At the start: children there already (`stunnel & exec quredisd`) are never killed, only reaped. */
void reap_note_inherited(struct master *m);
bool reap_is_spared(pid_t pid, void *master);		/* for process_kill_children(): inherited, or ours and alive */

void reap_children(struct master *m, int64_t now_ms);	/* after SIGCHLD */
void reap_adopted(struct master *m, int64_t now_ms);	/* what dead children left to us, and was killed */

#endif
