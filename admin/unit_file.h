#ifndef ADMIN_UNIT_FILE_H
#define ADMIN_UNIT_FILE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A systemd service as it stands in its files, with its drop-ins: what systemd would read, without asking it. Only the
 * section [Service]; specifiers and the defaults of system.conf are not known here.
 */
struct unit_file {
	char *path;		/* NULL: there is none */
	struct unit_setting { char *key, *value; } *settings;	/* the last of a key counts */
	size_t n;
};

/* Looks where systemd does, or in $SYSTEMD_UNIT_PATH. Always fills in u; unit_file_free() it. */
void unit_file_read(struct unit_file *u, const char *name);
void unit_file_free(struct unit_file *u);

/* NULL: not set. */
const char *unit_file_get(const struct unit_file *u, const char *key);

/* A time span as systemd writes it ("1min 30s", "90", "infinity") in ms. */
#define UNIT_TIME_INFINITY INT64_MAX
#define UNIT_TIME_BAD (-1)
int64_t unit_file_time(const char *text);

#endif
