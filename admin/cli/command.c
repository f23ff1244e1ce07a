/*
 * Finds the command that the operands name, checks its operands and options, and prints its help. The table of commands belongs
 * to the program that reads the command line (admin->commands), so that no command has to know the others.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/cli/command.h"

#include "admin/cli/visible.h"
#include "common/base/base.h"

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

bool command_is_group(const struct admin *a, const char *word)
{
	for (size_t i = 0; i < a->commands->n; i++)
		if (is_of_group(&a->commands->all[i], word))
			return true;
	return false;
}

static void no_such_command(struct admin *a)
{
	const char **names = alloc_zero(a->commands->n, sizeof(*names)), *near;
	char *asked, *shown;
	bool pair = a->noperands > 1 && command_is_group(a, a->operands[0]);

	for (size_t i = 0; i < a->commands->n; i++)
		names[i] = a->commands->all[i].name;
	asked = pair ? alloc_format("%s %s", a->operands[0], a->operands[1]) : alloc_string(a->operands[0]);
	near = nearest(asked, names, a->commands->n);
	shown = visible(asked, strlen(asked), 100);
	if (near != NULL)
		admin_fail(a, EX_USAGE, "no command %s (did you mean %s?)", shown, near);
	else
		admin_fail(a, EX_USAGE, "no command %s; quredis help lists them", shown);
	free(shown);
	free(asked);
	free(names);
}

const struct command *command_find(struct admin *a)
{
	for (size_t i = 0; i < a->commands->n; i++) {
		size_t words = words_matching(&a->commands->all[i], a->operands, a->noperands);

		if (words == 0)
			continue;
		a->operands += words;
		a->noperands -= words;
		return &a->commands->all[i];
	}
	no_such_command(a);
	return NULL;
}

static int check_line(struct admin *a, const struct command *c)
{
	uint64_t strange = a->options.given & ~c->options;

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

static const char *const task_titles[TASKS] = {
	[TASK_LOOK] = "What is going on", [TASK_DEAD_LETTERS] = "Dead letters", [TASK_MESSAGES] = "Messages", [TASK_QUEUES] = "Queues and workers",
	[TASK_SUPERVISOR] = "The supervisor of this host", [TASK_OTHER] = "Other commands",
};

static void list_command(const struct command *c, FILE *out)
{
	char left[64];

	snprintf(left, sizeof(left), "%s %s", c->name, c->arguments);
	fprintf(out, "  quredis %-28s  # %s\n", left, c->summary);
}

void command_list(const struct admin *a, const char *group, FILE *out)
{
	if (group != NULL)
		fputs("Commands:\n", out);
	for (int task = 0; task < TASKS; task++) {
		if (group == NULL)
			fprintf(out, "%s%s:\n", task > 0 ? "\n" : "", task_titles[task]);
		for (size_t i = 0; i < a->commands->n; i++)
			if (a->commands->all[i].task == (enum command_task)task && (group == NULL || is_of_group(&a->commands->all[i], group)))
				list_command(&a->commands->all[i], out);
	}
	fputs("\nOptions, before or after the command:\n", out);
	options_print(0, out);
}

void command_help(const struct command *c, FILE *out)
{
	fprintf(out, "Usage:\n  quredis %s%s%s\n\n%s\n", c->name, c->arguments[0] != '\0' ? " " : "", c->arguments, c->summary);
	if (c->details != NULL)
		fprintf(out, "%s\n", c->details);
	fprintf(out, "\nExample:\n  %s\n", c->example);
	if (c->options != 0) {
		fputs("\nOptions:\n", out);
		options_print(c->options, out);
	}
	fputs("\nOptions of every command:\n", out);
	options_print(0, out);
}
