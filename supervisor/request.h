#ifndef SUPERVISOR_REQUEST_H
#define SUPERVISOR_REQUEST_H

#include <stddef.h>
#include <stdint.h>

struct master;

/* Does what a line of the control socket asks for. Returns the answer, a line to be freed; NULL: no memory. */
char *request_answer(struct master *m, const char *line, size_t len, int64_t now_ms);

#endif
