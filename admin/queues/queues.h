#ifndef ADMIN_QUEUES_QUEUES_H
#define ADMIN_QUEUES_QUEUES_H

/*
 * Reads queues for commands; no function here moves a message.
 *	registry	all queues, and the names of their keys
 *	lists		the number of messages in each list of a queue, and their owners
 *	entries		the messages of a list; of large ones only the beginning and the end
 *	reports		what a report of health is worth, by the reports of nodes
 */
#include "admin/queues/entries.h"
#include "admin/queues/lists.h"
#include "admin/queues/registry.h"
#include "admin/queues/reports.h"

#endif
