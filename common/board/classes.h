#ifndef COMMON_BOARD_CLASSES_H
#define COMMON_BOARD_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/board/worker_words.h"

/*
 * The counts of dead letters by the class that their handler named. A queue counts the first CLASS_NAMES names one by
 * one, and all others together as CLASS_OTHER, because a handler that puts a number into its class would otherwise fill
 * every list of counters.
 */
#define CLASS_OTHER "other"
#define CLASS_FIGURES (CLASS_NAMES + 1)		/* the last one is CLASS_OTHER */

struct class_figure {
	char name[CLASS_NAME_MAX + 1];
	uint64_t n;
};

/* A name on the scoreboard: its bytes in words, then NULs. */
void classes_name_words(uint64_t words[CLASS_NAME_WORDS], const char *name);
void classes_name_store(_Atomic uint64_t at[CLASS_NAME_WORDS], const uint64_t words[CLASS_NAME_WORDS]);
bool classes_name_is(const _Atomic uint64_t at[CLASS_NAME_WORDS], const uint64_t words[CLASS_NAME_WORDS]);
void classes_name_read(char out[CLASS_NAME_MAX + 1], const _Atomic uint64_t at[CLASS_NAME_WORDS]);

/* The index at which this name is counted. Workers call it, and the master for an heir. */
size_t classes_index(struct queue_classes *c, const char *name);
void classes_count(struct queue_classes *c, const char *name, uint64_t n);

/* The count at an index below CLASS_FIGURES. n is 0 where no name is counted. Two indexes may have the same name. */
struct class_figure classes_figure(const struct queue_classes *c, size_t i);
/* All counts that are not 0, each name once. Returns how many. */
size_t classes_sum(const struct queue_classes *c, struct class_figure out[CLASS_FIGURES]);

#endif
