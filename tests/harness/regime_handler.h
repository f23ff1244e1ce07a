#ifndef TESTS_HARNESS_REGIME_HANDLER_H
#define TESTS_HARNESS_REGIME_HANDLER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The frame of the handlers of the chaos regime and of the episodes. It reads messages, answers them, and writes the ledger.
 * handler.c of a regime says what its messages ask for.
 *
 *	handler LEDGER		one message on standard input, the exit status is the answer
 *	handler LEDGER stay	a persistent one
 */
enum outcome { OK, RETRY, FAIL, REJECT };

struct job {
	const char *message;		/* len bytes, and a NUL */
	size_t len;
	int attempt;
	bool redelivered;
};

/* ---- handler.c of the regime ---- */

enum outcome handle_job(const struct job *j);
void after_answer(const char *answer);	/* of a persistent handler: it has written this answer to the job of the last handle_job() */

/* ---- the frame: it ends the process with a failure if it cannot write ---- */

__attribute__((format(printf, 1, 2))) void note(const char *format, ...);	/* a line of the ledger, with one write(2) to a file opened O_APPEND */
void print_all(const char *data, size_t len);					/* to standard output */

#endif
