#ifndef COMMON_BOARD_SLOT_PROGRESS_H
#define COMMON_BOARD_SLOT_PROGRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define PROGRESS_TEXT_MAX 60		/* bytes */
#define PROGRESS_WORDS (PROGRESS_TEXT_MAX / 8 + 1)	/* the text, and a NUL at least */

/*
 * The last PROGRESS of the handler of a worker. The only words of a slot that belong together: `turn` is odd while the worker writes them, and a
 * reader that saw it odd, or changed, reads again. If the worker died while it wrote, there is no progress to be seen.
 */
struct slot_progress {
	_Atomic uint32_t turn;
	_Atomic uint32_t percent;	/* + 1; 0: there is none */
	_Atomic uint64_t text[PROGRESS_WORDS];
};

/* The text is UTF-8 without control characters: other bytes of the handler are written as '?'. */
struct slot_progress_seen {
	int percent;			/* 0 to 100; -1: none */
	char text[PROGRESS_WORDS * 8];
};

void slot_progress_set(struct slot_progress *p, int percent, const char *text, size_t len);
void slot_progress_clear(struct slot_progress *p);
struct slot_progress_seen slot_progress_read(const struct slot_progress *p);

#endif
