/*
 * Finds the command that the operands name, checks its operands and options, and prints its help. The table of commands
 * belongs to the program that reads the command line (admin->commands), so that no command has to know the others.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/cli/command.h"

#include "admin/cli/lookup.h"
#include "admin/cli/notice.h"
#include "admin/cli/visible.h"
#include "admin/cli/wrap.h"
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
		if (strcmp(a->commands->all[i].name, word) == 0)
			return false;
	for (size_t i = 0; i < a->commands->n; i++)
		if (is_of_group(&a->commands->all[i], word))
			return true;
	return false;
}

/* NULL: there is none. */
static const struct command *find(struct admin *a)
{
	const struct command *found = NULL;
	size_t most = 0;

	for (size_t i = 0; i < a->commands->n; i++) {
		size_t words = words_matching(&a->commands->all[i], a->operands, a->noperands);

		if (words <= most)
			continue;
		most = words;		/* "schedule run" before "schedule" */
		found = &a->commands->all[i];
	}
	a->operands += most;
	a->noperands -= most;
	return found;
}

/* ---- words that were misspelled ---- */

/* The first word of each command, each once: new strings in a new array. */
static char **first_words(const struct admin *a, size_t *n)
{
	char **words = alloc_zero(a->commands->n, sizeof(*words));

	*n = 0;
	for (size_t i = 0; i < a->commands->n; i++) {
		const char *name = a->commands->all[i].name;

		if (*n == 0 || !is_of_group(&a->commands->all[i], words[*n - 1]))
			words[(*n)++] = alloc_copy(name, strcspn(name, " "));
	}
	return words;
}

/* Suggests `dlq ls` for `dql ls`, if dlq is the group: a new string. */
static char *suggest_of_group(const struct admin *a, const char *group, const char *second)
{
	const char **names = alloc_zero(a->commands->n, sizeof(*names));
	char *wanted = alloc_format("%s %s", group, second), *hint;
	size_t n = 0;

	for (size_t i = 0; i < a->commands->n; i++)
		if (is_of_group(&a->commands->all[i], group))
			names[n++] = a->commands->all[i].name;
	hint = notice_suggest(wanted, names, n, "");
	free(wanted);
	free(names);
	return hint;
}

static void no_such_command(struct admin *a)
{
	size_t n;
	char **words = first_words(a, &n), *hint, *shown, *asked;
	const char *first = a->operands[0], *group = nearest(first, (const char *const *)words, n);
	bool pair = a->noperands > 1 && group != NULL && command_is_group(a, group);

	hint = pair ? suggest_of_group(a, group, a->operands[1]) : alloc_string("");
	if (hint[0] == '\0' && !command_is_group(a, first)) {
		free(hint);
		hint = notice_suggest(first, (const char *const *)words, n, "");
		pair = false;
	}
	asked = pair ? alloc_format("%s %s", first, a->operands[1]) : alloc_string(first);
	shown = visible(asked, strlen(asked), 100);
	if (hint[0] != '\0')
		admin_fail(a, EX_USAGE, "no command %s%s", shown, hint);
	else
		admin_fail(a, EX_USAGE, "no command %s; quredis help%s%s lists them", shown, pair ? " " : "",
		    pair ? group : "");
	free(shown);
	free(asked);
	free(hint);
	lookup_names_free(words, n);
}

const struct command *command_find(struct admin *a)
{
	const struct command *c = find(a);

	if (c == NULL)
		no_such_command(a);
	return c;
}

/* "--limit, --class": those of this command alone. A new string. */
static char *list_options(const struct command *c)
{
	struct buffer all = {0};

	for (size_t i = 0; i < option_specs_count; i++)
		if ((option_specs[i].bit & c->options) != 0)
			buffer_format(&all, "%s--%s", all.len == 0 ? "" : ", ", option_specs[i].name);
	buffer_append(&all, "", 1);
	return all.data;
}

int command_unknown_option(struct admin *a)
{
	const char *names[OPTIONS_MAX], *unknown = a->options.unknown;
	const struct command *c = find(a);
	char *name = alloc_copy(unknown, strcspn(unknown, "=")), *hint, *own;
	size_t n = 0;

	for (size_t i = 0; i < option_specs_count; i++)
		if (c == NULL || option_specs[i].bit == 0 || (option_specs[i].bit & c->options) != 0)
			names[n++] = option_specs[i].name;
	hint = strncmp(name, "--", 2) == 0 ? notice_suggest(name + 2, names, n, "--") : alloc_string("");
	own = c == NULL ? alloc_string("") : list_options(c);
	if (hint[0] != '\0')
		admin_fail(a, EX_USAGE, "unknown option %s%s", unknown, hint);
	else if (own[0] == '\0')
		admin_fail(a, EX_USAGE, "unknown option %s; %s%sthe options of every command: quredis help options",
		    unknown, c == NULL ? "" : c->name, c == NULL ? "" : " takes only ");
	else
		admin_fail(a, EX_USAGE,
		    "unknown option %s; %s takes %s, and the options of every command: quredis help options", unknown,
		    c->name, own);
	free(own);
	free(hint);
	free(name);
	return -1;
}

/* ---- the line ---- */

/* "; TYPE is ingress, transit, escape or delayed": what the description says first, if it is about an operand. A new
 * string. */
static char *explain_operand(const struct command *c)
{
	size_t word = c->details == NULL ? 0 : strcspn(c->details, " "), end;
	char *name = alloc_copy(c->details, word), *text;

	for (end = word; word > 0 && c->details[end] != '\0' && strncmp(c->details + end, ". ", 2) != 0 &&
	    strncmp(c->details + end, ".\n", 2) != 0;)
		end++;
	text = word > 0 && strstr(c->arguments, name) != NULL ? alloc_format("; %.*s", (int)end, c->details)
	    : alloc_string("");
	free(name);
	return text;
}

static int wrong_usage(struct admin *a, const struct command *c, const char *unexpected)
{
	char *operand = unexpected != NULL ? alloc_string("") : explain_operand(c);

	admin_fail(a, EX_USAGE, "%s%.100s%susage: quredis %s%s%s%s", unexpected == NULL ? "" : "unexpected argument ",
	    unexpected == NULL ? "" : unexpected,
	    unexpected == NULL ? "" : "; ", c->name, *c->arguments == '\0' ? "" : " ", c->arguments, operand);
	free(operand);
	return -1;
}

/* How many operands stand before the first ID, by the arguments that help shows; 0: no operand is an ID. */
static size_t operands_before_ids(const struct command *c)
{
	const char *word = c->arguments;

	for (size_t n = 0; *word != '\0'; n++) {
		word += strspn(word, "[");
		if (strncmp(word, "ID", 2) == 0 && strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == 2)
			return n;
		word += strcspn(word, " ");
		word += strspn(word, " ");
	}
	return 0;
}

/*
 * Producers choose ids, so a script passes words that it does not know. None of them may become an option: an id begins
 * with a letter or a digit, and behind the first one no option is read but --help. words: of the name of the command,
 * which stand before the operands
 */
static int check_ids(struct admin *a, const struct command *c)
{
	size_t words = (size_t)(a->operands - a->options.operands), before = operands_before_ids(c);
	char *shown;

	if (before == 0)
		return 0;
	if (a->options.last != NULL && a->options.before_last > words + before)
		return admin_fail(a, EX_USAGE, "%s reads no option behind an ID: write %.60s before the first ID, or "
		    "-- before it if it is one", c->name, a->options.last);
	for (size_t i = before; i < a->noperands; i++)
		if (!identifier_is(IDENTIFIER_ID, a->operands[i], strlen(a->operands[i]))) {
			shown = visible(a->operands[i], strlen(a->operands[i]), 100);
			admin_fail(a, EX_USAGE, "\"%s\" cannot be an ID, which has %s", shown,
			    identifier_form(IDENTIFIER_ID));
			free(shown);
			return -1;
		}
	return 0;
}

static int check_line(struct admin *a, const struct command *c)
{
	uint64_t strange = a->options.given & ~c->options;

	if (strange != 0)
		return admin_fail(a, EX_USAGE, "%s has no option --%s", c->name,
		    option_of_bit(strange & -strange)->name);
	if (a->noperands > c->max)
		return wrong_usage(a, c, a->operands[c->max]);
	return a->noperands < c->min ? wrong_usage(a, c, NULL) : 0;
}

static void warn_of_deprecated(const struct admin *a)
{
	for (size_t i = 0; i < option_specs_count; i++) {
		const struct deprecated *d = deprecated_find(DEPRECATED_OPTION, "quredis --", option_specs[i].name);
		char *advice;

		if (d == NULL || !a->options.named[i])
			continue;
		advice = deprecated_advice(d);
		notice_print("quredis: warning: ", "--%s is %s", option_specs[i].name, advice);
		free(advice);
	}
}

int command_run(struct admin *a, const struct command *c)
{
	if (a->options.help) {
		command_help(c, stdout);
		return 0;
	}
	warn_of_deprecated(a);
	a->writes = c->effect == COMMAND_CHANGES || a->options.fix;
	if (check_ids(a, c) == -1 || check_line(a, c) == -1 || admin_prepare(a, c->need) == -1)
		return -1;
	return c->run(a);
}

static const char *const task_titles[TASKS] = {
	[TASK_LOOK] = "What is going on", [TASK_DEAD_LETTERS] = "Dead letters", [TASK_MESSAGES] = "Messages",
	[TASK_QUEUES] = "Queues and workers",
	[TASK_SUPERVISOR] = "The supervisor of this host", [TASK_OTHER] = "Other commands",
};

static void list_command(const struct command *c, FILE *out)
{
	char left[64];
	int at;

	snprintf(left, sizeof(left), "%s %s", c->name, c->arguments);
	at = fprintf(out, "  quredis %-29s # ", left);
	wrap_write(out, c->summary, (size_t)at, (size_t)at, wrap_page_width(out));
	fputc('\n', out);
}

static void refer_to_options(bool also, FILE *out)
{
	wrap_write(out, also
	    ? "Also --dry-run, --json, --yes and the other options of every command: quredis help "
	    COMMAND_HELP_OPTIONS :
	    "Options are those of every command: quredis help " COMMAND_HELP_OPTIONS, 0, 0, wrap_page_width(out));
	fputc('\n', out);
}

void command_list(const struct admin *a, const char *group, FILE *out)
{
	if (group != NULL)
		fputs("Commands:\n", out);
	for (int task = 0; task < TASKS; task++) {
		if (group == NULL)
			fprintf(out, "%s%s:\n", task > 0 ? "\n" : "", task_titles[task]);
		for (size_t i = 0; i < a->commands->n; i++)
			if (a->commands->all[i].task == (enum command_task)task &&
			    (group == NULL || is_of_group(&a->commands->all[i], group)))
				list_command(&a->commands->all[i], out);
	}
	fputc('\n', out);
	if (group == NULL)
		command_help_options(out);
	else
		refer_to_options(true, out);
}

void command_help_options(FILE *out)
{
	fputs("Options of every command, before or after it:\n", out);
	options_print(0, out);
}

void command_help(const struct command *c, FILE *out)
{
	size_t width = wrap_page_width(out);

	fprintf(out, "Usage:\n  quredis %s%s%s\n\n%s\n", c->name, c->arguments[0] != '\0' ? " " : "", c->arguments,
	    c->summary);
	if (c->details != NULL) {
		wrap_write(out, c->details, 0, 0, width);
		fputc('\n', out);
	}
	fprintf(out, "\nExample:\n  %s\n", c->example);
	if (c->options != 0) {
		fputs("\nOptions:\n", out);
		options_print(c->options, out);
	}
	fputc('\n', out);
	refer_to_options(c->options != 0, out);
}
