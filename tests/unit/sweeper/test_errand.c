/* Subprocesses of the sweeper: what they say, how they end, and that nothing of them stays. */
#include <sys/wait.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sweeper/core/subprocess.h"

#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/base/process.h"
#include "tests/unit/unit.h"

static int outcome(struct subprocess *e, int64_t ahead_ms)
{
	int64_t give_up_ms = clock_monotonic_ms() + 30000;
	struct pollfd p;
	int status = -1;

	while (!subprocess_poll(e, &status, clock_monotonic_ms() + ahead_ms)) {
		assert_true(clock_monotonic_ms() < give_up_ms);
		poll(&p, subprocess_pollfd(e, &p) ? 1 : 0, 10);
	}
	assert_false(subprocess_runs(e));
	return status;
}

static int start(struct subprocess *e, int (*work)(void *arg, int out), void *arg)
{
	return subprocess_start(e, work, arg, 20000, clock_monotonic_ms());
}

static int say(void *arg, int out)
{
	return write(out, arg, strlen(arg)) == (ssize_t)strlen(arg) ? 7 : 1;
}

TEST(it_says_and_ends)
{
	struct subprocess e = {0};
	int status;

	for (int i = 0; i < 3; i++) {
		assert_int_equal(start(&e, say, (void *)"all of it"), 0);
		assert_true(subprocess_runs(&e));
		status = outcome(&e, 0);
		assert_true(WIFEXITED(status));
		assert_int_equal(WEXITSTATUS(status), 7);
		assert_int_equal(e.said.len, 9);
		assert_memory_equal(e.said.data, "all of it", 9);
	}
	subprocess_free(&e);
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

TEST(one_that_talks_much_is_not_remembered_whole)
{
	struct subprocess e = {0};

	assert_int_equal(start(&e, say_much, NULL), 0);
	assert_int_equal(outcome(&e, 0), 0);
	assert_in_range(e.said.len, 1, 1100000);
	subprocess_free(&e);
}

/* Starts a process, which prepares itself, writes its pid to out, and does not end. */
static int start_and_hang(int out, void (*prepare)(void))
{
	pid_t child = fork();

	if (child == 0)
		prepare();
	else if (write(out, &child, sizeof(child)) != sizeof(child))
		return 1;
	for (;;)
		pause();
}

static void ignore_term(void)
{
	signal(SIGTERM, SIG_IGN);
}

/* Its child is in its process group. */
static int hang(void *arg, int out)
{
	(void)arg;
	return start_and_hang(out, ignore_term);
}

TEST(one_that_takes_too_long_goes_with_all_it_started)
{
	struct subprocess e = {0};
	int64_t give_up_ms = clock_monotonic_ms() + 30000;
	pid_t child;
	int status;

	assert_int_equal(start(&e, hang, NULL), 0);
	while (e.said.len < sizeof(child)) {
		assert_false(subprocess_poll(&e, &status, clock_monotonic_ms()));
		assert_true(clock_monotonic_ms() < give_up_ms);
	}
	memcpy(&child, e.said.data, sizeof(child));
	status = outcome(&e, 20000);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
	while (kill(child, 0) == 0 && waitpid(child, NULL, WNOHANG) != child)
		assert_true(clock_monotonic_ms() < give_up_ms);
	subprocess_free(&e);
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

TEST(it_has_no_descriptor_of_ours)
{
	struct subprocess e = {0};
	int ours = open("/dev/null", O_RDONLY);

	assert_int_not_equal(ours, -1);
	assert_int_equal(start(&e, look_around, NULL), 0);
	assert_int_equal(outcome(&e, 0), 0);
	close(ours);
	subprocess_free(&e);
}

TEST(freed_while_it_runs_it_is_gone)
{
	struct subprocess e = {0};
	pid_t pid;

	assert_int_equal(start(&e, hang, NULL), 0);
	pid = e.pid;
	subprocess_free(&e);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
}

static void begin_session(void)
{
	setsid();
}

/* Its child is in a session of its own, which no signal to the group reaches. */
static int leave(void *arg, int out)
{
	(void)arg;
	return start_and_hang(out, begin_session);
}

static pid_t pid_said(struct subprocess *e)
{
	int64_t give_up_ms = clock_monotonic_ms() + 30000;
	pid_t pid;
	int status;

	while (e->said.len < sizeof(pid)) {
		assert_false(subprocess_poll(e, &status, clock_monotonic_ms()));
		assert_true(clock_monotonic_ms() < give_up_ms);
	}
	memcpy(&pid, e->said.data, sizeof(pid));
	return pid;
}

TEST(what_killed_ones_left_is_killed_and_nothing_else)
{
	struct subprocess leaves = {0}, freed = {0}, goes_on = {0};
	int64_t give_up_ms = clock_monotonic_ms() + 30000;
	pid_t left, also_left;
	int status;

	assert_int_equal(start(&goes_on, hang, NULL), 0);
	pid_said(&goes_on);
	assert_int_equal(start(&leaves, leave, NULL), 0);
	assert_int_equal(start(&freed, leave, NULL), 0);
	left = pid_said(&leaves);
	also_left = pid_said(&freed);
	status = outcome(&leaves, 20000);
	assert_true(WIFSIGNALED(status));
	subprocess_free(&freed);
	while (subprocess_kill_adopted()) {
		assert_true(clock_monotonic_ms() < give_up_ms);
		poll(NULL, 0, 1);
	}
	assert_int_equal(kill(left, 0), -1);		/* not even a zombie */
	assert_int_equal(kill(also_left, 0), -1);
	assert_false(subprocess_poll(&goes_on, &status, clock_monotonic_ms()));
	assert_int_equal(kill(goes_on.pid, 0), 0);
	subprocess_free(&goes_on);
	subprocess_free(&leaves);
	while (subprocess_kill_adopted())
		assert_true(clock_monotonic_ms() < give_up_ms);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

/* Ended ones are reaped whichever is asked about first, and none takes the other's answer. */
TEST(each_has_its_own_end)
{
	struct subprocess a = {0}, b = {0};
	int status;

	assert_int_equal(start(&a, say, (void *)"a"), 0);
	assert_int_equal(start(&b, say_much, NULL), 0);
	assert_int_equal(outcome(&b, 0), 0);
	status = outcome(&a, 0);
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(a.said.len, 1);
	subprocess_free(&a);
	subprocess_free(&b);
}

static int end_by_term(void *arg, int out)
{
	sigset_t term;
	int sig;

	(void)arg;
	sigemptyset(&term);
	sigaddset(&term, SIGTERM);
	sigprocmask(SIG_BLOCK, &term, NULL);
	if (write(out, "", 1) != 1)
		return 1;
	return sigwait(&term, &sig) == 0 ? 7 : 1;
}

/* The kernel may give the number of a reaped process to a stranger. */
TEST(one_that_has_ended_is_not_asked_to_end)
{
	struct subprocess e = {0}, late = {0};
	int status = -1;

	assert_int_equal(start(&e, end_by_term, NULL), 0);
	assert_int_equal(start(&late, say, (void *)"all of it"), 0);
	while (e.said.len == 0)
		assert_false(subprocess_poll(&e, &status, clock_monotonic_ms()));
	subprocess_ask_to_end(&e);
	assert_true(e.asked);
	while (!e.ended || !late.ended)
		subprocess_kill_adopted();
	late.pid = getpid();		/* its number is in use again */
	subprocess_ask_to_end(&late);
	assert_false(late.asked);
	status = outcome(&e, 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
	assert_int_equal(outcome(&late, 0), 7 << 8);
	subprocess_ask_to_end(&late);
	assert_false(late.asked);
	subprocess_free(&e);
	subprocess_free(&late);
}

static int write_log(void *arg, int out)
{
	(void)arg;
	(void)out;
	log_info("from_subprocess", log_int("fd", out));
	return 0;
}

TEST(it_can_log)
{
	char path[] = "/tmp/test_errand.XXXXXX", text[512] = "";
	struct subprocess e = {0};
	int fd = mkstemp(path);

	assert_int_not_equal(fd, -1);
	assert_int_equal(log_open(path, LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
	assert_int_equal(start(&e, write_log, NULL), 0);
	assert_int_equal(outcome(&e, 0), 0);
	assert_int_equal(e.said.len, 0);
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	assert_non_null(strstr(text, "event=from_subprocess"));
	assert_int_equal(log_open("stderr", LOG_FORMAT_LOGFMT, LOG_LEVEL_INFO), 0);
	close(fd);
	unlink(path);
	subprocess_free(&e);
}

int main(void)
{
	if (process_become_subreaper() == -1)
		return 1;
	return unit_run(NULL, NULL);
}
