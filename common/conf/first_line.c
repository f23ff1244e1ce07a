/* Reads the first line of a script as the kernel does, and says what is wrong in it. program.c judges its interpreter.
 */
#include <string.h>

#include "common/base/base.h"
#include "common/conf/load.h"

#define LINE_MAX_KERNEL 255	/* bytes of the first line that the kernel reads (BINPRM_BUF_SIZE - 1) */
#define TEXT_OF(number) #number
#define DIGITS_OF(macro) TEXT_OF(macro)

void conf_first_line_read(char *head, struct conf_first_line *line)
{
	size_t len = strcspn(head, "\n");
	bool is_cut = len > LINE_MAX_KERNEL;
	char *rest;

	if (is_cut)
		len = LINE_MAX_KERNEL;
	while (!is_cut && strchr(" \t", head[len - 1]) != NULL)
		len--;
	head[len] = '\0';
	rest = head + strlen("#!");
	rest += strspn(rest, " \t");
	line->interpreter = strsep(&rest, " \t");
	line->argument = rest == NULL ? head + len : rest + strspn(rest, " \t");
	line->is_cut = is_cut && rest == NULL;
}

static bool ends_with_cr(const char *word)
{
	return word[0] != '\0' && word[strlen(word) - 1] == '\r';
}

/* "-i python3": the kernel makes one argument of it, and env takes the blank for an option, too. */
static bool joins_options(const char *argument)
{
	size_t letters = argument[0] == '-' ? strspn(argument + 1, "i0v") : 0;

	return letters > 0 && strchr(" \t", argument[1 + letters]) != NULL && argument[1 + letters] != '\0';
}

/* Only a flaw that is sure counts, since interpreters read their argument as they like: env takes a CR for a blank
 * behind -S. */
const struct conf_first_line_flaw *conf_first_line_flaw(const struct conf_first_line *line, bool is_env)
{
	static const struct conf_first_line_flaw empty = {
		"its first line names no interpreter",
		"begin ", " with #!/bin/sh or another interpreter", true };
	static const struct conf_first_line_flaw cut = {
		"its interpreter's name does not end within " DIGITS_OF(LINE_MAX_KERNEL) " bytes, and the kernel reads "
		"no more of the first line", "shorten the first line of ", "", true };
	static const struct conf_first_line_flaw cr = {
		"its lines end with CR LF, and the kernel takes the CR for a part of the interpreter's name",
		"save it with LF line ends: dos2unix ", "", false };
	static const struct conf_first_line_flaw joined = {
		"its first line gives env an option and more in one argument",
		"begin ", " with #!/usr/bin/env -S, which splits it", false };

	if (line->interpreter[0] == '\0')
		return &empty;
	if (line->is_cut)
		return &cut;
	if (ends_with_cr(line->interpreter) || (is_env && line->argument[0] != '-' && ends_with_cr(line->argument)))
		return &cr;
	return is_env && joins_options(line->argument) ? &joined : NULL;
}

void conf_first_line_command(const struct conf_first_line *line, char *path, char *argv[4])
{
	int n = 0;

	argv[n++] = line->interpreter;
	if (line->argument[0] != '\0')
		argv[n++] = line->argument;
	argv[n++] = path;
	argv[n] = NULL;
}
