#ifndef ADMIN_DOCTOR_FOLD_H
#define ADMIN_DOCTOR_FOLD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Folds lines that say the same of several queues, workers or keys into one: "1 message waiting" and "5 messages waiting" become
 * "1 to 5 messages waiting". It knows nothing of findings; report.c decides which of them may be folded.
 */
struct fold_line {
	const char *queue;	/* the queue that the line is about; NULL: none */
	const char *name;	/* the worker, key, path or server that it is about; NULL: none */
	const char *text;	/* NULL: nothing */
};

/* True: the lines have the same number of words, and at least half of the words are equal. */
bool fold_is_alike(const struct fold_line *a, const struct fold_line *b);
/* True: the lines differ only in the names of their queues, or in their own names. */
bool fold_is_same(const struct fold_line *a, const struct fold_line *b);
/*
 * Returns one text for lines that are alike, a new string; NULL if their text is NULL. The word QUEUE stands for the queue of
 * each line, NAME for its name. Numbers and durations become "3 to 57", other words that differ "a, b, c and 4 more".
 */
char *fold_text(const struct fold_line *lines, size_t n);
/* Returns "a, b, c, d, e and 17 more", a new string: each name once, in the order of the first ones. NULL: there are no names. */
char *fold_names(const char *const *names, size_t n);

#endif
