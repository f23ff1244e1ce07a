/*
 * Writes and reads the pairs of a wrapper that say why the last attempt failed: failed (its time), class, exit, signal,
 * why (the error). The text may have any bytes, and a value of a line may not: each byte that is no letter, digit, or
 * one of . _ : - stands as + and two hex digits. So an operator can read it in Redis, too.
 */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include <bsd/string.h>

#include "common/message/failure.h"

#include "common/base/base.h"
#include "common/message/line.h"

#define PLAIN_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"

static bool is_plain(char c)
{
	return c != '\0' && strchr(PLAIN_BYTES, c) != NULL;
}

static void set_name(char *out, size_t size, const char *name)
{
	strlcpy(out, name == NULL ? "" : name, size);
	for (; *out != '\0'; out++)
		if (!is_plain(*out))
			*out = '_';
}

/* Cuts the text between two characters of UTF-8. */
static void set_text(char out[MESSAGE_FAILURE_TEXT_MAX + 1], const char *text)
{
	size_t len = text == NULL ? 0 : strlen(text);

	if (len > MESSAGE_FAILURE_TEXT_MAX)
		for (len = MESSAGE_FAILURE_TEXT_MAX; len > 0 && (text[len] & 0xc0) == 0x80; len--)
			;
	for (size_t i = 0; i < len; i++)
		out[i] = iscntrl((unsigned char)text[i]) ? ' ' : text[i];
	out[len] = '\0';
}

void message_failure_set(struct message_failure *f, int64_t at_ms, const char *class, int exit_code, const char *signal,
    const char *text)
{
	f->at_ms = at_ms;
	f->exit_code = exit_code < 0 ? -1 : exit_code;
	set_name(f->class, sizeof(f->class), class);
	set_name(f->signal, sizeof(f->signal), signal);
	set_text(f->text, text);
}

static void append_name(struct buffer *out, const char *key, const char *value)
{
	if (value[0] != '\0')
		buffer_format(out, " %s=%s", key, value);
}

void message_failure_append(struct buffer *out, const struct message_failure *f)
{
	if (f->at_ms <= 0)
		return;
	buffer_format(out, " failed=%" PRId64, f->at_ms);
	append_name(out, "class", f->class);
	if (f->exit_code >= 0)
		buffer_format(out, " exit=%d", f->exit_code);
	append_name(out, "signal", f->signal);
	if (f->text[0] != '\0')
		buffer_format(out, " why=");
	for (const char *c = f->text; *c != '\0'; c++)
		buffer_format(out, is_plain(*c) ? "%c" : "+%02x", (unsigned char)*c);
}

static int parse_name(const struct message_line *line, const char *key, char *out, size_t size)
{
	const char *value = message_line_value(line, key);

	return strlcpy(out, value == NULL ? "" : value, size) < size && strchr(out, '+') == NULL ? 0 : -1;
}

static int hex_digit(char c)
{
	return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_text(const char *value, char out[MESSAGE_FAILURE_TEXT_MAX + 1])
{
	size_t n = 0;

	for (; value != NULL && *value != '\0'; value++) {
		int high, low;

		if (n == MESSAGE_FAILURE_TEXT_MAX)
			return -1;
		if (*value != '+') {
			out[n++] = *value;
			continue;
		}
		high = hex_digit(value[1]);
		low = high == -1 ? -1 : hex_digit(value[2]);
		if (low == -1 || iscntrl(16 * high + low))
			return -1;
		out[n++] = (char)(16 * high + low);
		value += 2;
	}
	out[n] = '\0';
	return 0;
}

void message_failure_parse(struct message_failure *f, const struct message_line *line)
{
	int64_t exit_code = -1;

	*f = (struct message_failure){ .exit_code = -1 };
	if (message_line_value(line, "failed") == NULL)
		return;
	if (message_line_number(line, "failed", INT64_MAX, &f->at_ms) == -1 ||
	    message_line_number(line, "exit", INT32_MAX, &exit_code) == -1 ||
	    parse_name(line, "class", f->class, sizeof(f->class)) == -1 ||
	    parse_name(line, "signal", f->signal, sizeof(f->signal)) == -1 ||
	    parse_text(message_line_value(line, "why"), f->text) == -1) {
		*f = (struct message_failure){ .exit_code = -1 };
		return;
	}
	f->exit_code = (int)exit_code;
}
