#ifndef ADMIN_DEAD_LETTERS_CAUSE_H
#define ADMIN_DEAD_LETTERS_CAUSE_H

#include <stddef.h>

/*
 * The cause of a failure, as a text that is equal for equal causes: the class, the exit status or signal of the
 * handler, and the first line of the error without its ids, addresses, times and longer numbers. Numbers of up to three
 * digits stay: 404 and 503 are two causes. A run of white space is one blank.
 *
 * The shape of a cause has no number in its line at all: a `*` stands for each, also for what is a `#` in the cause, so
 * that a shape is no cause of longer numbers. Where many causes have one shape, such as "no such file: /data/102" and
 * "/data/201", that is what they have in common (groups_merge()), and a filter may name it.
 */
#define CAUSE_SIZE 256
#define CAUSES_OF_A_SHAPE 5	/* at most as many are shown on their own */

/* Each argument may be "". Writes the text to out, cut to CAUSE_SIZE with its NUL. Returns out. */
const char *cause_describe(const char *class, const char *exit_code, const char *signal, const char *error,
    size_t error_len, char out[CAUSE_SIZE]);

void cause_shape(const char *cause, char out[CAUSE_SIZE]);

/* In place: a run of white space becomes one blank, and none is left at the ends. Tables wrap texts, so a cause that
 * was copied may have other white space. */
void cause_squeeze(char *text);

/* The fields of a record that make its cause, and how many they are. */
#define CAUSE_FIELDS "error_class", "exit_code", "signal", "error_message"
#define CAUSE_NFIELDS 4
struct dead_letter;
const char *cause_of(const struct dead_letter *d, char out[CAUSE_SIZE]);

#endif
