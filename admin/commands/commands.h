#ifndef ADMIN_COMMANDS_COMMANDS_H
#define ADMIN_COMMANDS_COMMANDS_H

#include "admin/cli/cli.h"

/*
 * The commands of quredis that have no folder of their own, one file each, and the table of all commands (table.c).
 * main() stores a pointer to the table in struct admin, where code that looks a command up finds it.
 */
extern const struct command_table commands;

int cmd_completion(struct admin *a);
int cmd_destroy(struct admin *a);
int cmd_done_ls(struct admin *a);
int cmd_health(struct admin *a);
int cmd_help(struct admin *a);
int cmd_init(struct admin *a);
int cmd_ls(struct admin *a);
int cmd_nodes(struct admin *a);
int cmd_operations(struct admin *a);
int cmd_pause(struct admin *a);
int cmd_peek(struct admin *a);
int cmd_quiet(struct admin *a);
int cmd_reload(struct admin *a);
int cmd_restart(struct admin *a);
int cmd_resume(struct admin *a);
int cmd_scale(struct admin *a);
int cmd_schedule(struct admin *a);
int cmd_schedule_run(struct admin *a);
int cmd_stats(struct admin *a);
int cmd_status(struct admin *a);
int cmd_stop(struct admin *a);
int cmd_version(struct admin *a);

const char *init_template_language(size_t i);	/* of the languages that init knows; NULL: there are no more */

struct queue_health;
/*
 * health_reasons.c: the texts of all reasons of a report in one line, the worst first, with what comes next: the next
 * attempt of a breaker, the next look at a figure that recovers. "" if it has none. A new string.
 */
char *health_reasons(const struct queue_health *report, int64_t server_ms);
/* The same, with its age if it is not of just now, for a text beside figures of this moment: "4m ago: 3400 dead
 * letters, …". A new string. */
char *health_reasons_dated(const struct queue_health *report, int64_t server_ms);

#endif
