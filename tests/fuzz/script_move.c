/* Calls of the scripts that move one message, read from their arguments: common/queue/scripts/shared/entry.lua. */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/script_move.h"

#include "common/message/message.h"
#include "common/base/nitems.h"

#define ENTRY_ARGS 4		/* at len head tail */

/* Where each script has its arguments, counted from ARGV[1] as 0; -1: it has none. */
static const struct layout {
	const char *script;
	int entry, line, strip;
	size_t nkeys;		/* with one more, the last is the notes' key */
	size_t nargs;		/* at least */
} layouts[] = {
	{ "retry", 1, 5, 6, 4, 8 },
	{ "hand_back", 1, 5, 6, 4, 11 },
	{ "return", 0, 4, 5, 3, 6 },
	{ "redrive", 0, 4, 5, 5, 7 },
	{ "escape", 1, 6, 7, 5, 12 },
	{ "done", 1, -1, -1, 3, 10 },
};

static const struct layout *layout_of(const struct fake_command *c)
{
	for (size_t i = 0; c->script != NULL && i < nitems(layouts); i++)
		if (strcmp(layouts[i].script, c->script) == 0)
			return &layouts[i];
	return NULL;
}

static int64_t number_at(const struct fake_command *c, size_t i)
{
	char *end;
	int64_t n = strtoll(c->argv[i], &end, 10);

	FUZZ_ASSERT(c->len[i] > 0 && *end == '\0' && end == c->argv[i] + c->len[i]);
	return n;
}

static void read_entry(struct script_move *m, const struct fake_command *c, size_t at)
{
	m->by_place = c->len[at] > 0;
	m->head = c->argv[at + 2];
	m->head_len = c->len[at + 2];
	m->tail = c->argv[at + 3];
	m->tail_len = c->len[at + 3];
	m->len = m->head_len;
	if (!m->by_place) {
		FUZZ_ASSERT(c->len[at + 1] == 0 && m->tail_len == 0);
		return;
	}
	m->at = strtoll(c->argv[at], NULL, 10);		/* the length of the list may follow */
	m->len = (size_t)number_at(c, at + 1);
	FUZZ_ASSERT(m->head_len + m->tail_len <= m->len);
	/* A wrapper is in the head, whole. */
	FUZZ_ASSERT(m->head_len == m->len || m->head_len >= MESSAGE_LINE_MAX);
}

/* Others must be able to read what comes to lie there, and never more than one wrapper comes before a message. */
static void check_change(const struct script_move *m, const struct message_keys *keys)
{
	struct buffer result = {0};
	struct message before, after;

	if (keys == NULL) {
		FUZZ_ASSERT(m->line_len == 0 || (strncmp(m->line, "quredis/1 w=", 12) == 0 && m->line[m->line_len - 1] == '\n'));
		return;
	}
	message_parse(&before, keys, m->head, m->head_len);
	if (m->line_len == 0) {
		FUZZ_ASSERT(m->strip == before.wrapper_len || (m->strip == 0 && m->changes && !m->noted));
		return;
	}
	FUZZ_ASSERT(m->strip == before.wrapper_len && !m->noted);
	script_move_result(m, m->head, m->head_len, &result);
	message_parse(&after, keys, result.data, result.len);
	FUZZ_ASSERT(after.wrapper_len == m->line_len);
	buffer_free(&result);
}

bool script_move_read(const struct fake_command *c, const struct message_keys *keys, struct script_move *m)
{
	const struct layout *layout = layout_of(c);
	size_t nkeys, args;

	if (layout == NULL)
		return false;
	nkeys = strtoul(c->argv[2], NULL, 10);
	args = 3 + nkeys;
	FUZZ_ASSERT(nkeys >= layout->nkeys && nkeys <= layout->nkeys + 1 && c->words >= args + layout->nargs);
	*m = (struct script_move){ .list = c->argv[4], .changes = layout->line != -1, .noted = nkeys > layout->nkeys };
	read_entry(m, c, args + (size_t)layout->entry);
	if (strcmp(layout->script, "done") == 0)
		return strcmp(c->argv[args], "1") == 0;
	m->strip = (size_t)number_at(c, args + (size_t)layout->strip);
	if (m->changes) {
		m->line = c->argv[args + (size_t)layout->line];
		m->line_len = c->len[args + (size_t)layout->line];
	}
	check_change(m, keys);
	return true;
}

bool script_move_names(const struct script_move *m, const char *raw, size_t len)
{
	return len == m->len && memcmp(raw, m->head, m->head_len) == 0 &&
	       memcmp(raw + len - m->tail_len, m->tail, m->tail_len) == 0;
}

void script_move_result(const struct script_move *m, const char *raw, size_t len, struct buffer *out)
{
	FUZZ_ASSERT(m->strip <= len);
	buffer_append(out, m->line, m->line_len);
	buffer_append(out, raw + m->strip, len - m->strip);
}
