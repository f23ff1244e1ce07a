/* Prints lines for people: notices, errors, what a command did, and suggestions for words that were misspelled. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/cli/notice.h"

#include "admin/cli/visible.h"
#include "admin/cli/wrap.h"
#include "common/base/base.h"

#define INDENT 2		/* of further lines */
#define SUGGESTIONS_MAX 3

static struct buffer *kept_lines;	/* NULL: lines go to standard error */

void notice_keep(struct buffer *lines)
{
	kept_lines = lines;
}

/* Names of keys and errors of Redis are untrusted: control characters in them must not reach the terminal. */
void notice_print_args(const char *prefix, const char *fmt, va_list ap)
{
	char *text = NULL, *shown;

	if (vasprintf(&text, fmt, ap) == -1)
		return;
	shown = visible_line(text);
	if (kept_lines != NULL) {
		buffer_format(kept_lines, "%s%s\n", prefix, shown);
	} else {
		fflush(stdout);
		fputs(prefix, stderr);
		wrap_write(stderr, shown, strlen(prefix), INDENT, wrap_width(stderr));
		fputc('\n', stderr);
	}
	free(shown);
	free(text);
}

void notice_print(const char *prefix, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	notice_print_args(prefix, fmt, ap);
	va_end(ap);
}

void notice_say(const char *fmt, ...)
{
	char *text, *shown;
	va_list ap;

	va_start(ap, fmt);
	text = alloc_format_args(fmt, ap);
	va_end(ap);
	shown = visible_line(text);
	puts(shown);
	free(shown);
	free(text);
}

char *notice_suggest(const char *word, const char *const *known, size_t n, const char *before)
{
	const char *near[SUGGESTIONS_MAX];
	size_t found = nearest_all(word, known, n, near, nitems(near));
	struct buffer text = {0};

	for (size_t i = 0; i < found; i++)
		buffer_format(&text, "%s%s%s", i == 0 ? " (did you mean " : i + 1 < found ? ", " : " or ", before,
		    near[i]);
	if (found > 0)
		buffer_append(&text, "?)", 2);
	buffer_append(&text, "", 1);
	return text.data;
}
