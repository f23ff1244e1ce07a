#ifndef ADMIN_CLI_NOTICE_H
#define ADMIN_CLI_NOTICE_H

#include <stdarg.h>
#include <stddef.h>

/* Prints a notice or an error on standard error: one line, which continues at words on a terminal. Control characters
 * in it are made visible. */
void notice_print(const char *prefix, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void notice_print_args(const char *prefix, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
/* From now on these lines go to `lines` instead, each with a newline: for a process without a terminal. NULL: to
 * standard error again */
struct buffer;
void notice_keep(struct buffer *lines);
/* Prints one line on standard output, for people: what a command did. Control characters in it are made visible. */
void notice_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* " (did you mean stats or status?)", a new string; "" if no known word is similar. before: what stands before each of
 * them, such as "--". */
char *notice_suggest(const char *word, const char *const *known, size_t n, const char *before);

#endif
