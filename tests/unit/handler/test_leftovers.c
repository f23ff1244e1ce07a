/* ldflags: -Wl,--wrap=opendir */
/* What a dead supervisor left: recognised by its token and its user; killed, awaited, counted. */
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <linux/capability.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/alloc.h"
#include "common/base/leftovers.h"
#include "common/base/process.h"
#include "tests/unit/unit.h"

#define STRANGER 4711

static const unsigned char key[LEFTOVERS_KEY_SIZE] = "a key";
static char token[LEFTOVERS_TOKEN_SIZE], variable[sizeof(LEFTOVERS_TOKEN_NAME) + LEFTOVERS_TOKEN_SIZE + 1];
static struct leftovers_users users;

static int looks, blind;		/* how often /proc was opened; the look that sees an empty one instead */

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
DIR *__wrap_opendir(const char *name)
{
	return __real_opendir(strcmp(name, "/proc") == 0 && ++looks == blind ? "/proc/self/ns" : name);
}

static int kill_token(int64_t timeout_ms, struct leftovers *out)
{
	*out = (struct leftovers){0};
	strlcpy(out->token, token, sizeof(out->token));
	return leftovers_kill(out, 1, &users, timeout_ms);
}

/* Starts a sleep with that environment and user, and returns once it runs. */
static pid_t start(char *const env[], uid_t uid)
{
	char *argv[] = { (char *)"sleep", (char *)"600", NULL };
	pid_t pid;
	char c;
	int p[2];

	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0) {
		setsid();
		if (uid != getuid() && setuid(uid) == -1)
			_exit(1);
		execve("/bin/sleep", argv, env);
		_exit(1);
	}
	close(p[1]);
	assert_int_equal(read(p[0], &c, 1), 0);	/* the exec closed it */
	close(p[0]);
	return pid;
}

static pid_t start_with(const char *var)
{
	char *env[] = { (char *)"A=1", (char *)(uintptr_t)var, (char *)"B=2", NULL };

	return start(env, getuid());
}

static bool lives(pid_t pid)
{
	return waitpid(pid, NULL, WNOHANG) == 0;
}

static void needs_pidfd(void)
{
	if (syscall(SYS_pidfd_open, getpid(), 0u) == -1 && errno == ENOSYS)
		skip();			/* valgrind does not know it */
}

static int leaves_nothing(void **unused)
{
	(void)unused;
	return process_kill_children_wait(NULL, NULL, 10000);
}

TEST(a_token_is_of_key_and_boot)
{
	unsigned char other[LEFTOVERS_KEY_SIZE] = "b key";
	char a[LEFTOVERS_TOKEN_SIZE], b[LEFTOVERS_TOKEN_SIZE];

	leftovers_token(key, 1, a);
	leftovers_token(key, 1, b);
	assert_string_equal(a, b);
	assert_int_equal(strlen(a), LEFTOVERS_TOKEN_SIZE - 1);
	leftovers_token(key, 2, b);
	assert_string_not_equal(a, b);
	leftovers_token(other, 1, b);
	assert_string_not_equal(a, b);
}

TEST(by_token, NULL, leaves_nothing)
{
	struct leftovers out;
	char *longer = alloc_format("%s0", variable), *within = alloc_format("X=%s", variable);
	pid_t a = start_with(variable), b = start_with(variable);
	pid_t c = start_with(longer), d = start_with(within), e = start_with("QUREDIS_INCARNATION=web1.00000000000000b0.1.1");

	needs_pidfd();
	assert_int_equal(kill_token(20000, &out), 0);
	assert_int_equal(out.killed, 2);
	assert_int_equal(out.alive, 0);
	assert_false(lives(a) || lives(b));	/* it waited for their end */
	assert_true(lives(c) && lives(d) && lives(e));
	assert_int_equal(kill_token(20000, &out), 0);
	assert_int_equal(out.killed, 0);
	free(longer);
	free(within);
}

TEST(not_of_a_user_that_no_handler_has, NULL, leaves_nothing)
{
	char *env[] = { variable, NULL };
	struct leftovers out;
	pid_t stranger;

	needs_pidfd();
	if (geteuid() != 0)
		skip();
	stranger = start(env, STRANGER);
	assert_int_equal(kill_token(20000, &out), 0);
	assert_int_equal(out.killed, 0);
	assert_true(lives(stranger));
	leftovers_users_add(&users, STRANGER);
	assert_int_equal(kill_token(20000, &out), 0);
	assert_int_equal(out.killed, 1);
	assert_false(lives(stranger));
	users.n--;
}

/* Root without the right to kill others. */
static int drop_kill(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) == -1)
		return -1;
	data[0].effective &= ~(1u << CAP_KILL);
	return (int)syscall(SYS_capset, &header, data);
}

/* Each that cannot be killed is counted and named, and none of them keeps another alive. */
TEST(all_that_stay_are_told, NULL, leaves_nothing)
{
	char *env[] = { variable, NULL };
	pid_t stay[3], own, killer;
	int status;

	needs_pidfd();
	if (geteuid() != 0)
		skip();
	for (int i = 0; i < 3; i++)
		stay[i] = start(env, STRANGER);
	own = start(env, getuid());
	killer = fork();
	if (killer == 0) {
		struct leftovers out;
		unsigned named = 0;

		leftovers_users_add(&users, STRANGER);
		if (drop_kill() == -1 || kill_token(20000, &out) != -1)
			_exit(1);
		for (size_t i = 0; i < out.nlisted; i++)
			for (int k = 0; k < 3; k++)
				if (out.listed[i].pid == stay[k] && out.listed[i].uid == STRANGER && out.listed[i].error == EPERM)
					named |= 1u << k;
		_exit(out.alive == 3 && out.nlisted == 3 && named == 7 && out.killed == 1 && !out.breeding ? 0 : 2);
	}
	assert_int_equal(waitpid(killer, &status, 0), killer);
	assert_int_equal(status, 0);
	assert_false(lives(own));
	for (int i = 0; i < 3; i++)
		assert_true(lives(stay[i]));
}

/* Each boot gets what is its own, and /proc is read twice, however many there are. */
TEST(many_boots_are_one_look, NULL, leaves_nothing)
{
	static struct leftovers of[50];
	char other[sizeof(variable)];
	pid_t a, b;

	needs_pidfd();
	for (size_t i = 0; i < 50; i++)
		leftovers_token(key, 1000 + i, of[i].token);
	looks = 0;
	assert_int_equal(leftovers_kill(of, 50, &users, 20000), 0);
	assert_int_equal(looks, 2);
	snprintf(other, sizeof(other), LEFTOVERS_TOKEN_NAME "=%s", of[7].token);
	a = start_with(other);
	snprintf(other, sizeof(other), LEFTOVERS_TOKEN_NAME "=%s", of[49].token);
	b = start_with(other);
	looks = 0;
	assert_int_equal(leftovers_kill(of, 50, &users, 20000), 0);
	assert_false(lives(a) || lives(b));
	assert_int_equal(looks, 3);
	for (size_t i = 0; i < 50; i++)
		assert_int_equal(of[i].killed, i == 7 || i == 49);
}

/* What cannot be examined may be a leftover: a scan without descriptors proves nothing, and is not repeated without a pause. */
TEST(a_scan_without_descriptors_is_not_complete, NULL, leaves_nothing)
{
	struct rlimit before, low;
	pid_t pid = start_with(variable);
	struct leftovers found;

	needs_pidfd();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	for (int left = 0; left < 3; left++) {		/* for none, for /proc alone, for /proc and a pidfd */
		int rc, next = dup(0);

		close(next);
		low = (struct rlimit){ (rlim_t)(next + left), before.rlim_max };
		looks = 0;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
		rc = kill_token(200, &found);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_int_equal(rc, -1);
		assert_int_equal(found.error, EMFILE);
		assert_false(found.breeding);
		assert_int_equal(found.killed, 0);
		assert_in_range(looks, 1, 6);
	}
	assert_int_equal(kill_token(10000, &found), 0);
	assert_int_equal(found.error, 0);
	assert_int_equal(found.killed, 1);
	assert_false(lives(pid));
}

/* What forks while /proc is read can be missed by one look. */
TEST(what_escapes_one_look_is_found_by_the_next, NULL, leaves_nothing)
{
	struct leftovers out;
	pid_t pid = start_with(variable);

	needs_pidfd();
	looks = 0;
	blind = 1;
	assert_int_equal(kill_token(20000, &out), 0);
	assert_int_equal(out.killed, 1);
	assert_false(lives(pid));
	assert_int_equal(looks, 4);		/* none, one, none, none */
	pid = start_with(variable);
	looks = 0;
	blind = 2;				/* also when the time is over by then */
	assert_int_equal(kill_token(0, &out), -1);
	assert_true(out.breeding || out.alive > 0);
	blind = 0;
	assert_int_equal(kill_token(20000, &out), 0);
	assert_false(lives(pid));
}

/*
 * Processes that are no leftovers themselves start one after the other, until they are killed. There are several, so that one of
 * them has a processor at each look.
 */
#define BREEDERS 8
TEST(who_breeds_is_told_in_time, NULL, leaves_nothing)
{
	struct leftovers out = {0};
	pid_t breeders[BREEDERS];
	int rc = 0;

	needs_pidfd();
	for (int i = 0; i < BREEDERS; i++) {
		breeders[i] = fork();
		if (breeders[i] == 0) {
			signal(SIGCHLD, SIG_IGN);
			for (int k = 0; k < 100000; k++)
				start_with(variable);
			_exit(0);
		}
	}
	/* A look may find none, when the breeder has to wait for a processor. */
	for (int i = 0; i < 200 && !out.breeding; i++)
		rc = kill_token(200, &out);
	assert_true(out.breeding);
	assert_int_equal(rc, -1);
	assert_true(out.killed > 0);
	for (int i = 0; i < BREEDERS; i++)
		kill(breeders[i], SIGKILL);
	while (kill_token(20000, &out) != 0 || out.killed > 0)
		;
}

int main(void)
{
	if (process_become_subreaper() == -1)
		return 1;
	leftovers_token(key, 7, token);
	snprintf(variable, sizeof(variable), LEFTOVERS_TOKEN_NAME "=%s", token);
	leftovers_users_add(&users, getuid());
	return unit_run(NULL, NULL);
}
