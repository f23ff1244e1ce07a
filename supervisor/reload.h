#ifndef SUPERVISOR_RELOAD_H
#define SUPERVISOR_RELOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/conf.h"

struct master;

/* Reads the configuration again and goes over to it. Returns 0, or -1: the running one is kept, and report
 * says why. The report is filled in both cases, logged, and freed by the caller. */
int reload_run(struct master *m, struct conf_report *report, int64_t now_ms);

void reload_first(struct master *m);	/* at the start: the queues of m->conf enter */

/* Writes every user that handlers of this configuration can have into the lock file, before any handler starts. -1: the reason is in error */
int reload_note_users(struct master *m, const struct conf *conf, char *error, size_t size);

void reload_log_report(const struct conf_report *report);

#endif
