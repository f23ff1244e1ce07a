/*
 * Makes keys of the bytes that a terminal sends. Arrows and their neighbours are escape sequences (ECMA-48: ESC [
 * parameters final byte; some terminals send ESC O final byte), which a slow line may deliver in pieces.
 */
#include <string.h>

#include "admin/top/top.h"

#include "common/base/base.h"

#define ESC '\033'
#define SEQUENCE_MAX 32		/* a longer one is none */

/* after ESC and [ or O, without what modifiers add */
static const struct { const char *sequence; int key; } sequences[] = {
	{ "A", TOP_KEY_UP }, { "B", TOP_KEY_DOWN }, { "H", TOP_KEY_HOME }, { "F", TOP_KEY_END }, { "M", TOP_KEY_ENTER },
	{ "5~", TOP_KEY_PAGE_UP }, { "6~", TOP_KEY_PAGE_DOWN }, { "1~", TOP_KEY_HOME }, { "7~", TOP_KEY_HOME },
	{ "4~", TOP_KEY_END }, { "8~", TOP_KEY_END },
};

static const struct { char byte; int key; } controls[] = {
	{ '\r', TOP_KEY_ENTER }, { '\n', TOP_KEY_ENTER }, { 'F' & 0x1f, TOP_KEY_PAGE_DOWN },
	{ 'B' & 0x1f, TOP_KEY_PAGE_UP },
	{ 'C' & 0x1f, 'q' }, { 'L' & 0x1f, 'L' },
};

void top_keys_add(struct top_keys *k, const char *bytes, size_t n)
{
	buffer_append(&k->bytes, bytes, n);
}

void top_keys_free(struct top_keys *k)
{
	buffer_free(&k->bytes);
}

/* TOP_KEY_NONE: a byte without a meaning, as one of a UTF-8 character. */
static int key_of_byte(char byte)
{
	for (size_t i = 0; i < nitems(controls); i++)
		if (controls[i].byte == byte)
			return controls[i].key;
	return byte >= ' ' && byte <= '~' ? byte : TOP_KEY_NONE;
}

/* The length of the sequence at the beginning. 0: it is incomplete; 1: ESC begins none. */
static size_t sequence_len(const char *bytes, size_t n)
{
	size_t i = 2;

	if (n == 1)
		return 0;
	if (bytes[1] != '[' && bytes[1] != 'O')
		return 1;
	while (i < n && i < SEQUENCE_MAX && bytes[i] >= ' ' && bytes[i] < '@')
		i++;
	if (i == n)
		return 0;
	return i < SEQUENCE_MAX && bytes[i] >= '@' && bytes[i] <= '~' ? i + 1 : i;
}

/* "1;5A" and "5;2~": an arrow with Ctrl, and PgUp with Shift, are as without. */
static int key_of_sequence(const char *body, size_t len)
{
	char plain[SEQUENCE_MAX + 1];
	size_t digits = strspn(body, "0123456789");

	if (len < 1)
		return TOP_KEY_NONE;
	if (body[len - 1] == '~')
		snprintf(plain, sizeof(plain), "%.*s~", (int)digits, body);
	else
		snprintf(plain, sizeof(plain), "%c", body[len - 1]);
	for (size_t i = 0; i < nitems(sequences); i++)
		if (strcmp(sequences[i].sequence, plain) == 0)
			return sequences[i].key;
	return TOP_KEY_NONE;
}

static int take_sequence(struct top_keys *k, size_t len)
{
	char body[SEQUENCE_MAX + 1] = "";
	int key = TOP_KEY_ESCAPE;

	if (len > 1) {
		memcpy(body, k->bytes.data + 2, len - 2);
		key = key_of_sequence(body, len - 2);
	}
	buffer_consume(&k->bytes, len);
	return key;
}

int top_keys_next(struct top_keys *k, bool late)
{
	int key = TOP_KEY_NONE;

	while (key == TOP_KEY_NONE && k->bytes.len > 0) {
		if (k->bytes.data[0] != ESC) {
			key = key_of_byte(k->bytes.data[0]);
			buffer_consume(&k->bytes, 1);
			continue;
		}
		if (top_keys_is_incomplete(k)) {
			if (!late)
				return TOP_KEY_NONE;
			buffer_clear(&k->bytes);
			return TOP_KEY_ESCAPE;
		}
		key = take_sequence(k, sequence_len(k->bytes.data, k->bytes.len));
	}
	return key;
}

bool top_keys_is_incomplete(const struct top_keys *k)
{
	return k->bytes.len > 0 && k->bytes.data[0] == ESC && sequence_len(k->bytes.data, k->bytes.len) == 0;
}
