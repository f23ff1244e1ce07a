/* Breaks text into lines at blanks: the cells of a table, notices, help, and the findings of doctor. */
#include <sys/ioctl.h>

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/cli/wrap.h"

#include "admin/cli/visible.h"
#include "common/base/base.h"

#define USUAL_WIDTH 80
#define NARROWEST 20		/* columns beside an indent; fewer: there is no indent */

size_t wrap_width(FILE *file)
{
	struct winsize size;

	if (isatty(fileno(file)) != 1)
		return SIZE_MAX;
	return ioctl(fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : USUAL_WIDTH;
}

size_t wrap_page_width(FILE *file)
{
	size_t width = wrap_width(file);

	return width == SIZE_MAX ? USUAL_WIDTH : width;
}

size_t wrap_cell(const char *text, size_t width)
{
	size_t fit = visible_fit(text, width), blank = fit;

	if (text[fit] == '\0')
		return fit;
	while (blank > 0 && text[blank] != ' ')
		blank--;
	return blank > 0 ? blank : fit > 0 ? fit : 1;
}

/* ---- whole words and commands ---- */

static size_t word_len(const char *s)
{
	return strcspn(s, " \n");
}

static bool begins_command(const char *s)
{
	static const char *const programs[] =
	    { "quredis ", "quredisd -", "redis-cli ", "systemctl ", "runuser ", "chmod " };

	for (size_t i = 0; i < nitems(programs); i++)
		if (strncmp(s, programs[i], strlen(programs[i])) == 0)
			return true;
	return false;
}

/* The quote that is open behind a word of a shell: ' or ", or 0. */
static char quote_after(const char *word, size_t len, char quote)
{
	for (size_t i = 0; i < len; i++)
		if (quote == 0 ? word[i] == '\'' || word[i] == '"' : word[i] == quote)
			quote = quote == 0 ? word[i] : 0;
	return quote;
}

/* A command ends with punctuation outside quotes, or with the line. */
static size_t command_len(const char *s)
{
	size_t end = 0;
	char quote = 0;

	for (;;) {
		size_t len = word_len(s + end);

		quote = quote_after(s + end, len, quote);
		end += len;
		if (s[end] != ' ' || (quote == 0 && len > 0 && strchr(",;:.)", s[end - 1]) != NULL))
			return end;
		end++;
	}
}

static size_t columns_of(const char *s, size_t len)
{
	char *copy = alloc_copy(s, len);
	size_t columns = visible_columns(copy);

	free(copy);
	return columns;
}

void wrap_write(FILE *out, const char *text, size_t at, size_t indent, size_t width)
{
	bool is_first = true;		/* of this text on its line */

	if (width < indent + NARROWEST)
		indent = 0;
	while (*text != '\0') {
		size_t len = begins_command(text) ? command_len(text) : word_len(text), columns = columns_of(text, len);

		if (at > indent && at + !is_first + columns > width) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
			is_first = true;
		}
		fprintf(out, "%s%.*s", is_first ? "" : " ", (int)len, text);
		at += columns + !is_first;
		is_first = text[len] == '\n';
		if (is_first) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		}
		text += len + (text[len] != '\0');
	}
}
