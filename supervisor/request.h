#ifndef SUPERVISOR_REQUEST_H
#define SUPERVISOR_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * A request is one JSON object, and so is its answer:
 *
 *	{"command":"status"}			-> {"ok":true, …}	status.c
 *	{"command":"reload"}			-> {"ok":true,"warnings":[…]} or {"ok":false,"error":…,"problems":[…]}
 *	{"command":"stop","fast":false}		-> {"ok":true}; the connection closes when the master has ended
 *	{"command":"restart","queue":Q}		-> {"ok":true}
 *	{"command":"scale","queue":Q,"workers":N}	-> {"ok":true}
 *	{"command":"quiet"} {"command":"resume"}, of all or of one "queue"	-> {"ok":true}
 *	anything else				-> {"ok":false,"error":…}
 *
 * Executes a line of the control socket; master is a struct master. Returns the answer, a line that the caller frees;
 * NULL: no memory.
 */
char *request_answer(void *master, const char *line, size_t len, bool may_order, int64_t now_ms);

#endif
