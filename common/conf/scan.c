/*
 * Scans the text for input that libconfig 1.5 refuses without naming the right form, or accepts and misreads: integers
 * beyond 31 bits (they wrap), an unterminated comment (the rest of the file is ignored), unknown escapes and NULs in
 * strings (dropped), and @include (refused, since files are merged from conf.d). The scanner is not a parser: it knows
 * only where comments, strings, words and numbers begin and end.
 */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"
#include "common/conf/types.h"

struct scan {
	struct conf_loading *l;
	struct conf_source *source;
	const char *p;
	int line;
	const char *word;	/* the last word: the key, if a value follows */
	int word_len;
	bool comma;		/* the last token was a comma */
	bool array;		/* inside of [ ] */
	bool list;		/* ( was the last bracket before it */
	char first;		/* array: its first value is a '"' string, '0' number, 'a' word; 0: none yet */
	bool fatal;
};

static struct conf_origin at(const struct scan *s, int line)
{
	return (struct conf_origin){ CONF_ORIGIN_FILE, line, s->source->name };
}

static void fatal(struct scan *s, int line, const char *what)
{
	struct conf_origin where = at(s, line);

	conf_error(s->l, &where, "%s", what);
	s->fatal = true;
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '*';
}

static void skip_line(struct scan *s)
{
	while (*s->p != '\0' && *s->p != '\n')
		s->p++;
}

static void skip_comment(struct scan *s)
{
	int first = s->line;

	for (s->p += 2; *s->p != '\0'; s->p++) {
		if (s->p[0] == '*' && s->p[1] == '/') {
			s->p += 2;
			return;
		}
		s->line += *s->p == '\n';
	}
	fatal(s, first, "unterminated comment: no */ follows");
}

static void check_escape(struct scan *s)
{
	struct conf_origin where = at(s, s->line);
	char c = s->p[1];

	if (c == 'x' && s->p[2] == '0' && s->p[3] == '0')
		conf_error(s->l, &where, "\\x00 is not allowed in a string");
	else if (c == 'x' ? !isxdigit((unsigned char)s->p[2]) || !isxdigit((unsigned char)s->p[3]) :
	    c != '\0' && strchr("nrtf\\\"", c) == NULL)
		conf_error(s->l, &where, "unknown escape \\%c in a string (a backslash is written \\\\)",
		    isprint((unsigned char)c) ? c : '?');
}

static void skip_string(struct scan *s)
{
	int first = s->line;

	for (s->p++; *s->p != '\0'; s->p++) {
		if (*s->p == '"') {
			s->p++;
			return;
		}
		if (*s->p == '\\') {
			check_escape(s);
			s->p += s->p[1] != '\0';
		}
		s->line += *s->p == '\n';
	}
	fatal(s, first, "unterminated string: no \" follows");
}

static void report_wrapped(struct scan *s, const char *start, int len)
{
	struct conf_origin where = at(s, s->line);
	struct conf_source *src = s->source;

	conf_error(s->l, &where,
	    "the integer %.*s is too large (write an L after a number beyond 31 bits; write durations and sizes as "
	    "strings, \"7d\" \"5G\")", len, start);
	src->wrapped = alloc_resize(src->wrapped, src->nwrapped + 1, sizeof(*src->wrapped));
	src->wrapped[src->nwrapped++] = s->line;
}

static bool is_last_part(const char *path, const char *word, int len)
{
	const char *dot = strrchr(path, '.'), *last = dot == NULL ? path : dot + 1;

	return strlen(last) == (size_t)len && strncmp(last, word, (size_t)len) == 0;
}

/*
 * Describes the values of the key whose path ends with this word; a new string. NULL: there is no such key, or several
 * with different values: the scanner does not know the group of the word.
 */
static char *expected_of(const char *word, int len)
{
	const struct conf_schema *queue = &conf_schema_queue, *global = &conf_schema_global;
	char *expected = NULL;

	for (size_t i = 0; i < queue->n + global->n; i++) {
		const struct conf_key *key = i < queue->n ? &queue->keys[i] : &global->keys[i - queue->n];
		char *more;

		if (!is_last_part(key->path, word, len))
			continue;
		more = conf_value_expected(key);
		if (expected != NULL && strcmp(expected, more) != 0) {
			free(expected);
			free(more);
			return NULL;
		}
		free(expected);
		expected = more;
	}
	return expected;
}

/* A number with letters behind it, such as 60s without quotes. */
static void report_unit(struct scan *s, const char *start)
{
	const struct conf_origin where = at(s, s->line);
	char *expected = s->word == NULL ? NULL : expected_of(s->word, s->word_len);
	int len;

	while (is_word(*s->p))
		s->p++;
	len = (int)(s->p - start);
	if (expected != NULL)
		conf_error(s->l, &where, "%.*s: expected %s, not %.*s", s->word_len, s->word, expected, len, start);
	else
		conf_error(s->l, &where, "%.*s: write a number with a unit in quotes, as \"60s\" or \"64K\"", len,
		    start);
	free(expected);
	s->fatal = true;
}

/* Values of several types in [ ], such as rate = [5, "1s"]. */
static void report_mixed(struct scan *s)
{
	const struct conf_origin where = at(s, s->line);
	char *expected = s->word == NULL ? NULL : expected_of(s->word, s->word_len);

	if (s->list && s->word != NULL)
		conf_error(s->l, &where, "%.*s: in ( ) each value is a group { name = \"...\"; }, not [ ]",
		    s->word_len, s->word);
	else if (expected != NULL)
		conf_error(s->l, &where, "%.*s: expected %s, not values of several types", s->word_len, s->word,
		    expected);
	else
		conf_error(s->l, &where, "all values in [ ] must have one type: write them in quotes, or all without");
	free(expected);
	s->array = false;
	s->fatal = true;
}

static void look_at_value(struct scan *s, char begins)
{
	if (!s->array)
		return;
	if (s->first != 0 && s->first != begins)
		report_mixed(s);
	s->first = begins;
}

static void skip_number(struct scan *s)
{
	const char *start = s->p;
	bool hex = start[0] == '0' && (start[1] == 'x' || start[1] == 'X');
	char *end;
	long long n;

	errno = 0;
	n = strtoll(start, &end, hex ? 16 : 10);
	s->p = end;
	if (!hex && (*end == '.' || *end == 'e' || *end == 'E')) {
		strtod(start, &end);
		s->p = end;
		return;
	}
	if (errno == ERANGE || (*end != 'L' && (n > INT_MAX || n < INT_MIN)))
		report_wrapped(s, start, (int)(end - start));
	while (*s->p == 'L')
		s->p++;
	if (is_word(*s->p))
		report_unit(s, start);
}

static void skip_word(struct scan *s)
{
	const char *start = s->p;

	while (is_word(*s->p))
		s->p++;
	if (s->array)
		return;
	s->word = start;
	s->word_len = (int)(s->p - start);
}

static void skip_punctuation(struct scan *s)
{
	if (s->comma && (*s->p == ')' || *s->p == ']'))
		fatal(s, s->line, "a comma before the end of a list: remove it");
	if (strncmp(s->p, "@include", 8) == 0)
		fatal(s, s->line, "@include is not supported: quredis reads the *.conf files in conf.d without it");
	s->comma = *s->p == ',';
	if (!s->comma) {	/* a [ without a ] is a syntax error, and no array */
		s->array = *s->p == '[';
		s->list = *s->p == '(' || (s->list && (*s->p == '[' || *s->p == ']'));
		s->first = 0;
	}
	s->p++;
}

static void skip_token(struct scan *s)
{
	bool digit = isdigit((unsigned char)s->p[s->p[0] == '-' || s->p[0] == '+']) ||
	    (*s->p == '.' && isdigit((unsigned char)s->p[1]));

	if (digit || *s->p == '"' || is_word(*s->p))
		look_at_value(s, digit ? '0' : *s->p == '"' ? '"' : 'a');
	if (*s->p == '"')
		skip_string(s);
	else if (digit)
		skip_number(s);
	else if (is_word(*s->p))
		skip_word(s);
	else {
		skip_punctuation(s);
		return;
	}
	s->comma = false;
}

int conf_scan(struct conf_loading *l, struct conf_source *source)
{
	struct scan s = { .l = l, .source = source, .p = source->text, .line = 1 };

	if (strncmp(s.p, "\xef\xbb\xbf", 3) == 0) {
		fatal(&s, 1, "begins with a byte order mark of UTF-8: save it without one");
		s.p += 3;
	}
	while (*s.p != '\0') {
		if (*s.p == '\n') {
			s.line++;
			s.p++;
		} else if (isspace((unsigned char)*s.p)) {
			s.p++;
		} else if (*s.p == '#' || (s.p[0] == '/' && s.p[1] == '/')) {
			skip_line(&s);
		} else if (s.p[0] == '/' && s.p[1] == '*') {
			skip_comment(&s);
		} else {
			skip_token(&s);
		}
	}
	if ((size_t)(s.p - source->text) != source->len)
		fatal(&s, s.line, "the file contains a NUL byte");
	return s.fatal ? -1 : 0;
}
