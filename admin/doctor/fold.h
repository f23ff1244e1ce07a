#ifndef ADMIN_DOCTOR_FOLD_H
#define ADMIN_DOCTOR_FOLD_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Folds lines that say the same of several queues, workers or keys into one: "1 message waiting" and "5 messages
 * waiting" become "1 to 5 messages waiting". It knows nothing of findings; report.c decides which of them may be
 * folded.
 */
struct fold_line {
	const char *queue;	/* the queue that the line is about; NULL: none */
	const char *name;	/* the worker, key, path or server that it is about; NULL: none */
	const char *text;
};

/*
 * Returns one text for lines that have the same text but for names, figures and words, a new string; NULL: their texts
 * differ otherwise. The word QUEUE stands for the queue of each line, NAME for its name. Figures become "3 to 57",
 * other words "a, b, c and 4 more", of which no two stand side by side. only_names: only names may differ.
 */
char *fold_text(const struct fold_line *lines, size_t n, bool only_names);
/* Returns "a, b, c, d, e and 17 more", a new string: each name once, in the order of the first ones. NULL: there are
 * none. */
char *fold_names(const char *const *names, size_t n);

#endif
