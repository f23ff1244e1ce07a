#ifndef ADMIN_CLI_OUTCOME_H
#define ADMIN_CLI_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/cli/admin.h"

/* What push --wait waited for. */
struct outcome_durability {
	bool confirmed;		/* all that was asked for */
	bool on_disk;		/* Redis has synced its append-only file */
	int64_t replicas;	/* that have the messages */
	bool replicas_on_disk;	/* and have synced them; false: in memory */
};

/* How far an operation came that commands may have begun before, and a repeated one continues. */
struct outcome_operation {
	int64_t total;		/* -1: not counted */
	int64_t done, failed;	/* failed: are dead letters again; -1: not watched */
	int64_t same;		/* of these: have the cause that they had before; -1: not known */
	const char *cause;	/* the most frequent one of these; NULL: none is known */
	bool complete;
};

/* The result of a command that moves or deletes messages. */
struct outcome {
	const char *action;	/* the command: "purge" */
	const char *did, *would;	/* "purged", "would purge" */
	const char *list;	/* "escape"; NULL: none */
	int64_t count;
	int64_t held;		/* messages of live workers, which were left alone */
	bool says_left;		/* the last line also says how many it left, that it would take: */
	int64_t left;		/* -1: an unknown number */
	bool filtered;		/* only messages that match were meant */
	bool interrupted;	/* INT or TERM ended the work early */
	const struct outcome_durability *durability;	/* NULL: not asked for */
	const struct outcome_operation *operation;	/* NULL: it cannot be continued */
};

void outcome_say(struct admin *a, const struct outcome *o);

/* "1 message", "2 messages": a new string. */
char *outcome_count(int64_t n);

#endif
