/*
 * Makes untrusted bytes safe for a terminal, and measures how many columns they take. All text from Redis passes
 * through here before it is printed; JSON has its own escaping. Every function returns a new string or changes its
 * argument in place.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <wchar.h>

#define LIBBSD_NETBSD_VIS 1	/* this file uses neither strnvis, but the header requires a choice */
#include <bsd/vis.h>

#include "admin/cli/visible.h"

#include "common/base/base.h"

/*
 * The length of the character at s, if it can be printed unchanged; else 0. A character of zero width cannot: it could
 * reorder or hide the characters beside it.
 */
static size_t printable(const char *s, size_t len, size_t *columns)
{
	mbstate_t state = {0};
	wchar_t wide;
	size_t n = mbrtowc(&wide, s, len, &state);
	int width;

	if (n == 0 || n == (size_t)-1 || n == (size_t)-2 || wide == L'\\')
		return 0;
	width = wcwidth(wide);
	if (width <= 0)		/* -1: control characters */
		return 0;
	*columns = (size_t)width;
	return n;
}

/*
 * backslash: keeps a backslash as it is, for a line of quredis. Otherwise it is doubled, so that bytes which look like
 * an escape sequence cannot be mistaken for one.
 */
static char *escape_bytes(const char *s, size_t len, size_t max_columns, bool backslash)
{
	struct buffer out = {0};
	size_t columns = 0;

	buffer_append(&out, "", 1);
	out.len = 0;
	for (size_t i = 0, n; i < len; i += n) {
		char escaped[8];
		size_t width = 0;

		if (columns > max_columns)
			break;		/* one column more than fits is enough: the code below cuts it */
		n = printable(s + i, len - i, &width);
		if (backslash && s[i] == '\\')
			n = width = 1;
		if (n > 0) {
			buffer_append(&out, s + i, n);
		} else {
			n = 1;
			width = (size_t)(vis(escaped, (unsigned char)s[i],
			    VIS_CSTYLE | VIS_OCTAL | VIS_NL | VIS_TAB | VIS_NOLOCALE,
			    i + 1 < len ? (unsigned char)s[i + 1] : 0) - escaped);
			buffer_append(&out, escaped, width);
		}
		columns += width;
	}
	buffer_append(&out, "", 1);
	if (columns > max_columns)
		visible_cut(out.data, max_columns);
	return out.data;
}

char *visible(const void *data, size_t len, size_t max_columns)
{
	return escape_bytes(data, len, max_columns, false);
}

char *visible_line(const char *line)
{
	return escape_bytes(line, strlen(line), SIZE_MAX, true);
}

/* The number of bytes of s that fit, and their width in *columns. */
static size_t bytes_that_fit(const char *s, size_t max_columns, size_t *columns)
{
	const char *end = s;

	*columns = 0;
	for (size_t len = strlen(s), n; len > 0; end += n, len -= n) {
		size_t width = 1;

		n = printable(end, len, &width);
		if (n == 0)
			n = 1;
		if (*columns + width > max_columns)
			break;
		*columns += width;
	}
	return (size_t)(end - s);
}

size_t visible_columns(const char *s)
{
	size_t columns;

	bytes_that_fit(s, SIZE_MAX, &columns);
	return columns;
}

size_t visible_fit(const char *s, size_t max_columns)
{
	size_t columns;

	return bytes_that_fit(s, max_columns, &columns);
}

void visible_cut(char *s, size_t max_columns)
{
	size_t dots = max_columns < 3 ? max_columns : 3;
	char *end;

	if (visible_columns(s) <= max_columns)
		return;
	end = s + visible_fit(s, max_columns - dots);
	memset(end, '.', dots);		/* the dots fit: the part that was cut off is at least as long */
	end[dots] = '\0';
}
