#ifndef ADMIN_DEAD_LETTERS_DEAD_LETTERS_H
#define ADMIN_DEAD_LETTERS_DEAD_LETTERS_H

/*
 * Reads and shows dead letters and their records. The commands that move or delete them are in admin/moves.
 *	dead_letter	one record, and the message that belongs to it		list	quredis dlq ls, dlq show
 *	records		which record belongs to which entry of escape		export	quredis dlq export
 *	cause		the cause of a failure, as one line of text			stats	quredis dlq stats
 *	filter		which dead letters a command means			groups	how many have the same cause
 *	take		moves or deletes one dead letter
 */
#include "admin/dead_letters/cause.h"
#include "admin/dead_letters/dead_letter.h"
#include "admin/dead_letters/filter.h"
#include "admin/dead_letters/groups.h"
#include "admin/dead_letters/records.h"
#include "admin/dead_letters/take.h"

int cmd_dlq_export(struct admin *a);
int cmd_dlq_ls(struct admin *a);
int cmd_dlq_show(struct admin *a);
int cmd_dlq_stats(struct admin *a);

#endif
