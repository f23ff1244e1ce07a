/* Parses the lines before payloads: "quredis/1 key=value key=value". Bytes of another form are not such a line. */
#include <string.h>

#include <bsd/stdlib.h>

#include "common/message/line.h"

#include "common/base/base.h"

#define KEY_MAX 32

/* "key=value". The first occurrence of a key is the only one allowed. */
static int parse_pair(struct message_line *line, char *s)
{
	char *eq = strchr(s, '=');
	struct message_pair *p = &line->pairs[line->npairs];

	if (eq == NULL || line->npairs == MESSAGE_PAIRS_MAX)
		return -1;
	*eq = '\0';
	p->key = s;
	p->value = eq + 1;
	if (eq == s || eq - s > KEY_MAX || s[strspn(s, "abcdefghijklmnopqrstuvwxyz_")] != '\0' ||
	    p->value[strspn(p->value, MESSAGE_VALUE_BYTES)] != '\0')
		return -1;
	for (size_t i = 0; i < line->npairs; i++)
		if (strcmp(line->pairs[i].key, p->key) == 0)
			return -1;
	line->npairs++;
	return 0;
}

/* text: "key=value key=value". NULs are written into it */
static int parse_pairs(struct message_line *line, char *text)
{
	while (text != NULL) {
		char *pair = strsep(&text, " ");

		if (parse_pair(line, pair) == -1)
			return -1;
	}
	return 0;
}

/* Copies len bytes. false: they do not fit, or hold a NUL. */
static bool copy_text(struct message_line *line, const char *data, size_t len)
{
	if (len >= sizeof(line->text))
		return false;
	memcpy(line->text, data, len);
	line->text[len] = '\0';
	return strlen(line->text) == len;
}

void message_line_parse(struct message_line *line, const char *data, size_t len)
{
	size_t before = strlen(MESSAGE_VERSION " ");
	const char *newline;

	line->len = line->npairs = 0;
	if (len < before || memcmp(data, MESSAGE_VERSION " ", before) != 0)
		return;
	newline = memchr(data, '\n', len < MESSAGE_LINE_MAX ? len : MESSAGE_LINE_MAX);
	if (newline == NULL)
		return;
	len = (size_t)(newline - data);
	if (copy_text(line, data, len) && parse_pairs(line, line->text + before) == 0)
		line->len = len + 1;
}

int message_line_parse_pairs(struct message_line *line, const char *data, size_t len)
{
	line->len = line->npairs = 0;
	return len > 0 && copy_text(line, data, len) ? parse_pairs(line, line->text) : -1;
}

const char *message_line_value(const struct message_line *line, const char *key)
{
	for (size_t i = 0; i < line->npairs; i++)
		if (strcmp(line->pairs[i].key, key) == 0)
			return line->pairs[i].value;
	return NULL;
}

int message_line_number(const struct message_line *line, const char *key, int64_t max, int64_t *out)
{
	const char *value = message_line_value(line, key), *why = NULL;
	long long n;

	if (value == NULL)
		return 0;
	if (value[0] < '0' || value[0] > '9')
		return -1;
	n = strtonum(value, 0, max, &why);
	if (why != NULL)
		return -1;
	*out = n;
	return 0;
}

int message_line_duration(const struct message_line *line, const char *key, int64_t *out)
{
	const char *value = message_line_value(line, key);

	return value == NULL ? 0 : units_parse_duration(value, out);
}

size_t message_line_offset(const struct message_line *line, const struct message_pair *p)
{
	return (size_t)(p->key - line->text);
}
