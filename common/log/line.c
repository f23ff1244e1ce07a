/*
 * Formats a line of the log, as logfmt or JSON, from any bytes. Every value is escaped and capped. A field is written
 * whole or not at all, so the line is always valid in its format. Uses only the caller's memory. log.c decides which
 * fields a line has and where it is written.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LIBBSD_NETBSD_VIS 1	/* this file uses neither strnvis, but the header requires a choice */
#include <bsd/string.h>
#include <bsd/vis.h>

#include "common/log/line.h"

#define TAIL 32			/* reserved for ` truncated=true`, `}` and the newline */
#define ODD_MAX 256

static void put(struct log_line *l, const char *data, size_t len)
{
	if (len > LOG_LINE_SIZE - TAIL - l->len) {
		l->full = true;
		return;
	}
	memcpy(l->text + l->len, data, len);
	l->len += len;
}

static void put_string(struct log_line *l, const char *s)
{
	put(l, s, strlen(s));
}

__attribute__((format(printf, 2, 3)))
static void put_format(struct log_line *l, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	put_string(l, text);
}

/* Length of the UTF-8 sequence at p and its code point; 0: not UTF-8 (overlong, surrogate, cut off). */
static size_t utf8_decode(const unsigned char *p, size_t len, uint32_t *point)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : p[0] < 0xf5 ? 4 : 0;
	static const unsigned char first_bits[] = { 0, 0x7f, 0x1f, 0x0f, 0x07 };
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };

	if (n == 0 || n > len)
		return 0;
	*point = p[0] & first_bits[n];
	for (size_t i = 1; i < n; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*point = *point << 6 | (p[i] & 0x3f);
	}
	if (*point < least[n] || *point > 0x10ffff || (*point >= 0xd800 && *point <= 0xdfff))
		return 0;
	return n;
}

/* False for control characters (C0, C1, DEL), and for those that reorder or hide text on a terminal. */
static bool showable(uint32_t point)
{
	return (point >= 0x20 && point < 0x7f) ||
	    (point >= 0xa0 && !(point >= 0x200b && point <= 0x200f) && !(point >= 0x2028 && point <= 0x202e) &&
		!(point >= 0x2060 && point <= 0x206f) && point != 0xfeff && !(point >= 0xfff9 && point <= 0xfffb));
}

/* Returns how many bytes from p on can be written to a logfmt line unchanged. */
static size_t plain_run(const unsigned char *p, size_t len, bool quoted)
{
	size_t i = 0, n;
	uint32_t point;

	while (i < len && (n = utf8_decode(p + i, len - i, &point)) > 0 && showable(point)) {
		if (point == '"' || point == '\\' || (!quoted && (point == ' ' || point == '=')))
			break;
		i += n;
	}
	return i;
}

/* Returns how many bytes from p on must be escaped. One plain ASCII byte after them is included, so that \\0 before a
 * digit is written as \\000. */
static size_t odd_run(const unsigned char *p, size_t len)
{
	size_t i = 1;

	while (i < len && i < ODD_MAX - 1 && plain_run(p + i, len - i, true) == 0)
		i++;
	return i < len && p[i] < 0x80 ? i + 1 : i;
}

static void put_logfmt(struct log_line *l, const unsigned char *p, size_t len)
{
	char escaped[4 * ODD_MAX + 1];
	size_t i = 0, n;

	while (i < len) {
		n = plain_run(p + i, len - i, true);
		put(l, (const char *)p + i, n);
		i += n;
		if (i == len)
			break;
		n = odd_run(p + i, len - i);
		escaped[0] = '\0';
		strvisx(escaped, (const char *)p + i, n,
		    VIS_CSTYLE | VIS_OCTAL | VIS_TAB | VIS_NL | VIS_DQ | VIS_NOLOCALE);
		put_string(l, escaped);
		i += n;
	}
}

static void put_json(struct log_line *l, const unsigned char *p, size_t len)
{
	size_t n;

	for (size_t i = 0; i < len; i += n == 0 ? 1 : n) {
		uint32_t point = 0;

		n = utf8_decode(p + i, len - i, &point);
		if (n == 0)
			put_format(l, "\\\\x%02x", p[i]);
		else if (point == '"' || point == '\\')
			put_format(l, "\\%c", (char)point);
		else if (point == '\n')
			put_string(l, "\\n");
		else if (!showable(point) && point <= 0xffff)
			put_format(l, "\\u%04x", point);
		else
			put(l, (const char *)p + i, n);
	}
}

static void put_key(struct log_line *l, const char *key)
{
	bool json = l->format == LOG_FORMAT_JSON;

	if (!l->empty)
		put_string(l, json ? "," : " ");
	if (json)
		put_string(l, "\"");
	put_string(l, key);
	put_string(l, json ? "\":" : "=");
}

static void put_value(struct log_line *l, const char *data, size_t len)
{
	const unsigned char *p = (const unsigned char *)data;
	size_t shown = len > LOG_VALUE_MAX ? LOG_VALUE_MAX : len;
	bool json = l->format == LOG_FORMAT_JSON;
	bool quoted = json || len == 0 || shown < len || plain_run(p, shown, false) < shown;

	if (quoted)
		put(l, "\"", 1);
	if (json)
		put_json(l, p, shown);
	else
		put_logfmt(l, p, shown);
	if (shown < len)
		put_format(l, "...(+%zu bytes)", len - shown);
	if (quoted)
		put(l, "\"", 1);
}

/* Writes the field whole or not at all. */
void log_line_field(struct log_line *l, struct log_field f)
{
	size_t mark = l->len;

	if (f.type != LOG_FIELD_INT && f.data == NULL)
		return;
	put_key(l, f.key);
	if (f.type == LOG_FIELD_INT)
		put_format(l, "%" PRId64, f.value);
	else
		put_value(l, f.data, f.type == LOG_FIELD_STRING ? strlen(f.data) : f.len);
	if (l->full)
		l->len = mark;
	else
		l->empty = false;
	l->truncated |= l->full;
	l->full = false;
}

void log_line_begin(struct log_line *l, enum log_format format, const char *prefix)
{
	l->format = format;
	l->len = 0;
	l->empty = true;
	l->full = l->truncated = false;
	put_string(l, prefix);
	if (format == LOG_FORMAT_JSON)
		put(l, "{", 1);
}

void log_line_end(struct log_line *l)
{
	bool json = l->format == LOG_FORMAT_JSON;
	const char *mark = json ? ",\"truncated\":true" : " truncated=true";

	if (l->truncated) {
		memcpy(l->text + l->len, mark, strlen(mark));
		l->len += strlen(mark);
	}
	if (json)
		l->text[l->len++] = '}';
	l->text[l->len++] = '\n';
	l->text[l->len] = '\0';
}
