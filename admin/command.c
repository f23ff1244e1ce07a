/*
 * The table of commands: what there is, what it takes, what it needs. help reads it too, so a command
 * cannot be missing there.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/command.h"

#include "admin/visible.h"
#include "common/alloc.h"
#include "common/nearest.h"
#include "common/nitems.h"

static const struct command commands[] = {
	{ "completion", "SHELL", "print what makes bash, fish or zsh complete commands, queues and ids", cmd_completion, NEED_NOTHING, 1, SIZE_MAX, 0,
	  "In bash: eval \"$(quredis completion bash)\"" },
	{ "destroy", "QUEUE", "remove a queue: all its keys and its registration", cmd_destroy, NEED_QUEUE, 1, 1, 0,
	  "Refused while workers are registered and alive. On a terminal the name must be typed; elsewhere --yes is needed." },
	{ "dlq export", "QUEUE", "write records and messages as lines of JSON, oldest first", cmd_dlq_export, NEED_QUEUE, 1, 1, OPTION_COUNT | OPTION_CLASS,
	  "One object a line, as the archive has them: dead_letter.archive. Without -n all of them." },
	{ "dlq ls", "QUEUE", "list dead letters, newest first", cmd_dlq_ls, NEED_QUEUE, 1, 1, OPTION_COUNT | OPTION_CLASS | OPTION_BEFORE, NULL },
	{ "dlq retry", "QUEUE ID...|--all", "put dead letters back into ingress", cmd_dlq_retry, NEED_QUEUE, 1, SIZE_MAX,
	  OPTION_ALL | OPTION_CLASS | OPTION_CANARY | OPTION_RATE | OPTION_FAILURES,
	  "ID is a record's, as dlq ls shows it, or a message's: of several the newest is meant. With --canary, --rate or --max-failures it "
	  "stops when one of them, or more than N, has failed again; exit status 65. Without --rate then 50/s." },
	{ "dlq rm", "QUEUE ID...|--all", "delete dead letters and their records", cmd_dlq_rm, NEED_QUEUE, 1, SIZE_MAX, OPTION_ALL | OPTION_CLASS,
	  "ID is a record's, as dlq ls shows it, or a message's: of several the newest is meant." },
	{ "dlq show", "QUEUE ID", "show all that is known of a dead letter", cmd_dlq_show, NEED_QUEUE, 2, 2, 0,
	  "ID is a record's, as dlq ls shows it, or a message's: of several the newest is meant." },
	{ "dlq stats", "QUEUE", "count dead letters by class, by cause and by hour", cmd_dlq_stats, NEED_QUEUE, 1, 1, OPTION_COUNT,
	  "A cause is the class, how the handler ended, and the first line of the error without its numbers and ids. Of each kind the 20 "
	  "most frequent are shown, of hours the latest." },
	{ "doctor", "", "look for what is wrong, here and in Redis, and say what to do", cmd_doctor, NEED_NOTHING, 0, 0, OPTION_FIX | OPTION_COUNT,
	  "Exit status 0: nothing, or only notes; 1: warnings; 2: errors; 69: Redis is away. -n: at most so many keys, and dead letters of "
	  "a queue, are looked at. To see whether this user has all rights it moves a message on keys of its own, unless --dry-run." },
	{ "done ls", "QUEUE", "list what was done lately, newest first", cmd_done_ls, NEED_QUEUE, 1, 1, OPTION_COUNT,
	  "Of a queue that keeps a history: done.keep." },
	{ "health", "[QUEUE]", "whether queues are well, as their supervisors last found", cmd_health, NEED_NOTHING, 0, 1, OPTION_NAGIOS,
	  "Of one queue, or of all. Exit status 0: healthy; 1: degraded; 2: unhealthy; 3: nobody reports (health.enabled)." },
	{ "help", "[COMMAND]", "list the commands, or describe one", cmd_help, NEED_NOTHING, 0, 2, 0, NULL },
	{ "ls", "", "list queues", cmd_ls, NEED_REDIS, 0, 0, 0,
	  "The queues of the configuration and of the registry, each list with how many messages are in it." },
	{ "nodes", "", "the supervisors of all hosts, as they last reported", cmd_nodes, NEED_REDIS, 0, 0, 0, NULL },
	{ "pause", "QUEUE", "stop fetching from a queue, on every host", cmd_pause, NEED_QUEUE, 1, 1, 0, NULL },
	{ "peek", "QUEUE TYPE", "show messages, newest first", cmd_peek, NEED_QUEUE, 2, 2, OPTION_COUNT,
	  "TYPE is ingress, transit, escape or delayed. Without -n the newest 101." },
	{ "purge", "QUEUE TYPE", "delete the messages of a list", cmd_purge, NEED_QUEUE, 2, 2, 0,
	  "TYPE is ingress, transit, escape (with its records) or delayed. What live workers hold stays, unless --force." },
	{ "push", "QUEUE [MESSAGE]", "put a message into ingress", cmd_push, NEED_QUEUE, 1, 2,
	  OPTION_LINES | OPTION_NUL | OPTION_DELAY | OPTION_ID | OPTION_TTL,
	  "Without MESSAGE standard input is one message, byte for byte; with --lines or --null it is many." },
	{ "quiet", "[QUEUE]", "have the supervisor here fetch nothing", cmd_quiet, NEED_CONF, 0, 1, OPTION_OFF,
	  "Of one queue, or of all. What runs is finished. pause does the same for all hosts." },
	{ "reload", "", "have the supervisor read its configuration again", cmd_reload, NEED_CONF, 0, 0, 0, NULL },
	{ "restart", "QUEUE", "replace a queue's workers and handlers, one after the other has finished", cmd_restart, NEED_CONF, 1, 1, 0, NULL },
	{ "resume", "QUEUE", "undo pause", cmd_resume, NEED_QUEUE, 1, 1, 0, NULL },
	{ "retry", "QUEUE TYPE", "put the messages of a list back into ingress", cmd_retry, NEED_QUEUE, 2, 2, 0,
	  "TYPE is transit, escape or delayed. What live workers hold stays, unless --force. "
	  "It can be interrupted, and run again to go on." },
	{ "run", "QUEUE [MESSAGE]", "run a queue's handler on a copy of one message", cmd_run, NEED_NOTHING, 1, 2, OPTION_FROM,
	  "Without MESSAGE and --from the message is standard input. Same user, environment and limits as in a worker; "
	  "nothing is settled." },
	{ "scale", "QUEUE WORKERS", "have the supervisor here run so many workers of a queue", cmd_scale, NEED_CONF, 2, 2, 0,
	  "Until the next reload or start, which go by the configuration. Workers that are too many finish what they run." },
	{ "stale", "[QUEUE]", "count what the rules of purge{} take, or would take", cmd_stale, NEED_REDIS, 0, 1, 0,
	  "Of one queue, or of all. Whether they are applied is purge.enabled's and purge.dry_run's; nothing is written here. Not counted "
	  "are registry entries and registrations, and what a purge.check would keep." },
	{ "stats", "[QUEUE ...]", "what was done with queues, by all hosts", cmd_stats, NEED_REDIS, 0, SIZE_MAX, OPTION_SINCE,
	  "In all, or with --since in the last while, at most three days. Figures are some seconds late." },
	{ "status", "[QUEUE]", "state of queues and workers of the supervisor here", cmd_status, NEED_CONF, 0, 1, 0, "Of one queue, or of all." },
	{ "stop", "", "stop the supervisor", cmd_stop, NEED_CONF, 0, 0, OPTION_FAST | OPTION_NO_WAIT, NULL },
	{ "top", "", "watch queues and workers, drawn anew every second", cmd_top, NEED_CONF, 0, 0, OPTION_ONCE,
	  "q ends it. Where standard output is no terminal, or with --json, one page." },
	{ "version", "", "print the version", cmd_version, NEED_NOTHING, 0, 0, 0, NULL },
	{ "web", "", "serve the web console and its API", cmd_web, NEED_CONF, 0, 0, OPTION_BIND | OPTION_WEB_PORT,
	  "Runs until it is interrupted (Ctrl-C). It prints the address for a browser, with a code that opens one session. Programs send the "
	  "token of web.token_file." },
};
#define NCOMMANDS nitems(commands)

/* The first word of "dlq ls" is dlq. */
static bool is_of_group(const struct command *c, const char *group)
{
	size_t len = strlen(group);

	return strncmp(c->name, group, len) == 0 && c->name[len] == ' ';
}

/* "dlq ls" is found by two words, "ls" by one. */
static size_t words_matching(const struct command *c, char *const *words, size_t n)
{
	const char *space = strchr(c->name, ' ');
	size_t first = space == NULL ? strlen(c->name) : (size_t)(space - c->name);

	if (n == 0 || strlen(words[0]) != first || strncmp(words[0], c->name, first) != 0)
		return 0;
	if (space == NULL)
		return 1;
	return n >= 2 && strcmp(words[1], space + 1) == 0 ? 2 : 0;
}

bool command_is_group(const char *word)
{
	for (size_t i = 0; i < NCOMMANDS; i++)
		if (is_of_group(&commands[i], word))
			return true;
	return false;
}

static void no_such_command(struct admin *a)
{
	const char *names[NCOMMANDS], *near;
	char *asked, *shown;
	bool pair = a->noperands > 1 && command_is_group(a->operands[0]);

	for (size_t i = 0; i < NCOMMANDS; i++)
		names[i] = commands[i].name;
	asked = pair ? alloc_format("%s %s", a->operands[0], a->operands[1]) : alloc_string(a->operands[0]);
	near = nearest(asked, names, NCOMMANDS);
	shown = visible(asked, strlen(asked), 100);
	if (near != NULL)
		admin_fail(a, EX_USAGE, "no command %s (did you mean %s?)", shown, near);
	else
		admin_fail(a, EX_USAGE, "no command %s; quredis help lists them", shown);
	free(shown);
	free(asked);
}

const struct command *command_find(struct admin *a)
{
	for (size_t i = 0; i < NCOMMANDS; i++) {
		size_t words = words_matching(&commands[i], a->operands, a->noperands);

		if (words == 0)
			continue;
		a->operands += words;
		a->noperands -= words;
		return &commands[i];
	}
	no_such_command(a);
	return NULL;
}

const struct command *command_at(size_t i)
{
	return i < NCOMMANDS ? &commands[i] : NULL;
}

static int check_line(struct admin *a, const struct command *c)
{
	unsigned strange = a->options.given & ~c->options;

	if (strange != 0)
		return admin_fail(a, EX_USAGE, "%s has no option --%s", c->name, option_of_bit(strange & -strange)->name);
	if (a->noperands > c->max)
		return admin_fail(a, EX_USAGE, "unexpected argument %.100s; usage: quredis %s%s%s", a->operands[c->max], c->name,
		    *c->arguments == '\0' ? "" : " ", c->arguments);
	if (a->noperands < c->min)
		return admin_fail(a, EX_USAGE, "usage: quredis %s%s%s", c->name, *c->arguments == '\0' ? "" : " ",
		    c->arguments);
	return 0;
}

int command_run(struct admin *a, const struct command *c)
{
	if (a->options.help) {
		command_help(c, stdout);
		return 0;
	}
	if (check_line(a, c) == -1 || admin_prepare(a, c->need) == -1)
		return -1;
	return c->run(a);
}

void command_list(const char *group, FILE *out)
{
	fputs("Commands:\n", out);
	for (size_t i = 0; i < NCOMMANDS; i++) {
		char left[64];

		if (group != NULL && !is_of_group(&commands[i], group))
			continue;
		snprintf(left, sizeof(left), "%s %s", commands[i].name, commands[i].arguments);
		fprintf(out, "  quredis %-28s  # %s\n", left, commands[i].summary);
	}
	fputs("\nOptions, before or after the command:\n", out);
	options_print(0, out);
}

void command_help(const struct command *c, FILE *out)
{
	fprintf(out, "Usage:\n  quredis %s%s%s\n\n%s\n", c->name, c->arguments[0] != '\0' ? " " : "", c->arguments, c->summary);
	if (c->details != NULL)
		fprintf(out, "%s\n", c->details);
	if (c->options != 0) {
		fputs("\nOptions:\n", out);
		options_print(c->options, out);
	}
	fputs("\nOptions of every command:\n", out);
	options_print(0, out);
}
