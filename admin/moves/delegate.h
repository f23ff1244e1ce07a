#ifndef ADMIN_MOVES_DELEGATE_H
#define ADMIN_MOVES_DELEGATE_H

#include "admin/operations/operations.h"

/*
 * Gives an operation to the sweeper that leads its queue, and waits until it ends. r: its report. DELEGATE_NOT: no
 * sweeper executes it, so the command does; -1: error, or the operation ended with one. If INT or TERM comes, the
 * sweeper continues, unless the operator wants it to stop.
 */
#define DELEGATE_LOOK_MS 100	/* between two looks of the command that waits */
enum { DELEGATE_NOT = 1 };
int delegate_run(struct work *w, struct work_report *r);

#endif
