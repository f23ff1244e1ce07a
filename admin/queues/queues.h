#ifndef ADMIN_QUEUES_QUEUES_H
#define ADMIN_QUEUES_QUEUES_H

/*
 * Queues as an operator sees them; nothing here moves a message.
 *	registry	all queues, and the names of their keys
 *	lists		how many messages lie in each list of a queue, and whose they are
 *	entries		the messages of a list; of large ones only the beginning and the end
 */
#include "admin/queues/entries.h"
#include "admin/queues/lists.h"
#include "admin/queues/registry.h"

#endif
