/* The log file that tests of the log share. */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/log/log_fixture.h"

#include "common/log/log.h"

char log_path[64], log_text[LOG_TEXT_SIZE];

static char dir[] = "/tmp/test_log.XXXXXX";

const char *log_taken(void)
{
	int fd = open(log_path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	assert_int_not_equal(fd, -1);
	n = read(fd, log_text, sizeof(log_text) - 1);
	assert_true(n >= 0);
	log_text[n] = '\0';
	close(fd);
	assert_int_equal(truncate(log_path, 0), 0);
	return log_text;
}

void log_assert_holds(const char *want)
{
	if (strstr(log_text, want) == NULL)
		fail_msg("%s is not in: %s", want, log_text);
}

int log_fixture_setup_all(void **state)
{
	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (mkdtemp(dir) == NULL)
		return -1;
	snprintf(log_path, sizeof(log_path), "%s/log", dir);
	return 0;
}

int log_fixture_teardown_all(void **state)
{
	(void)state;
	unlink(log_path);
	return rmdir(dir);
}

int log_fixture_setup(void **state)
{
	(void)state;
	unlink(log_path);
	assert_int_equal(log_open(log_path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
	log_process("worker mail/0");
	return 0;
}
