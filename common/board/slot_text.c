/*
 * A text on the scoreboard: written by its child, read by the master and the sweeper. It may come from strangers, so
 * the writer makes it safe for a terminal and for JSON, and a reader takes nothing that changed while it read. Only the
 * text of the sweeper may have two writers, the old and the new one during a reload: then it may be torn.
 */
#include <stdbool.h>
#include <string.h>

#include "common/board/slot_text.h"

#define READS 8
#define MORE " ..."

static bool is_continuation(unsigned char c)
{
	return (c & 0xc0) == 0x80;
}

/* Not shown: control characters, and characters that change the direction of the text around them. */
static bool may_be_shown(uint32_t c)
{
	return c >= ' ' && !(c >= 0x7f && c < 0xa0) && !(c >= 0x200b && c <= 0x200f) && !(c >= 0x2028 && c <= 0x202e) &&
	    !(c >= 0x2060 && c <= 0x206f) && !(c >= 0xd800 && c < 0xe000) && c != 0xfeff && c < 0x110000;
}

/* The length of the character at the beginning, in UTF-8; 0: none that may be shown. */
static size_t character(const char *text, size_t len)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = (unsigned char)text[0];
	size_t n = first < 0x80 ? 1 : first < 0xc0 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf8 ? 4 : 0;
	uint32_t c = n <= 1 ? first : first & (0xffu >> (n + 1));

	if (n == 0 || n > len)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (!is_continuation((unsigned char)text[i]))
			return 0;
		c = c << 6 | ((unsigned char)text[i] & 0x3f);
	}
	return c >= least[n] && may_be_shown(c) ? n : 0;
}

/* A long text ends behind a word, and says that it goes on. Text without a blank in its second half stays as it is. */
static void cut_at_word(char *out, size_t most)
{
	size_t end = most < strlen(MORE) ? 0 : most - strlen(MORE);

	while (end > most / 2 && out[end] != ' ')
		end--;
	if (end <= most / 2)
		return;
	memset(out + end, 0, most - end);
	memcpy(out + end, MORE, strlen(MORE));
}

static void make_safe(char out[SLOT_TEXT_WORDS * 8], const char *text, size_t len, size_t most)
{
	size_t at = 0, n;

	memset(out, 0, SLOT_TEXT_WORDS * 8);
	for (size_t i = 0; i < len; i += n > 0 ? n : 1) {
		n = character(text + i, len - i);
		if (at + (n > 0 ? n : 1) > most) {
			cut_at_word(out, most);
			return;
		}
		if (n == 0)
			out[at++] = '?';
		else
			memcpy(out + at, text + i, n);
		at += n;
	}
}

static void store(struct slot_text *t, uint32_t number, const char text[SLOT_TEXT_WORDS * 8])
{
	uint32_t turn = atomic_load(&t->turn) | 1;
	uint64_t word;

	atomic_store(&t->turn, turn);
	atomic_store(&t->number, number);
	for (size_t i = 0; i < SLOT_TEXT_WORDS; i++) {
		memcpy(&word, text + 8 * i, 8);
		atomic_store(&t->text[i], word);
	}
	atomic_store(&t->turn, turn + 1);
}

void slot_text_set(struct slot_text *t, int number, const char *text, size_t len, size_t most)
{
	char safe[SLOT_TEXT_WORDS * 8];

	make_safe(safe, text, len, most < SLOT_TEXT_MAX ? most : SLOT_TEXT_MAX);
	store(t, (uint32_t)number + 1, safe);
}

void slot_text_clear(struct slot_text *t)
{
	static const char none[SLOT_TEXT_WORDS * 8];

	if (atomic_load(&t->number) != 0 || (atomic_load(&t->turn) & 1) != 0)
		store(t, 0, none);
}

struct slot_text_seen slot_text_read(const struct slot_text *t)
{
	struct slot_text_seen out;

	for (int i = 0; i < READS; i++) {
		uint32_t turn = atomic_load(&t->turn), number = atomic_load(&t->number);

		for (size_t word = 0; word < SLOT_TEXT_WORDS; word++) {
			uint64_t bytes = atomic_load(&t->text[word]);

			memcpy(out.text + 8 * word, &bytes, 8);
		}
		out.text[sizeof(out.text) - 1] = '\0';
		out.number = number <= 101 ? (int)number - 1 : -1;
		if ((turn & 1) == 0 && atomic_load(&t->turn) == turn)
			return out;
	}
	return (struct slot_text_seen){ .number = -1 };
}
