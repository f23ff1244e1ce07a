#ifndef TESTS_UNIT_SCRIPTED_HANDLER_H
#define TESTS_UNIT_SCRIPTED_HANDLER_H

#include <stddef.h>
#include <stdint.h>

/*
 * Until the end of its input. how: "told": the lines of a payload are commands; "bytewise": the same, and it reads no byte ahead;
 * "ok": all is well, whatever it says; "sum": fails with the sum of the payload, and with the head of the job. Returns an exit status.
 * A command is a word and the rest of its line, in which @ stands for the serial: see obey_word().
 */
int scripted_handler(const char *how);

/* The sum of "sum". */
uint32_t scripted_sum(const char *data, size_t len);

#endif
