#ifndef ADMIN_REGISTRY_H
#define ADMIN_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>

#include "admin/admin.h"

/* All queues: of the configuration, then those of the registry that it does not have. */
struct registry_queue {
	struct queue_keys keys;
	bool configured;
};
/* By two writes, however many there are. An entry nobody can read is said, and left out. -1: Redis is away; said so. */
int registry_read(struct admin *a, struct registry_queue **queues, size_t *n);
void registry_free(struct registry_queue *queues, size_t n);

#endif
