#ifndef ADMIN_MOVES_PURGE_H
#define ADMIN_MOVES_PURGE_H

#include "admin/cli/cli.h"

/* Asks the operator, deletes all messages of the list of the queue in a->keys, and prints their number. action: the command, "dlq rm" or "purge" */
int purge_whole(struct admin *a, enum admin_list list, const char *action);
/*
 * Deletes a dead letter and its record. entry: where it was found; a large one is searched again if it has left that place. NULL: it has no message.
 * 1: deleted; 0: it was not in escape any more, only its record was deleted; -1: error, or it has no record any more (EX_NOINPUT)
 */
struct dead_letter;
struct list_entry;
int purge_dead_letter(struct admin *a, const struct dead_letter *d, const struct list_entry *entry);

#endif
