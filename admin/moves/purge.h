#ifndef ADMIN_MOVES_PURGE_H
#define ADMIN_MOVES_PURGE_H

#include "admin/cli/cli.h"

/* Asks the operator, deletes all messages of the list of the queue in a->keys, and prints their number. action: the command, "dlq rm" or "purge" */
int purge_whole(struct admin *a, enum admin_list list, const char *action);

#endif
