#ifndef ADMIN_DEAD_LETTERS_TAKE_H
#define ADMIN_DEAD_LETTERS_TAKE_H

#include <stdint.h>

#include "admin/cli/cli.h"

struct dead_letter;
struct list_entry;
struct record_brief;

/*
 * Moves one dead letter back into ingress, where it waits from now on as a new message does; it keeps its lineage.
 * entry: the place where it was found; if a large one is not there any more, this function searches for it. moved: 1;
 * 0: another process moved it; -1: an archive has claimed it. -1: error of Redis
 */
int take_redrive(struct admin *a, const struct list_entry *entry, const struct record_brief *record, int64_t *moved);
/* The two parts of it for many at once, after admin_seals(): now_ms is the server's time. The first one only sends; its
 * answer is `moved`. */
void take_append_redrive(struct admin *a, const struct list_entry *entry, int64_t now_ms,
    const struct record_brief *record);
int take_redrive_placed(struct admin *a, const struct list_entry *entry, int64_t now_ms,
    const struct record_brief *record, int64_t *moved);
/*
 * Deletes a dead letter and its record. entry: where it was found; a large one is searched again if it has left that
 * place. NULL: it has no message. 1: deleted; 0: it was not in escape any more, only its record was deleted; -1: error,
 * or it has no record any more (EX_NOINPUT)
 */
int take_delete(struct admin *a, const struct dead_letter *d, const struct list_entry *entry);

#endif
