/*
 * The title of the process in ps. libbsd's setproctitle() leaves a dot where argv[0] ended if a title is shorter and
 * there were more arguments. So this file fills each title with blanks to that length.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/unistd.h>

#include "supervisor/host/title.h"

static int argv0_len;		/* length of argv[0] of the process */

void title_init(int argc, char *argv[], char *envp[])
{
	argv0_len = argc > 0 ? (int)strlen(argv[0]) : 0;
	setproctitle_init(argc, argv, envp);
}

void title_set(const char *fmt, ...)
{
	int width = argv0_len + 1 - (int)strlen(getprogname()) - (int)strlen(": ");
	char text[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	setproctitle("%-*s", width > 0 ? width : 0, text);
}
