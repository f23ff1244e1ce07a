/* Describes the cause of a failure as text, so that equal causes give equal texts. groups.c counts them. */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "admin/dead_letters/cause.h"

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letter.h"

#define HEX_LEAST 8		/* a shorter run of hex digits may be a word */
#define DIGITS_KEPT 3
#define GROUPS_KEPT 3

static bool is_digit(const char *s, size_t len, size_t at)
{
	return at < len && isdigit((unsigned char)s[at]);
}

/* Returns the length of the id in hex digits that begins at s; 0: none begins there. */
static size_t hex_len(const char *s, size_t len)
{
	size_t n = 0, digits = 0;

	if (len > 2 && s[0] == '0' && s[1] == 'x' && isxdigit((unsigned char)s[2])) {
		for (n = 2; n < len && isxdigit((unsigned char)s[n]);)
			n++;
		return n;
	}
	while (n < len && (isxdigit((unsigned char)s[n]) ||
	    (n > 0 && s[n] == '-' && n + 1 < len && isxdigit((unsigned char)s[n + 1])))) {
		digits += isdigit((unsigned char)s[n]) != 0;
		n++;
	}
	return n >= HEX_LEAST && digits > 0 && (n == len || !isalpha((unsigned char)s[n])) ? n : 0;
}

/*
 * Returns the length of the number that begins at s; 0: none does. Numbers with dots or colons between them are one
 * (5.7.1, 10.0.0.17:25, 12:30:05), and so is a date. stays: it may be a code, such as 404 or 5.7.1, and not an address,
 * a time or a number of its own in each failure.
 */
static size_t number_len(const char *s, size_t len, bool *stays)
{
	size_t n = 0, groups = 0, longest = 0, colons = 0;

	while (is_digit(s, len, n)) {
		size_t begin = n;

		while (is_digit(s, len, n))
			n++;
		groups++;
		longest = n - begin > longest ? n - begin : longest;
		if (n < len && (s[n] == '.' || s[n] == ':' || (s[n] == '-' && longest > DIGITS_KEPT)) &&
		    is_digit(s, len, n + 1))
			colons += s[n++] == ':';
	}
	*stays = longest <= DIGITS_KEPT && groups <= GROUPS_KEPT && colons < 2;
	return n;
}

void cause_squeeze(char *text)
{
	char *out = text;

	for (const char *c = text; *c != '\0'; c++)
		if (!isspace((unsigned char)*c))
			*out++ = *c;
		else if (out > text && out[-1] != ' ')
			*out++ = ' ';
	if (out > text && out[-1] == ' ')
		out--;
	*out = '\0';
}

static void normalise(const char *s, size_t len, char *out, size_t size)
{
	size_t n = 0;

	for (size_t i = 0; i < len && s[i] != '\n' && n + 2 < size;) {
		bool in_word = i > 0 && isalnum((unsigned char)s[i - 1]), stays = false;
		size_t variable = in_word && !isdigit((unsigned char)s[i]) ? 0 : hex_len(s + i, len - i);

		if (variable == 0)
			variable = number_len(s + i, len - i, &stays);
		if (variable == 0)
			out[n++] = s[i];
		for (size_t k = 0; stays && k < variable && n + 2 < size; k++)
			out[n++] = s[i + k];
		if (variable > 0 && !stays && (n == 0 || out[n - 1] != '#'))
			out[n++] = '#';
		i += variable == 0 ? 1 : variable;
	}
	out[n] = '\0';
	cause_squeeze(out);
}

const char *cause_describe(const char *class, const char *exit_code, const char *signal, const char *error,
    size_t error_len, char out[CAUSE_SIZE])
{
	char line[CAUSE_SIZE / 2];

	normalise(error, error_len, line, sizeof(line));
	snprintf(out, CAUSE_SIZE, "%.40s%s%.20s%s%.20s%s%s", class[0] == '\0' ? "?" : class,
	    exit_code[0] == '\0' ? "" : " exit ", exit_code,
	    signal[0] == '\0' ? "" : " ", signal, line[0] == '\0' ? "" : ": ", line);
	return out;
}

void cause_shape(const char *cause, char out[CAUSE_SIZE])
{
	const char *line = strstr(cause, ": ");
	size_t n = line == NULL ? strlen(cause) : (size_t)(line - cause);
	bool stays;

	memcpy(out, cause, n);
	for (const char *c = cause + n; *c != '\0';) {
		size_t number = *c == '#' ? 1 : number_len(c, strlen(c), &stays);

		if (number == 0)
			out[n++] = *c;
		else if (out[n - 1] != '*')
			out[n++] = '*';
		c += number == 0 ? 1 : number;
	}
	out[n] = '\0';
}

const char *cause_of(const struct dead_letter *d, char out[CAUSE_SIZE])
{
	struct queue_bytes error = dead_letter_value(d, "error_message");

	/* The values are texts: every reply of Redis ends with a NUL. */
	return cause_describe(dead_letter_value(d, "error_class").data, dead_letter_value(d, "exit_code").data,
	    dead_letter_value(d, "signal").data, error.data, error.len, out);
}
