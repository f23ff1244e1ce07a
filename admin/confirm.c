/* Asking before something is gone. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

#include "admin/confirm.h"

#include "admin/visible.h"

#define STATUS_DECLINED 1

bool confirm_possible(void)
{
	return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

/* The answer without its newline; "" at the end of input. The caller frees it. */
static char *ask(const char *question, const char *how)
{
	char *line = NULL;
	size_t size = 0;
	ssize_t len;

	fflush(stdout);
	fprintf(stderr, "%s %s ", question, how);
	fflush(stderr);
	len = getline(&line, &size, stdin);
	if (len <= 0) {
		fputc('\n', stderr);
		free(line);
		return NULL;
	}
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

int confirm(struct admin *a, const char *question)
{
	char *answer;
	bool yes;

	if (a->options.yes || !confirm_possible())
		return 0;
	answer = ask(question, "[y/N]");
	yes = answer != NULL && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0);
	free(answer);
	return yes ? 0 : admin_fail(a, STATUS_DECLINED, "nothing was done");
}

int confirm_by_name(struct admin *a, const char *question, const char *name)
{
	char *answer, *typed;
	bool same;

	if (a->options.yes)
		return 0;
	if (!confirm_possible())
		return admin_fail(a, EX_USAGE, "%s --yes says so where nobody can be asked", question);
	answer = ask(question, "Type its name to go on:");
	typed = answer == NULL ? NULL : visible(name, strlen(name), SIZE_MAX);
	/* What is shown is what can be typed. */
	same = answer != NULL && (strcmp(answer, name) == 0 || strcmp(answer, typed) == 0);
	free(answer);
	free(typed);
	return same ? 0 : admin_fail(a, STATUS_DECLINED, "nothing was done");
}
