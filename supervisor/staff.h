#ifndef SUPERVISOR_STAFF_H
#define SUPERVISOR_STAFF_H

#include <stdbool.h>
#include <stdint.h>

struct master;

/* Forks who is missing (keeper, sweeper, workers), as far as policies and memory allow; dismisses who is too many; lets
 * those who leave finish once they are replaced. */
void staff_step(struct master *m, int64_t now_ms);

bool staff_is_complete(const struct master *m);

int staff_sweeper(const struct master *m);	/* slot of the one that does not leave; -1: none */
int staff_keeper(const struct master *m);	/* slot; -1: none */
int staff_count(const struct master *m);	/* workers alive, leaving ones too */

#endif
