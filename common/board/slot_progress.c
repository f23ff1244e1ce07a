/*
 * The progress of a handler: written by its worker, read by the master and the sweeper. The text comes from strangers, so the
 * writer makes it safe for a terminal and for JSON, and a reader takes nothing that changed while it read.
 */
#include <stdbool.h>
#include <string.h>

#include "common/board/slot_progress.h"

#define READS 8

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

static void make_safe(char out[PROGRESS_WORDS * 8], const char *text, size_t len)
{
	size_t at = 0, n;

	memset(out, 0, PROGRESS_WORDS * 8);
	for (size_t i = 0; i < len; i += n > 0 ? n : 1) {
		n = character(text + i, len - i);
		if (at + (n > 0 ? n : 1) > PROGRESS_TEXT_MAX)
			return;
		if (n == 0)
			out[at++] = '?';
		else
			memcpy(out + at, text + i, n);
		at += n;
	}
}

static void store(struct slot_progress *p, uint32_t percent, const char text[PROGRESS_WORDS * 8])
{
	uint32_t turn = atomic_load(&p->turn) | 1;
	uint64_t word;

	atomic_store(&p->turn, turn);
	atomic_store(&p->percent, percent);
	for (size_t i = 0; i < PROGRESS_WORDS; i++) {
		memcpy(&word, text + 8 * i, 8);
		atomic_store(&p->text[i], word);
	}
	atomic_store(&p->turn, turn + 1);
}

void slot_progress_set(struct slot_progress *p, int percent, const char *text, size_t len)
{
	char safe[PROGRESS_WORDS * 8];

	make_safe(safe, text, len);
	store(p, (uint32_t)percent + 1, safe);
}

void slot_progress_clear(struct slot_progress *p)
{
	static const char none[PROGRESS_WORDS * 8];

	if (atomic_load(&p->percent) != 0 || (atomic_load(&p->turn) & 1) != 0)
		store(p, 0, none);
}

struct slot_progress_seen slot_progress_read(const struct slot_progress *p)
{
	struct slot_progress_seen out;

	for (int i = 0; i < READS; i++) {
		uint32_t turn = atomic_load(&p->turn), percent = atomic_load(&p->percent);

		for (size_t word = 0; word < PROGRESS_WORDS; word++) {
			uint64_t bytes = atomic_load(&p->text[word]);

			memcpy(out.text + 8 * word, &bytes, 8);
		}
		out.text[sizeof(out.text) - 1] = '\0';
		out.percent = percent <= 101 ? (int)percent - 1 : -1;
		if ((turn & 1) == 0 && atomic_load(&p->turn) == turn)
			return out;
	}
	return (struct slot_progress_seen){ .percent = -1 };
}
