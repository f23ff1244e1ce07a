#ifndef COMMON_BOARD_SLOT_TEXT_H
#define COMMON_BOARD_SLOT_TEXT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_TEXT_MAX 200		/* bytes */
#define SLOT_TEXT_WORDS (SLOT_TEXT_MAX / 8 + 1)	/* the text, and a NUL at least */

/*
 * A text of a child, and a number that belongs to it. The only words of a slot that belong together: `turn` is odd
 * while the child writes them, and a reader that saw it odd, or changed, reads again. If the child died while it wrote,
 * there is no text to be seen.
 */
struct slot_text {
	_Atomic uint32_t turn;
	_Atomic uint32_t number;	/* + 1; 0: there is no text */
	_Atomic uint64_t text[SLOT_TEXT_WORDS];
};

/* The text is UTF-8 without control characters: other bytes are written as '?'. */
struct slot_text_seen {
	int number;			/* 0 to 100; -1: there is no text */
	char text[SLOT_TEXT_WORDS * 8];
};

/* number: 0 to 100. most: bytes of the text that are kept, at most SLOT_TEXT_MAX; it is cut between words,
 * or between characters if it has none */
void slot_text_set(struct slot_text *t, int number, const char *text, size_t len, size_t most);
void slot_text_clear(struct slot_text *t);
struct slot_text_seen slot_text_read(const struct slot_text *t);

#endif
