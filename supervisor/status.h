#ifndef SUPERVISOR_STATUS_H
#define SUPERVISOR_STATUS_H

#include <jansson.h>
#include <stdint.h>

struct master;

json_t *status_document(struct master *m, int64_t now_ms);	/* a new reference; NULL: no memory */
void status_log(struct master *m, int64_t now_ms);		/* USR2: a line for each queue and each worker */

#endif
