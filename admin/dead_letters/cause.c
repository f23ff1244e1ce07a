/* Describes the cause of a failure as text, so that equal causes give equal texts. dead_letters/stats.c counts them. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "admin/dead_letters/cause.h"

#include "admin/cli/cli.h"

#define HEX_LEAST 8		/* a shorter run of hex digits may be a word */

/* Returns the length of the number or id that begins at s; 0: none begins there. */
static size_t variable_len(const char *s, size_t len)
{
	size_t n = 0, digits = 0;

	while (n < len && (isxdigit((unsigned char)s[n]) || (n > 0 && s[n] == '-' && n + 1 < len && isxdigit((unsigned char)s[n + 1])))) {
		digits += isdigit((unsigned char)s[n]) != 0;
		n++;
	}
	if (n >= HEX_LEAST && digits > 0 && (n == len || !isalpha((unsigned char)s[n])))
		return n;
	for (n = 0; n < len && isdigit((unsigned char)s[n]);)
		n++;
	return n;
}

static void normalise(const char *s, size_t len, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && s[i] != '\n' && n + 2 < size;) {
		bool in_word = i > 0 && isalnum((unsigned char)s[i - 1]);
		size_t variable = in_word && !isdigit((unsigned char)s[i]) ? 0 : variable_len(s + i, len - i);

		if (variable == 0)
			out[n++] = isspace((unsigned char)s[i]) ? ' ' : s[i];
		else if (n == 0 || out[n - 1] != '#')
			out[n++] = '#';
		i += variable == 0 ? 1 : variable;
	}
	out[n] = '\0';
}

const char *cause_describe(const char *class, const char *exit_code, const char *signal, const char *error, size_t error_len,
    char out[CAUSE_SIZE])
{
	char line[CAUSE_SIZE / 2];

	normalise(error, error_len, line, sizeof(line));
	snprintf(out, CAUSE_SIZE, "%.40s%s%.20s%s%.20s%s%s", class[0] == '\0' ? "?" : class, exit_code[0] == '\0' ? "" : " exit ", exit_code,
	    signal[0] == '\0' ? "" : " ", signal, line[0] == '\0' ? "" : ": ", line);
	return out;
}
