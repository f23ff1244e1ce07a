#ifndef ADMIN_CLI_COMMAND_H
#define ADMIN_CLI_COMMAND_H

#include <stdio.h>

#include "admin/cli/admin.h"

/* quredis help groups the commands by the task of the operator, in this order. */
enum command_task { TASK_LOOK, TASK_DEAD_LETTERS, TASK_MESSAGES, TASK_QUEUES, TASK_SUPERVISOR, TASK_OTHER, TASKS };

/* A command that changes something waits longer for a reply (ADMIN_WRITE_TIMEOUT_MS). doctor changes something with
 * --fix. */
enum command_effect { COMMAND_LOOKS, COMMAND_CHANGES };

struct command {
	const char *name;		/* one word, or two: "dlq ls" */
	const char *arguments;		/* as help shows them */
	const char *summary;
	int (*run)(struct admin *a);
	enum admin_need need;
	size_t min, max;		/* operands; NEED_QUEUE, NEED_INGRESS: the first is the queue */
	uint64_t options;		/* OPTION_ bits it takes */
	const char *details;		/* more for "help COMMAND"; NULL: nothing */
	enum command_task task;
	enum command_effect effect;
	const char *example;		/* a whole line */
};

struct command_table {
	const struct command *all;	/* sorted by name */
	size_t n;
};

/* The command that the operands name; removes its words from them. NULL: an error was printed, and status is set. */
const struct command *command_find(struct admin *a);

/* Prints an error about options.unknown, with what was meant, or what the command takes. Returns -1. */
int command_unknown_option(struct admin *a);

/* Checks the operands and options, connects as the command needs it, and runs it; with --help prints its help. -1:
 * status is set. */
int command_run(struct admin *a, const struct command *c);

/* True: commands of two words begin with this word, as with "dlq". */
bool command_is_group(const struct admin *a, const char *word);

/* what "help" prints; group NULL: all commands */
void command_list(const struct admin *a, const char *group, FILE *out);
void command_help(const struct command *c, FILE *out);			/* what "help COMMAND" prints */
#define COMMAND_HELP_OPTIONS "options"
void command_help_options(FILE *out);					/* what "help options" prints */

#endif
