#ifndef TESTS_UNIT_LOG_LOG_FIXTURE_H
#define TESTS_UNIT_LOG_LOG_FIXTURE_H

/* A log in a file of its own. Each test begins with an empty one: logfmt, level info, of the process "worker mail/0". */
#define LOG_TEXT_SIZE (1 << 20)

extern char log_path[64];
extern char log_text[LOG_TEXT_SIZE];		/* what log_taken() read last */

const char *log_taken(void);			/* all that the file held; empties it */
void log_assert_holds(const char *want);	/* log_text contains want */

int log_fixture_setup_all(void **state);	/* SIGXFSZ and SIGPIPE are ignored */
int log_fixture_teardown_all(void **state);
int log_fixture_setup(void **state);

#endif
