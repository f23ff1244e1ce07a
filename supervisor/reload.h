#ifndef SUPERVISOR_RELOAD_H
#define SUPERVISOR_RELOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"

struct master;

/* Reads the configuration again and goes over to it. Returns 0, or -1: the running one is kept, and report
 * says why. The report is filled in both cases, logged, and freed by the caller. */
int reload_run(struct master *m, struct conf_report *report, int64_t now_ms);

/* At the start: queues of m->conf enter. -1 and why in error: they are too many. */
int reload_first(struct master *m, char *error, size_t size);

void reload_log_report(const struct conf_report *report);

#endif
