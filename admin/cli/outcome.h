#ifndef ADMIN_CLI_OUTCOME_H
#define ADMIN_CLI_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/admin.h"

/* The confirmations that push --wait waited for. */
struct outcome_durability {
	bool confirmed;		/* all that was asked for */
	bool on_disk;		/* Redis has synced its append-only file */
	int64_t replicas;	/* that have the messages */
	bool replicas_on_disk;	/* and have synced them; false: in memory */
};

/* How far an operation came that commands may have begun before, and a repeated one continues. */
struct outcome_operation {
	const char *id;
	int64_t total;		/* -1: not counted */
	int64_t done, failed;	/* failed: are dead letters again; -1: nothing looked for them */
	bool settled;		/* no message is under way, so no more can fail */
	int64_t same_cause;	/* how many of these have the cause that they had before; -1: not known */
	const char *failed_cause;	/* the most frequent cause of these; NULL: none is known */
	bool complete;
};

/* The result of a command that moves or deletes messages. */
struct outcome {
	const char *action;	/* the command: "purge" */
	const char *did, *would;	/* "purged", "would purge" */
	const char *list;	/* "escape"; NULL: none */
	const char *what;	/* dry run: which of them, and how, as text; NULL: nothing more */
	int64_t count;
	int64_t held;		/* messages of live workers, which were left alone */
	bool says_left;		/* the last line also says `left` */
	int64_t left;		/* messages that the same command would still take; -1: not known */
	bool filtered;		/* it takes only messages that match a filter */
	bool interrupted;	/* INT or TERM ended the work early */
	int64_t due_ms;		/* when delayed messages are due, by the clock of Redis, ms since 1970; 0: none is */
	int64_t delay_ms;	/* the time until then */
	const struct queue_unique *unique;	/* the answer to push --unique; NULL: not given */
	int64_t now_ms;		/* with unique: by the clock of Redis, ms since 1970 */
	const char *id;		/* of the only delayed message; NULL: there are several, or none was pushed */
	const struct outcome_durability *durability;	/* NULL: not asked for */
	const struct outcome_operation *operation;	/* NULL: it cannot be continued */
};

void outcome_say(struct admin *a, const struct outcome *o);

/* "1 message", "2 messages": a new string. */
char *outcome_count(int64_t n);

#endif
