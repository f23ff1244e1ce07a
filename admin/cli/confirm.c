/* Questions to the operator before a command deletes or moves something. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sysexits.h>
#include <unistd.h>

#include "admin/cli/confirm.h"

#include "admin/cli/visible.h"
#include "common/base/base.h"

#define STATUS_DECLINED 1

bool confirm_possible(void)
{
	return isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1;
}

/* The answer without its newline; NULL at the end of input. The caller frees it. */
static char *read_answer(const char *question, const char *how)
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

bool confirm_yes(const char *question)
{
	char *answer = read_answer(question, "[y/N]");
	bool yes = answer != NULL && (strcasecmp(answer, "y") == 0 || strcasecmp(answer, "yes") == 0);

	free(answer);
	return yes;
}

int confirm(struct admin *a, const char *fmt, ...)
{
	char *question;
	va_list ap;
	bool yes;

	if (a->options.yes || !confirm_possible())
		return 0;
	va_start(ap, fmt);
	if (vasprintf(&question, fmt, ap) == -1)
		alloc_failed();
	va_end(ap);
	yes = confirm_yes(question);
	free(question);
	return yes ? 0 : admin_fail(a, STATUS_DECLINED, "nothing was done");
}

int confirm_messages(struct admin *a, const char *verb, int64_t n, const char *list, const char *rest)
{
	return n == 0 ? 0 : confirm(a, "%s %" PRId64 " message%s of %s %s%s?", verb, n, n == 1 ? "" : "s", a->keys.name,
	    list, rest);
}

int confirm_by_name(struct admin *a, const char *question, const char *name)
{
	char *answer, *typed;
	bool same;

	if (a->options.yes)
		return 0;
	if (!confirm_possible())
		return admin_fail(a, EX_USAGE, "%s Standard input is no terminal, so --yes is required", question);
	answer = read_answer(question, "Type its name to go on:");
	typed = answer == NULL ? NULL : visible(name, strlen(name), SIZE_MAX);
	/* The operator can only type the name as the terminal shows it. */
	same = answer != NULL && (strcmp(answer, name) == 0 || strcmp(answer, typed) == 0);
	free(answer);
	free(typed);
	return same ? 0 : admin_fail(a, STATUS_DECLINED, "nothing was done");
}
