#ifndef SUPERVISOR_CHILD_H
#define SUPERVISOR_CHILD_H

#include <stdint.h>

#include "common/scoreboard.h"

struct master;
struct proc;

#define CHILD_NAME_SIZE 80
const char *child_name(const struct master *m, const struct proc *p, char out[CHILD_NAME_SIZE]);	/* "mail/2", "sweeper" */

/* Fork one. Return its slot, or -1: no process, no memory or no slot. That was logged, and holds up the next fork. */
int child_spawn_worker(struct master *m, int crew, int index, int64_t now_ms);
int child_spawn_sweeper(struct master *m, int64_t now_ms);
int child_spawn_keeper(struct master *m, int64_t now_ms);

/* Changes a child's order and makes it look. Only raises it, but for RUN and QUIET. */
void child_order(struct master *m, int slot, enum order order, int64_t now_ms);

/* SIGKILL to its handler's group and to itself. */
void child_kill(struct master *m, int slot);
void child_kill_handler(struct master *m, int slot);

int child_slot_of(const struct master *m, pid_t pid);	/* -1: none of ours */

/* Its slot is free again; its pid is reaped. */
void child_release(struct master *m, int slot);

#endif
