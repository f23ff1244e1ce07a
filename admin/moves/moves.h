#ifndef ADMIN_MOVES_MOVES_H
#define ADMIN_MOVES_MOVES_H

/*
 * Commands that move or delete messages; and stale, which counts the messages that a purge of the sweeper would take.
 *	push, durable		quredis push; push --wait
 *	import			quredis dlq import
 *	purge			quredis purge
 *	retry			quredis retry, and each way back into ingress
 *	cancel			quredis cancel
 *	single			quredis retry and rm of one message: it is searched by its id
 *	retry_transit		the trays of a dead owner
 *	dead_letters		quredis dlq retry, dlq rm
 *	by_filter		of the dead letters that a filter means, and at a pace
 *	stale, stale_*		quredis stale
 */
#include "admin/moves/retry.h"
#include "admin/operations/operations.h"

int cmd_cancel(struct admin *a);
int cmd_dlq_retry(struct admin *a);
int cmd_dlq_rm(struct admin *a);
int cmd_purge(struct admin *a);
int cmd_dlq_import(struct admin *a);
int cmd_push(struct admin *a);
int cmd_retry(struct admin *a);
int cmd_rm(struct admin *a);
int cmd_stale(struct admin *a);

/* ---- for the commands of this folder ---- */

/* Asks the operator, deletes all messages of the list of the queue in a->keys, and prints their number. action: the
 * command, "dlq rm" or "purge" */
int purge_whole(struct admin *a, enum admin_list list, const char *action);
/*
 * quredis retry QUEUE TYPE ID...: single messages, which the operator names by their ids. A list has no index of ids,
 * so a search reads it from the message that comes next on, and ends after options.search messages. Small messages
 * (below 64 KiB) without an id in their header have the id "sha1:...", as quredis peek shows it; larger ones cannot be
 * named.
 */
int single_retry(struct admin *a);
/* Retries or deletes dead letters that a filter means, or at the pace of --canary, --rate and --max-failures. outcome:
 * of the command, before the first one */
int by_filter_run(struct admin *a, const struct outcome *outcome);

/*
 * The whole command, for an operator who pastes it: "quredis -c FILE dlq rm QUEUE --all --class X". action: "dlq rm";
 * options: of the filter and the pace, as options_to_json() returns them. A new string; NULL: they are not known, there
 * are none, or a terminal cannot show each of their bytes.
 */
char *by_filter_command(const struct admin *a, const char *action, const struct json_t *options);

#endif
