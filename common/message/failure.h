#ifndef COMMON_MESSAGE_FAILURE_H
#define COMMON_MESSAGE_FAILURE_H

#include <stddef.h>
#include <stdint.h>

/*
 * Why the last attempt of a message failed. It travels in the wrapper, so whoever reads a delayed message knows its
 * cause. The limits leave room for every other pair in a line of MESSAGE_LINE_MAX bytes, even if each byte of the text
 * needs three.
 */
#define MESSAGE_FAILURE_CLASS_MAX 64
#define MESSAGE_FAILURE_SIGNAL_MAX 16
#define MESSAGE_FAILURE_TEXT_MAX 120

struct message_failure {
	/* ms since 1970, by the clock of the worker; 0: no failure is known */
	int64_t at_ms;
	int exit_code;					/* -1: there was no exit status */
	char class[MESSAGE_FAILURE_CLASS_MAX + 1];	/* of the error; "": not known */
	char signal[MESSAGE_FAILURE_SIGNAL_MAX + 1];	/* its name; "": the handler ended otherwise */
	char text[MESSAGE_FAILURE_TEXT_MAX + 1];	/* the error, one line; longer ones are cut */
};

struct buffer;
struct message_line;

/* class, signal and text may be NULL. Bytes of class and signal that a wrapper cannot hold become "_"; control
 * characters of text become blanks. */
void message_failure_set(struct message_failure *f, int64_t at_ms, const char *class, int exit_code, const char *signal,
    const char *text);
/* Appends the pairs of a wrapper line, each with a blank before it; nothing if at_ms is 0. */
void message_failure_append(struct buffer *out, const struct message_failure *f);
/* Reads them. Without them, or if a value has another form, which only another version writes: no failure is known. */
void message_failure_parse(struct message_failure *f, const struct message_line *line);

#endif
