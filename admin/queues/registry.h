#ifndef ADMIN_QUEUES_REGISTRY_H
#define ADMIN_QUEUES_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/cli/cli.h"

/* A queue of the configuration, or one that only the registry has. */
struct registry_queue {
	struct queue_keys keys;
	bool configured;
};
/*
 * Reads all queues, those of the configuration first, in two round trips. Prints an error for each invalid entry and
 * leaves it out. -1: Redis failed; an error was printed.
 */
int registry_read(struct admin *a, struct registry_queue **queues, size_t *n);
/* Those of the operands; without an operand, all. */
int registry_choose(struct admin *a, struct registry_queue **queues, size_t *n);
void registry_free(struct registry_queue *queues, size_t n);

#endif
