#include <sys/mman.h>
#include <sys/wait.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/board/scoreboard.h"
#include "common/message/seal.h"
#include "tests/unit/unit.h"

#define RACES 20000

static int setup(void **state)
{
	*state = scoreboard_new();
	return *state == NULL ? -1 : 0;
}

static int teardown(void **state)
{
	scoreboard_free(*state);
	return 0;
}

static const char *secret(char out[2 * SEAL_SECRET_BYTES + 1], int n)
{
	snprintf(out, 2 * SEAL_SECRET_BYTES + 1, "%016x%048x", n + 1, 77 * n);
	return out;
}

/* A process of its own, as the master forks them: it knows nothing but what is shared. */
static void fork_learner(struct seal_shared *s, int n)
{
	char list[2 * SEAL_SECRET_BYTES + 1];
	pid_t pid = fork();

	assert_int_not_equal(pid, -1);
	if (pid != 0)
		return;
	seal_share(s);
	_exit(seal_learn(secret(list, n)) == 0 ? 0 : 1);
}

/* The secrets that a process which starts now knows before it has asked Redis. */
static void read_in_new_process(struct seal_shared *s, char out[SEAL_LIST_SIZE])
{
	int ends[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_int_not_equal(pid, -1);
	if (pid == 0) {
		seal_share(s);
		seal_list(out);
		_exit(write(ends[1], out, SEAL_LIST_SIZE) == SEAL_LIST_SIZE ? 0 : 1);
	}
	n = read(ends[0], out, SEAL_LIST_SIZE);
	assert_int_equal(n, SEAL_LIST_SIZE);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ends[0]);
	close(ends[1]);
}

static void wait_for_all(int n)
{
	for (int status; n > 0; n--) {
		assert_int_not_equal(wait(&status), -1);
		assert_int_equal(status, 0);
	}
}

TEST(what_one_process_learns_another_knows, setup, teardown)
{
	struct seal_shared *s = &((struct scoreboard *)*state)->secrets;
	char list[SEAL_LIST_SIZE], want[2 * SEAL_SECRET_BYTES + 1];

	read_in_new_process(s, list);
	assert_string_equal(list, "");
	fork_learner(s, 3);
	wait_for_all(1);
	read_in_new_process(s, list);
	assert_string_equal(list, secret(want, 3));
}

struct races {
	_Atomic int arrived;
	struct seal_shared shared[RACES];
};

/* Both begin each race together. */
static void fork_racer(struct races *r, int first, int second)
{
	char list[2][2 * SEAL_SECRET_BYTES + 1], both[SEAL_LIST_SIZE];
	pid_t pid = fork();

	assert_int_not_equal(pid, -1);
	if (pid != 0)
		return;
	snprintf(both, sizeof(both), "%s %s", secret(list[0], first), secret(list[1], second));
	for (int race = 0; race < RACES; race++) {
		seal_share(&r->shared[race]);
		atomic_fetch_add(&r->arrived, 1);
		for (int looks = 1; atomic_load(&r->arrived) < 2 * (race + 1); looks++)
			if (looks % 1000 == 0)
				sched_yield();
		seal_learn(both);
	}
	_exit(0);
}

/* Two processes learn the same secrets in opposite orders: each is there once, and whole. */
TEST(processes_that_learn_at_once_leave_each_secret_once, setup, teardown)
{
	struct races *r = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char list[SEAL_LIST_SIZE], want[2 * SEAL_SECRET_BYTES + 1];

	assert_ptr_not_equal(r, MAP_FAILED);
	fork_racer(r, 0, 1);
	fork_racer(r, 1, 0);
	wait_for_all(2);
	for (int race = 0; race < RACES; race++) {
		uint32_t places = 0;

		for (int i = 0; i < SEAL_SECRETS_MAX; i++)
			places += atomic_load(&r->shared[race].secrets[i].whole);
		assert_int_equal(places, 2);
	}
	read_in_new_process(&r->shared[RACES - 1], list);
	for (int i = 0; i < 2; i++)
		assert_non_null(strstr(list, secret(want, i)));
	munmap(r, sizeof(*r));
}

/* Its writer was killed in the middle: nobody takes it for a secret, and the next one who learns it completes it. */
TEST(a_secret_that_is_not_whole_is_completed, setup, teardown)
{
	struct seal_shared *s = &((struct scoreboard *)*state)->secrets;
	char list[SEAL_LIST_SIZE], want[2 * SEAL_SECRET_BYTES + 1];

	fork_learner(s, 5);
	wait_for_all(1);
	atomic_store(&s->secrets[0].words[2], 0);
	atomic_store(&s->secrets[0].whole, 0);
	read_in_new_process(s, list);
	assert_string_equal(list, "");
	fork_learner(s, 5);
	wait_for_all(1);
	read_in_new_process(s, list);
	assert_string_equal(list, secret(want, 5));
}

TEST(there_is_room_for_eight, setup, teardown)
{
	struct seal_shared *s = &((struct scoreboard *)*state)->secrets;
	char list[SEAL_LIST_SIZE];

	for (int i = 0; i < SEAL_SECRETS_MAX + 2; i++) {
		fork_learner(s, i);
		wait_for_all(1);
	}
	read_in_new_process(s, list);
	assert_int_equal(strlen(list), SEAL_LIST_SIZE - 1);
}

UNIT_MAIN(NULL, NULL)
