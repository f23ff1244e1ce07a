/*
 * The table of commands, and the commands about it: help and version. A command is one row here. This is the only list
 * of commands: completion and the console read it, too.
 */
#include <stdio.h>
#include <string.h>

#include "admin/commands/commands.h"

#include "admin/dead_letters/dead_letters.h"
#include "admin/doctor/doctor.h"
#include "admin/moves/moves.h"
#include "admin/top/top.h"
#include "admin/trend/trend.h"
#include "admin/trial/trial.h"
#include "admin/web/web.h"

#include "common/base/base.h"

static const struct command rows[] = {
	{ "cancel", "QUEUE ID", "end a running message", cmd_cancel, NEED_QUEUE, 2, 2,
	    OPTION_AGAIN | OPTION_ESCAPE | OPTION_WORKER | OPTION_NO_WAIT,
	  "On whichever host it runs, with all its processes. It becomes a dead letter of class Cancelled, or with "
	  "--retry it runs again, uncharged. ID as peek shows it; if several messages in flight have it, one is taken, "
	  "or with --worker that of a worker or node. A message that does not run is not touched.",
	  TASK_MESSAGES, COMMAND_CHANGES, "quredis cancel mail order-17" },
	{ "completion", "SHELL", "print a completion script for a shell", cmd_completion, NEED_NOTHING, 1, SIZE_MAX, 0,
	  "SHELL is bash, fish or zsh. The script completes commands, options, queues and ids. In bash: eval "
	  "\"$(quredis completion bash)\"",
	  TASK_OTHER, COMMAND_LOOKS, "quredis completion bash >/etc/bash_completion.d/quredis" },
	{ "destroy", "QUEUE", "remove a queue with all its keys", cmd_destroy, NEED_QUEUE, 1, 1, 0,
	  "It removes the messages, the records and the registration, too. Refused while workers are registered and "
	  "alive. On a terminal you must type the name; elsewhere --yes is required.",
	  TASK_QUEUES, COMMAND_CHANGES, "quredis destroy mail" },
	{ "dlq export", "QUEUE", "write dead letters as lines of JSON", cmd_dlq_export, NEED_QUEUE, 1, 1,
	    OPTION_COUNT | OPTION_FILTER,
	  "One object per line with record and message, oldest first, in the format of dead_letter.archive. Without -n "
	  "it writes all.",
	  TASK_DEAD_LETTERS, COMMAND_LOOKS, "quredis dlq export mail --class HandlerTimeout >timeouts.ndjson" },
	{ "dlq import", "QUEUE FILE", "push the messages of an archive", cmd_dlq_import, NEED_QUEUE, 2, 2,
	  OPTION_ANEW | OPTION_SKIP,
	  "FILE has lines of JSON, as dead_letter.archive and dlq export write them; - is standard input. Each message "
	  "is pushed once into ingress: the same command again continues one that was interrupted, and takes lines "
	  "that were added. A broken line is named, and ends it, unless --skip is given.",
	  TASK_DEAD_LETTERS, COMMAND_CHANGES, "quredis dlq import mail /var/lib/quredis/archive/mail@web1.ndjson" },
	{ "dlq ls", "QUEUE", "list dead letters, newest first", cmd_dlq_ls, NEED_QUEUE, 1, 1,
	    OPTION_COUNT | OPTION_FILTER | OPTION_BEFORE, NULL,
	  TASK_DEAD_LETTERS, COMMAND_LOOKS, "quredis dlq ls mail --since 02:00 --class SMTPServerDisconnected" },
	{ "dlq retry", "QUEUE ID...|--all", "move dead letters back to ingress", cmd_dlq_retry, NEED_QUEUE, 1, SIZE_MAX,
	  OPTION_ALL | OPTION_FILTER | OPTION_PACE | OPTION_ANEW | OPTION_NO_WAIT | OPTION_FOREGROUND,
	  "ID is the id of a record, as dlq ls shows it, or of a message; if several dead letters have it, the newest "
	  "is taken. With --canary, --rate or --max-failures it stops when one message, or more than N, has failed "
	  "again; exit status 65. The rate is then 50/s unless --rate is given. With these or a filter, the same "
	  "command again continues one that was interrupted.",
	  TASK_DEAD_LETTERS, COMMAND_CHANGES,
	  "quredis dlq retry mail --all --class HandlerTimeout --canary=50 --rate 50/s" },
	{ "dlq rm", "QUEUE ID...|--all", "delete dead letters and their records", cmd_dlq_rm, NEED_QUEUE, 1, SIZE_MAX,
	  OPTION_ALL | OPTION_FILTER | OPTION_ANEW | OPTION_NO_WAIT | OPTION_FOREGROUND,
	  "ID is the id of a record, as dlq ls shows it, or of a message; if several dead letters have it, the newest "
	  "is taken.", TASK_DEAD_LETTERS, COMMAND_CHANGES, "quredis dlq rm mail --all --until 30d" },
	{ "dlq show", "QUEUE ID", "show a dead letter with its message", cmd_dlq_show, NEED_QUEUE, 2, 2, 0,
	  "ID is the id of a record, as dlq ls shows it, or of a message; if several dead letters have it, the newest "
	  "is taken.", TASK_DEAD_LETTERS, COMMAND_LOOKS, "quredis dlq show mail 1763949005123-0" },
	{ "dlq stats", "QUEUE", "count by class, by cause and by hour", cmd_dlq_stats, NEED_QUEUE, 1, 1,
	    OPTION_COUNT | OPTION_FILTER,
	  "A cause is the class, how the handler ended, and the first line of the error, without ids and long numbers. "
	  "It shows the 20 most frequent classes and causes, and the 20 latest hours.",
	  TASK_DEAD_LETTERS, COMMAND_LOOKS, "quredis dlq stats mail" },
	{ "doctor", "", "find problems, and say what to do", cmd_doctor, NEED_NOTHING, 0, 0,
	  OPTION_FIX | OPTION_COUNT | OPTION_VERBOSE,
	  "It checks this host, Redis and all queues. The worst is at the end; what is fine is hidden without -v. Exit "
	  "status 0: no problem, or only notes; 1: warnings; 2: errors; 69: Redis cannot be reached. -n: how many "
	  "keys, and dead letters of a queue, it reads at most. To check the rights of this user it moves a message on "
	  "keys of its own, unless --dry-run.", TASK_LOOK, COMMAND_LOOKS, "quredis doctor" },
	{ "done ls", "QUEUE", "list messages that were done recently", cmd_done_ls, NEED_QUEUE, 1, 1, OPTION_COUNT,
	  "Newest first; for queues that keep a history (done.keep).",
	  TASK_MESSAGES, COMMAND_LOOKS, "quredis done ls mail -n 20" },
	{ "health", "[QUEUE]", "show the health of queues", cmd_health, NEED_NOTHING, 0, 1, OPTION_NAGIOS,
	  "Of one queue, or of all, as their supervisors last reported it. Exit status 0: healthy; 1: degraded; 2: "
	  "unhealthy; 3: no supervisor reports it (health.enabled).", TASK_LOOK, COMMAND_LOOKS, "quredis health mail" },
	{ "help", "[COMMAND]", "list the commands, or describe one", cmd_help, NEED_NOTHING, 0, 2, 0, NULL,
	  TASK_OTHER, COMMAND_LOOKS, "quredis help dlq retry" },
	{ "init", "[DIR]", "write a first queue that needs no root", cmd_init, NEED_NOTHING, 0, 1, OPTION_LANG,
	  "A handler in the language of --lang, and a configuration with a Redis of its own; all is in DIR (.), which "
	  "is made if it is missing. It prints the commands that start it, push a message and look. It overwrites "
	  "nothing.", TASK_OTHER, COMMAND_CHANGES, "quredis init greetings --lang python" },
	{ "ls", "[QUEUE ...]", "list queues", cmd_ls, NEED_REDIS, 0, SIZE_MAX, 0,
	  "The named queues, or all queues of the configuration and of the registry, with the number of messages in "
	  "each list.",
	  TASK_LOOK, COMMAND_LOOKS, "quredis ls" },
	{ "nodes", "", "list the supervisors of all hosts", cmd_nodes, NEED_REDIS, 0, 0, 0,
	  "As they last reported.",
	  TASK_LOOK, COMMAND_LOOKS, "quredis nodes" },
	{ "operations", "[QUEUE]", "list long work on dead letters, or stop it", cmd_operations, NEED_REDIS, 0, 1,
	    OPTION_STOP,
	  "The retries and deletions by a filter or at a pace that are not complete, and who executes them: a "
	  "supervisor, or a command. --stop ID ends one between two messages; the same command continues it.",
	  TASK_DEAD_LETTERS, COMMAND_LOOKS, "quredis operations mail --stop 6f1c0b9e5d2a4c77" },
	{ "pause", "QUEUE", "stop fetching, on every host", cmd_pause, NEED_QUEUE, 1, 1, 0,
	  "Running messages are finished. quiet does the same on this host; resume undoes it.",
	  TASK_QUEUES, COMMAND_CHANGES, "quredis pause mail" },
	{ "peek", "QUEUE TYPE", "show messages, newest first", cmd_peek, NEED_QUEUE, 2, 2,
	    OPTION_COUNT | OPTION_TEXT | OPTION_SEARCH,
	  "TYPE is ingress, transit, escape or delayed. Without -n it shows the newest 101.\n"
	  "--text shows only messages with a text in the message, its id or its last error, among the next 100000 or "
	  "--search N.", TASK_MESSAGES, COMMAND_LOOKS, "quredis peek mail delayed -n 10" },
	{ "purge", "QUEUE TYPE", "delete the messages of a list", cmd_purge, NEED_QUEUE, 2, 2, 0,
	  "TYPE is ingress, transit, escape (with its records) or delayed. Messages that live workers hold stay, "
	  "unless --force is given.", TASK_MESSAGES, COMMAND_CHANGES, "quredis purge mail ingress --dry-run" },
	{ "push", "QUEUE [MESSAGE]", "put a message into ingress", cmd_push, NEED_INGRESS, 1, 2,
	  OPTION_LINES | OPTION_NUL | OPTION_DELAY | OPTION_AT | OPTION_ID | OPTION_TTL | OPTION_WAIT |
	  OPTION_WAIT_TIMEOUT | OPTION_URGENT | OPTION_UNIQUE | OPTION_FOR,
	  "Without MESSAGE, standard input is one message, byte for byte; with --lines or --null it is many. With "
	  "--wait, exit status 75 and \"pushed, not confirmed\" mean that Redis has the messages in memory, but may "
	  "lose them if it crashes.",
	  TASK_MESSAGES, COMMAND_CHANGES, "quredis push mail 'a message' --id order-17 --at 02:00" },
	{ "quiet", "[QUEUE]", "stop fetching on this host", cmd_quiet, NEED_CONTROL, 0, 1, OPTION_OFF,
	  "Of one queue, or of all. Running messages are finished. pause does the same on all hosts.",
	  TASK_QUEUES, COMMAND_CHANGES, "quredis quiet mail" },
	{ "reload", "", "read the configuration again", cmd_reload, NEED_SOCKET, 0, 0,
	    OPTION_NO_WAIT,
	  "The supervisor of this host applies what has changed. Where a new handler has to be ready first, it waits "
	  "for that.",
	  TASK_SUPERVISOR, COMMAND_CHANGES, "quredis reload" },
	{ "restart", "QUEUE", "replace the workers of a queue", cmd_restart, NEED_CONTROL, 1, 1,
	    OPTION_NO_WAIT,
	  "And their handlers: one after the other has finished its messages. With `ready` it waits until they are "
	  "replaced; if the new handler is not ready, the old ones go on.",
	  TASK_QUEUES, COMMAND_CHANGES, "quredis restart mail" },
	{ "resume", "QUEUE", "undo pause", cmd_resume, NEED_QUEUE, 1, 1, 0, NULL,
	  TASK_QUEUES, COMMAND_CHANGES, "quredis resume mail" },
	{ "retry", "QUEUE TYPE [ID...]", "move messages back to ingress", cmd_retry, NEED_QUEUE, 2, SIZE_MAX,
	    OPTION_SEARCH,
	  "TYPE is transit, escape or delayed. Without ID the whole list. Messages that live workers hold stay, unless "
	  "--force is given. You may interrupt it, and run the command again to continue. With ID, TYPE is delayed or "
	  "ingress, and ID as peek shows it: the message is fetched next. For dead letters: dlq retry.",
	  TASK_MESSAGES, COMMAND_CHANGES, "quredis retry mail delayed order-17" },
	{ "rm", "QUEUE TYPE ID...", "delete single messages", cmd_rm, NEED_QUEUE, 3, SIZE_MAX, OPTION_SEARCH,
	  "TYPE is ingress or delayed, ID as peek shows it; if several messages have it, the one that comes next is "
	  "taken. For dead letters: dlq rm.", TASK_MESSAGES, COMMAND_CHANGES, "quredis rm mail delayed order-17" },
	{ "run", "QUEUE [MESSAGE]", "run the handler on a copy of a message", cmd_run, NEED_NOTHING, 1, 2,
	    OPTION_FROM | OPTION_ID,
	  "Without MESSAGE and --from, the message is standard input. The user, environment and limits are those of a "
	  "worker; no list changes. The handler runs for real, with all its effects. With --from escape, --id takes "
	  "the dead letter with this record or message id.",
	  TASK_MESSAGES, COMMAND_LOOKS, "quredis run mail --from escape --id 1763949845123-0" },
	{ "scale", "QUEUE WORKERS", "set how many workers a queue has here", cmd_scale, NEED_CONTROL, 2, 2, 0,
	  "It lasts until the next reload or start, which use the configuration. Surplus workers finish the messages "
	  "that they run.", TASK_QUEUES, COMMAND_CHANGES, "quredis scale mail 8" },
	{ "schedule", "[SCHEDULE]", "show the ticks of schedules", cmd_schedule, NEED_CONF, 0, 1,
	    OPTION_FROM | OPTION_NEXT,
	  "Of one schedule, or of all in the configuration: the last tick that was pushed, those that come, and how "
	  "many were missed and skipped. --from TIME shows those after another time. It needs no supervisor; what "
	  "Redis does not tell is unknown.", TASK_LOOK, COMMAND_LOOKS, "quredis schedule nightly --next 10" },
	{ "schedule run", "SCHEDULE", "push the message of a schedule now", cmd_schedule_run, NEED_CONF, 1, 1, 0,
	  "Its ticks stay as they are. With overlap = false it is refused while an earlier message of the schedule is "
	  "in the queue, exit status 65, unless --force is given. The handler gets the time of the push.",
	  TASK_MESSAGES, COMMAND_CHANGES, "quredis schedule run nightly" },
	{ "stale", "[QUEUE]", "count what purge{} would take", cmd_stale, NEED_REDIS, 0, 1, 0,
	  "The messages that its rules would take, of one queue or of all. It writes nothing; purge.enabled and "
	  "purge.dry_run decide whether the rules are applied. It does not count registry entries and registrations, "
	  "and ignores purge.check.", TASK_LOOK, COMMAND_LOOKS, "quredis stale mail" },
	{ "stats", "[QUEUE ...]", "show what all hosts did with queues", cmd_stats, NEED_REDIS, 0, SIZE_MAX,
	    OPTION_SINCE,
	  "In total, or with --since in the last TIME, at most three days. Figures are some seconds old.",
	  TASK_LOOK, COMMAND_LOOKS, "quredis stats mail --since 24h" },
	{ "status", "[QUEUE]", "show queues and workers of this host", cmd_status, NEED_CONTROL, 0, 1, 0,
	    "Of one queue, or of all.",
	  TASK_LOOK, COMMAND_LOOKS, "quredis status" },
	{ "stop", "", "stop the supervisor", cmd_stop, NEED_CONTROL, 0, 0, OPTION_FAST | OPTION_NO_WAIT, NULL,
	  TASK_SUPERVISOR, COMMAND_CHANGES, "quredis stop" },
	{ "top", "", "watch queues, refreshed every second", cmd_top, NEED_CONF, 0, 0, OPTION_ONCE | OPTION_SORT,
	  "The sickest queues are first. Enter shows the selected queue, ? lists the keys, q quits. If standard output "
	  "is no terminal, or with --json, it prints one page.", TASK_LOOK, COMMAND_LOOKS, "quredis top" },
	{ "trend", "QUEUE", "show the course of a queue over time", cmd_trend, NEED_QUEUE, 1, 1, OPTION_SINCE,
	  "Its backlog, its waiting times, and how its attempts ended, in the last hour, or with --since in the last "
	  "TIME, at most three days, in at most 102 rows. Rows that no supervisor saw have no figures.",
	  TASK_LOOK, COMMAND_LOOKS, "quredis trend mail --since 24h" },
	{ "version", "", "print the version", cmd_version, NEED_NOTHING, 0, 0, 0, NULL,
	  TASK_OTHER, COMMAND_LOOKS, "quredis version" },
	{ "web", "", "serve the web console and its API", cmd_web, NEED_CONF, 0, 0, OPTION_BIND | OPTION_WEB_PORT,
	  "Runs until it is interrupted (Ctrl-C). It prints the address for a browser, with a code that opens one "
	  "session. Programs send the token of web.token_file.", TASK_OTHER, COMMAND_LOOKS, "quredis web --port 8080" },
};

const struct command_table commands = { rows, nitems(rows) };

int cmd_help(struct admin *a)
{
	const struct command *c;

	if (a->noperands == 0 || (a->noperands == 1 && command_is_group(a, a->operands[0]))) {
		command_list(a, a->noperands == 0 ? NULL : a->operands[0], stdout);
		return 0;
	}
	if (a->noperands == 1 && strcmp(a->operands[0], COMMAND_HELP_OPTIONS) == 0) {
		command_help_options(stdout);
		return 0;
	}
	c = command_find(a);
	if (c == NULL)
		return -1;
	command_help(c, stdout);
	return 0;
}

int cmd_version(struct admin *a)
{
	json_t *all = json_pack("{s:s, s:{}}", "version", QUREDIS_VERSION, "libraries");
	const struct library *l;

	if (!a->options.json)
		printf("quredis %s\n", QUREDIS_VERSION);
	for (size_t i = 0; (l = libraries_at(i)) != NULL; i++) {
		json_object_set_new(json_object_get(all, "libraries"), l->name, json_string(l->version()));
		if (!a->options.json)
			printf("%s %s\n", l->name, l->version());
	}
	if (a->options.json)
		output_json_document(&a->output, all);
	json_decref(all);
	return 0;
}
