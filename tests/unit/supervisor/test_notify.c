#include <sys/socket.h>
#include <sys/un.h>

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "supervisor/host/notify.h"
#include "tests/unit/unit.h"

static struct notify n;
static int listener;
static char name[64];		/* abstract, as in $NOTIFY_SOCKET */

static int setup(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	(void)state;
	snprintf(name, sizeof(name), "@quredis-notify-%d", (int)getpid());
	memcpy(sa.sun_path + 1, name + 1, strlen(name) - 1);
	listener = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsetenv("WATCHDOG_USEC");
	unsetenv("WATCHDOG_PID");
	setenv("NOTIFY_SOCKET", name, 1);
	return bind(listener, (struct sockaddr *)&sa, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name)));
}

static int teardown(void **state)
{
	(void)state;
	notify_close(&n);
	close(listener);
	return 0;
}

static void open_with_watchdog(const char *usec, const char *pid)
{
	setenv("WATCHDOG_USEC", usec, 1);
	if (pid != NULL)
		setenv("WATCHDOG_PID", pid, 1);
	notify_open(&n);
}

/* The next message; "": there is none. */
static const char *heard(void)
{
	static char text[512];
	ssize_t len = recv(listener, text, sizeof(text) - 1, 0);

	text[len < 0 ? 0 : len] = '\0';
	return text;
}

TEST(states_reach_the_socket_of_the_environment, setup, teardown)
{
	notify_open(&n);
	notify_ready(&n);
	assert_string_equal(heard(), "READY=1\n");
	notify_stopping(&n);
	assert_string_equal(heard(), "STOPPING=1\n");
	notify_status(&n, "running: %d workers", 7);
	assert_string_equal(heard(), "STATUS=running: 7 workers");
	notify_reloading(&n);
	assert_memory_equal(heard(), "RELOADING=1\nMONOTONIC_USEC=", 27);
}

TEST(handlers_do_not_inherit_the_variables, setup, teardown)
{
	open_with_watchdog("1000000", "1");
	assert_null(getenv("NOTIFY_SOCKET"));
	assert_null(getenv("WATCHDOG_USEC"));
	assert_null(getenv("WATCHDOG_PID"));
}

TEST(without_a_socket_or_with_a_wrong_one_nothing_is_sent, setup, teardown)
{
	static const char *const wrong[] = { "", "@", "relative", "/" };
	char too_long[200];

	unsetenv("NOTIFY_SOCKET");
	notify_open(&n);
	assert_int_equal(n.fd, -1);
	notify_ready(&n);
	assert_int_equal(notify_tick(&n, true, 0), INT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("NOTIFY_SOCKET", wrong[i], 1);
		notify_open(&n);
		assert_int_equal(n.fd, -1);
	}
	memset(too_long, 'x', sizeof(too_long) - 1);
	too_long[0] = '/';
	too_long[sizeof(too_long) - 1] = '\0';
	setenv("NOTIFY_SOCKET", too_long, 1);
	notify_open(&n);
	assert_int_equal(n.fd, -1);
}

TEST(a_listener_that_is_gone_does_no_harm, setup, teardown)
{
	notify_open(&n);
	close(listener);
	listener = -1;
	notify_ready(&n);
	notify_tick(&n, true, 0);
}

TEST(a_descriptor_gets_one_newline_and_its_end, setup, teardown)
{
	char text[8];
	int fds[2];

	notify_open(&n);
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	notify_ready_on(&n, fds[1]);
	notify_ready(&n);
	notify_ready(&n);		/* the end of a reload */
	assert_int_equal(read(fds[0], text, sizeof(text)), 1);
	assert_int_equal(text[0], '\n');
	assert_int_equal(read(fds[0], text, sizeof(text)), 0);
	close(fds[0]);
}

TEST(a_child_closes_the_descriptor_without_a_word, setup, teardown)
{
	char text[8];
	int fds[2];

	notify_open(&n);
	assert_int_equal(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
	notify_ready_on(&n, fds[1]);
	notify_close(&n);
	assert_int_equal(read(fds[0], text, sizeof(text)), 0);
	close(fds[0]);
}

TEST(the_watchdog_hears_twice_in_its_time, setup, teardown)
{
	open_with_watchdog("10000000", NULL);
	assert_int_equal(n.watchdog_ms, 5000);
	assert_int_equal(notify_tick(&n, false, 1000), 6000);
	assert_string_equal(heard(), "WATCHDOG=1\n");
	assert_int_equal(notify_tick(&n, false, 5999), 6000);
	assert_string_equal(heard(), "");
	assert_int_equal(notify_tick(&n, false, 6000), 11000);
	assert_string_equal(heard(), "WATCHDOG=1\n");
}

TEST(a_watchdog_of_another_process_or_without_a_time_is_none, setup, teardown)
{
	static const char *const wrong[] = { "0", "-1", "", "soon", "10s" };
	char pid[16];

	open_with_watchdog("10000000", "1");
	assert_int_equal(n.watchdog_ms, 0);
	assert_int_equal(notify_tick(&n, false, 0), INT64_MAX);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		notify_close(&n);
		setenv("NOTIFY_SOCKET", name, 1);
		open_with_watchdog(wrong[i], NULL);
		assert_int_equal(n.watchdog_ms, 0);
	}
	notify_close(&n);
	setenv("NOTIFY_SOCKET", name, 1);
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	open_with_watchdog("1999", pid);		/* below a millisecond for each half */
	assert_int_equal(n.watchdog_ms, 1);
}

TEST(a_stop_asks_for_more_time_every_five_seconds, setup, teardown)
{
	notify_open(&n);
	assert_int_equal(notify_tick(&n, false, 1000), INT64_MAX);
	assert_int_equal(notify_tick(&n, true, 2000), 7000);
	assert_string_equal(heard(), "EXTEND_TIMEOUT_USEC=20000000\n");
	assert_int_equal(notify_tick(&n, true, 6999), 7000);
	assert_string_equal(heard(), "");
	assert_int_equal(notify_tick(&n, true, 7000), 12000);
	assert_string_equal(heard(), "EXTEND_TIMEOUT_USEC=20000000\n");
}

TEST(while_stopping_the_watchdog_goes_on, setup, teardown)
{
	open_with_watchdog("4000000", NULL);
	assert_int_equal(notify_tick(&n, true, 1000), 3000);
	assert_string_equal(heard(), "WATCHDOG=1\n");
	assert_string_equal(heard(), "EXTEND_TIMEOUT_USEC=20000000\n");
	assert_int_equal(notify_tick(&n, true, 5000), 6000);
}

UNIT_MAIN(NULL, NULL)
