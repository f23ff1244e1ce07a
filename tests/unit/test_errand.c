/* links: sweeper/errand.c common/alloc.c common/buffer.c common/clock.c common/process.c */

/* Errands of the sweeper: what they say, how they end, and that nothing of them stays. */
#include <sys/wait.h>

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sweeper/errand.h"

#include "common/clock.h"

static int outcome(struct errand *e, int64_t ahead_ms)
{
	int64_t give_up_ms = clock_monotonic_ms() + 30000;
	struct pollfd p;
	int status = -1;

	while (!errand_look(e, &status, clock_monotonic_ms() + ahead_ms)) {
		assert_true(clock_monotonic_ms() < give_up_ms);
		poll(&p, errand_pollfd(e, &p) ? 1 : 0, 10);
	}
	assert_false(errand_under_way(e));
	return status;
}

static int start(struct errand *e, int (*work)(void *arg, int out), void *arg)
{
	return errand_start(e, work, arg, 20000, clock_monotonic_ms());
}

static int say(void *arg, int out)
{
	return write(out, arg, strlen(arg)) == (ssize_t)strlen(arg) ? 7 : 1;
}

static void it_says_and_ends(void **state)
{
	struct errand e = {0};
	int status;

	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(start(&e, say, (void *)"all of it"), 0);
		assert_true(errand_under_way(&e));
		status = outcome(&e, 0);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 7);
		assert_int_equal(e.said.len, 9);
		assert_memory_equal(e.said.data, "all of it", 9);
	}
	errand_free(&e);
}

static int say_much(void *arg, int out)
{
	char much[4096] = {0};

	(void)arg;
	for (int i = 0; i < 1024; i++)
		if (write(out, much, sizeof(much)) != sizeof(much))
			return 1;
	return 0;
}

static void one_that_talks_much_is_not_remembered_whole(void **state)
{
	struct errand e = {0};

	(void)state;
	assert_int_equal(start(&e, say_much, NULL), 0);
	assert_int_equal(outcome(&e, 0), 0);
	assert_in_range(e.said.len, 1, 1100000);
	errand_free(&e);
}

/* Leaves a process in its group, says its number, and does not end. */
static int hang(void *arg, int out)
{
	pid_t child = fork();

	(void)arg;
	if (child == 0) {
		signal(SIGTERM, SIG_IGN);
		for (;;)
			pause();
	}
	if (write(out, &child, sizeof(child)) != sizeof(child))
		return 1;
	for (;;)
		pause();
}

static void one_that_takes_too_long_goes_with_all_it_started(void **state)
{
	struct errand e = {0};
	int64_t give_up_ms = clock_monotonic_ms() + 30000;
	pid_t child;
	int status;

	(void)state;
	assert_int_equal(start(&e, hang, NULL), 0);
	while (e.said.len < sizeof(child)) {
		assert_false(errand_look(&e, &status, clock_monotonic_ms()));
		assert_true(clock_monotonic_ms() < give_up_ms);
	}
	memcpy(&child, e.said.data, sizeof(child));
	status = outcome(&e, 20000);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	while (kill(child, 0) == 0 && waitpid(child, NULL, WNOHANG) != child)
		assert_true(clock_monotonic_ms() < give_up_ms);
	errand_free(&e);
}

/* Descriptors it has besides 0-2 and its own. */
static int look_around(void *arg, int out)
{
	int n = 0;

	for (int fd = 3; fd < 256; fd++)
		n += fd != out && fcntl(fd, F_GETFD) != -1;
	(void)arg;
	return n;
}

static void it_has_no_descriptor_of_ours(void **state)
{
	struct errand e = {0};
	int ours = open("/dev/null", O_RDONLY);

	(void)state;
	assert_int_not_equal(ours, -1);
	assert_int_equal(start(&e, look_around, NULL), 0);
	assert_int_equal(outcome(&e, 0), 0);
	close(ours);
	errand_free(&e);
}

static void freed_while_it_runs_it_is_gone(void **state)
{
	struct errand e = {0};
	pid_t pid;

	(void)state;
	assert_int_equal(start(&e, hang, NULL), 0);
	pid = e.pid;
	errand_free(&e);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_and_ends),
		cmocka_unit_test(one_that_talks_much_is_not_remembered_whole),
		cmocka_unit_test(one_that_takes_too_long_goes_with_all_it_started),
		cmocka_unit_test(it_has_no_descriptor_of_ours),
		cmocka_unit_test(freed_while_it_runs_it_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
