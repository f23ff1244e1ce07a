#ifndef TESTS_UNIT_CONF_FIXTURE_H
#define TESTS_UNIT_CONF_FIXTURE_H

#include <sys/types.h>

#include <stdbool.h>

#include "common/conf/conf.h"

/* A directory of its own for each test, and what was loaded from it last. */
struct conf_fixture {
	char dir[64];
	char path[128];		/* of the main file */
	struct conf *conf;	/* NULL: refused */
	char *report;		/* as printed, without the directory */
	size_t errors;
};

int conf_fixture_setup(void **state);
int conf_fixture_teardown(void **state);

/* Writes a file below the directory, mode 0600; makes conf.d where needed. Returns its path, good until the next call. */
const char *conf_write(struct conf_fixture *f, const char *name, const char *text);
const char *conf_write_bytes(struct conf_fixture *f, const char *name, const void *data, size_t len, mode_t mode);

void conf_read(struct conf_fixture *f, unsigned flags);		/* conf_load() of the main file */
void conf_read_text(struct conf_fixture *f, const char *text);	/* as the main file; lenient */
void conf_read_with_password_file(struct conf_fixture *f, const char *file, unsigned flags);
bool conf_said(const struct conf_fixture *f, const char *text);
char *conf_printed(const struct conf *conf);			/* new string */

#define assert_loaded(f)                                                                           \
	do {                                                                                       \
		if ((f)->conf == NULL)                                                             \
			fail_msg("refused:\n%s", (f)->report);                                     \
	} while (0)
#define assert_said(f, text)                                                                       \
	do {                                                                                       \
		if (!conf_said((f), (text)))                                                       \
			fail_msg("not told: %s\nbut:\n%s", (text), (f)->report);                   \
	} while (0)
#define assert_refused(f, text)                                                                    \
	do {                                                                                       \
		assert_said((f), (text));                                                          \
		assert_null((f)->conf);                                                            \
	} while (0)

#endif
