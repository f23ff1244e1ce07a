/*
 * Bytes of strangers made fit for a terminal, and how wide that is. Everything that came out of
 * Redis goes through here before it is shown as text; JSON has its own escaping.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#define LIBBSD_NETBSD_VIS 1	/* neither strnvis is used; says so to the header */
#include <bsd/vis.h>

#include "admin/visible.h"

#include "common/buffer.h"

/* Bytes of the character at s that may pass as they are; 0: none. Nothing of zero width passes:
 * such characters reorder or hide what stands beside them. */
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

/* A backslash is doubled, or what it makes visible could have been there as it is shown. In our own lines it stands for itself. */
static char *escape(const char *s, size_t len, size_t max_columns, bool backslash)
{
	struct buffer out = {0};
	size_t columns = 0;

	buffer_append(&out, "", 1);
	out.len = 0;
	for (size_t i = 0, n; i < len; i += n) {
		char escaped[8];
		size_t width = 0;

		if (columns > max_columns)
			break;		/* one more than fits: cut below */
		n = printable(s + i, len - i, &width);
		if (backslash && s[i] == '\\')
			n = width = 1;
		if (n > 0) {
			buffer_append(&out, s + i, n);
		} else {
			n = 1;
			width = (size_t)(vis(escaped, (unsigned char)s[i], VIS_CSTYLE | VIS_OCTAL | VIS_NL | VIS_TAB | VIS_NOLOCALE,
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
	return escape(data, len, max_columns, false);
}

char *visible_line(const char *line)
{
	return escape(line, strlen(line), SIZE_MAX, true);
}

/* How many bytes of s fit, and how wide those are. */
static size_t fit(const char *s, size_t max_columns, size_t *columns)
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

	fit(s, SIZE_MAX, &columns);
	return columns;
}

size_t visible_fit(const char *s, size_t max_columns)
{
	size_t columns;

	return fit(s, max_columns, &columns);
}

void visible_cut(char *s, size_t max_columns)
{
	size_t dots = max_columns < 3 ? max_columns : 3;
	char *end;

	if (visible_columns(s) <= max_columns)
		return;
	end = s + visible_fit(s, max_columns - dots);
	memset(end, '.', dots);		/* what was cut off is at least as long */
	end[dots] = '\0';
}
