#ifndef ADMIN_COMMAND_H
#define ADMIN_COMMAND_H

#include <stdio.h>

#include "admin/admin.h"

struct command {
	const char *name;		/* one word, or two: "dlq ls" */
	const char *arguments;		/* as help shows them */
	const char *summary;
	int (*run)(struct admin *a);
	enum admin_need need;
	size_t min, max;		/* operands; NEED_QUEUE: the first is the queue */
	unsigned options;		/* OPTION_ bits it takes */
	const char *details;		/* more for "help COMMAND"; NULL: nothing */
};

/* The command the operands name; takes its words away from them. NULL: said why, status is set. */
const struct command *command_find(struct admin *a);

/* The i-th, by name; NULL: there are no more. */
const struct command *command_at(size_t i);

/* Runs it: help, what it needs, the command. -1: failed, status is set. */
int command_run(struct admin *a, const struct command *c);

/* Whether it is the first of two words of commands, as dlq is. */
bool command_is_group(const char *word);

void command_list(const char *group, FILE *out);	/* what "help" prints; group NULL: all commands */
void command_help(const struct command *c, FILE *out);	/* what "help COMMAND" prints */

/* admin/cmd_*.c */
int cmd_ls(struct admin *a);
int cmd_push(struct admin *a);
int cmd_peek(struct admin *a);
int cmd_purge(struct admin *a);
int cmd_retry(struct admin *a);
int cmd_destroy(struct admin *a);
int cmd_pause(struct admin *a);
int cmd_resume(struct admin *a);
int cmd_doctor(struct admin *a);
int cmd_done_ls(struct admin *a);
int cmd_completion(struct admin *a);
int cmd_dlq_ls(struct admin *a);
int cmd_dlq_show(struct admin *a);
int cmd_dlq_retry(struct admin *a);
int cmd_dlq_rm(struct admin *a);
int cmd_dlq_export(struct admin *a);
int cmd_dlq_stats(struct admin *a);
int cmd_run(struct admin *a);
int cmd_stale(struct admin *a);
int cmd_stats(struct admin *a);
int cmd_nodes(struct admin *a);
int cmd_health(struct admin *a);
int cmd_status(struct admin *a);
int cmd_reload(struct admin *a);
int cmd_stop(struct admin *a);
int cmd_restart(struct admin *a);
int cmd_scale(struct admin *a);
int cmd_quiet(struct admin *a);
int cmd_web(struct admin *a);
int cmd_top(struct admin *a);
int cmd_version(struct admin *a);
int cmd_help(struct admin *a);

#endif
