#ifndef SUPERVISOR_RELOAD_H
#define SUPERVISOR_RELOAD_H

#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"

struct master;

/* The running configuration. Owner: reload.c. */
struct configuration {
	char *path;
	struct conf *conf;	/* NULL: none was loaded */
	/* number of this configuration: each one that differs gets the next. A child keeps the epoch with which it was
	 * forked */
	unsigned epoch;
	/* of the last reload */
	struct {
		size_t problems;	/* 0: it was taken, or there was none */
		char *reason;		/* the first of them */
		int64_t at_ms;		/* CLOCK_REALTIME */
	} failed;
};

/* At the start: loads the configuration and opens the log. Returns an exit status; if it is not 0, the reason was
 * printed on stderr. */
int reload_start(struct configuration *c, const struct conf_choice *choice);
void reload_free(struct configuration *c);

void reload_first(struct master *m);	/* at the start: the queues of the configuration enter */

/* Writes every user that handlers of this configuration can have into the lock file, before any handler starts. -1: the
 * reason is in error */
int reload_note_users(struct master *m, const struct conf *conf, char *error, size_t size);

/*
 * Reads the configuration again and applies it. Returns 0; or -1, and keeps the running one: the report gives the
 * reasons. The report is filled and logged in both cases; the caller frees it.
 */
int reload_run(struct master *m, struct conf_report *report, int64_t now_ms);

#endif
