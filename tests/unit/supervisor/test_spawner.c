/* links: tests/unit/supervisor/master_fixture.c tests/unit/descriptors.c */
/* ldflags: -Wl,--wrap=kill,--wrap=fork,--wrap=log_write,--wrap=keeper_run,--wrap=cgroup_make,--wrap=cgroup_enter,--wrap=cgroup_remove */
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/descriptors.h"
#include "tests/unit/supervisor/master_fixture.h"
#include "tests/unit/unit.h"

/* In a child, where a failed assertion of cmocka would go on with the next test. */
#define CHECK(what)                                                                                \
	do                                                                                         \
		if (!(what)) {                                                                     \
			dprintf(STDERR_FILENO, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what); \
			_exit(1);                                                                  \
		}                                                                                  \
	while (0)

#define HANG_MS 60000

static struct spawner *s = &m.spawner;
static int cgroup_fd;		/* what cgroup_make() returns */
static int inherited[4];	/* numbers of descriptors, as the master has them */

_Noreturn void __wrap_keeper_run(const struct conf *conf, struct scoreboard *board, int slot, int life_fd);
int __wrap_cgroup_make(const char *name);
int __wrap_cgroup_enter(int fd);
void __wrap_cgroup_remove(int fd, const char *name);

int __wrap_cgroup_make(const char *name)
{
	(void)name;
	errno = EROFS;
	return cgroup_fd;
}

int __wrap_cgroup_enter(int fd)
{
	setenv("ENTERED", "yes", 1);
	return fd == cgroup_fd ? 0 : -1;
}

void __wrap_cgroup_remove(int fd, const char *name)
{
	(void)name;
	close(fd);
}

static int setup(void **state)
{
	int r = master_setup(state);

	cgroup_fd = -1;
	m.lock.fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	memset(m.lock.text.key, 0x55, sizeof(m.lock.text.key));
	strcpy(m.lock.identity, "lock:1");
	return r;
}

static int teardown(void **state)
{
	int *fds[] = { &s->life_fd[0], &s->life_fd[1], &s->keeper_fd[0], &s->keeper_fd[1], &m.lock.fd };

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (*fds[i] != -1)
			close(*fds[i]);
	return master_teardown(state);
}

static void open_spawner(bool embedded)
{
	const char *what;

	assert_int_equal(spawner_open(s, embedded, &what), 0);
}

static int fork_worker(int64_t now_ms)
{
	struct spawner_worker w = { .conf = m.config.conf->queues[MAIL], .queue = MAIL, .index = 1, .handler_generation = 7, .order = ORDER_QUIET };

	return spawner_fork_worker(s, m.config.conf, 3, &w, now_ms);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) != -1;
}

static void child_succeeds(void)
{
	int status = 0;

	assert_int_equal(waitpid(master_forks.pid, &status, 0), master_forks.pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- in the master ---- */

TEST(a_worker_has_its_place_role_and_order_before_it_lives, setup, teardown)
{
	struct conf_queue *conf = m.config.conf->queues[MAIL];
	const struct process *p;
	int slot;

	conf->kill_grace_ms = 1234;
	conf->fence = CONF_FENCE_KILL;
	slot = fork_worker(500);
	p = &m.processes.items[slot];
	assert_int_equal(p->state, PROCESS_SERVING);
	assert_int_equal(p->pid, MASTER_PID);
	assert_int_equal(p->spawned_ms, 500);
	assert_int_equal(p->role.kind, PROCESS_WORKER);
	assert_string_equal(p->role.queue_name, "mail");
	assert_int_equal(p->role.index, 1);
	assert_int_equal(p->role.epoch, 3);
	assert_int_equal(p->role.kill_grace_ms, 1234);
	assert_true(p->role.fence_kills);
	assert_int_equal(p->role.socket, -1);
	assert_int_equal(atomic_load(&m.board->master.orders[slot]), ORDER_QUIET);
	assert_logged("worker_started", "info queue=mail worker=mail/1 child=5000000 slot=1");
}

TEST(a_queue_that_finishes_at_its_fence_does_not_kill, setup, teardown)
{
	assert_false(m.processes.items[fork_worker(0)].role.fence_kills);
}

TEST(a_fork_that_fails_frees_the_slot_and_waits, setup, teardown)
{
	master_forks.error = EAGAIN;
	assert_int_equal(fork_worker(1000), -1);
	assert_int_equal(s->retry_at_ms, 2000);
	assert_false(processes_any(&m.processes, PROCESS_ANY));
	assert_logged("fork_failed", "error worker=mail/1 reason=Resource temporarily unavailable retry_ms=1000");
	assert_null(master_logged("worker_started"));
	master_forks.error = 0;
	assert_int_equal(fork_worker(2000), 1);
}

TEST(the_wait_doubles_up_to_thirty_seconds_and_ends_with_a_success, setup, teardown)
{
	static const int64_t waits[] = { 1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000 };

	master_forks.error = ENOMEM;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		fork_worker(0);
		assert_int_equal(s->retry_at_ms, waits[i]);
	}
	master_forks.error = 0;
	assert_int_not_equal(fork_worker(0), -1);
	master_forks.error = ENOMEM;
	fork_worker(0);
	assert_int_equal(s->retry_at_ms, 1000);
}

TEST(without_a_free_slot_nothing_is_forked, setup, teardown)
{
	for (int i = 1; i < SCOREBOARD_SLOTS; i++)
		master_add_worker(MAIL, 0, 0);
	master_forks.n = 0;
	assert_int_equal(fork_worker(0), -1);
	assert_int_equal(master_forks.n, 0);
	assert_logged("fork_failed", "reason=No space left on device");
	assert_int_equal(spawner_fork_sweeper(s, m.config.conf, 0, 0), 0);	/* its slot is kept free */
}

TEST(a_sweeper_that_cannot_be_forked_leaves_no_descriptor, setup, teardown)
{
	size_t before = descriptors_open();

	master_forks.error = EAGAIN;
	assert_int_equal(spawner_fork_sweeper(s, m.config.conf, 0, 0), -1);
	assert_int_equal(descriptors_open(), before);
	assert_logged("fork_failed", "worker=sweeper");
	master_forks.error = 0;
	assert_int_equal(spawner_fork_sweeper(s, m.config.conf, 0, 0), 0);
	assert_int_equal(descriptors_open(), before + 1);	/* the master's end */
	assert_logged("sweeper_started", "child=5000000 slot=0");
}

TEST(only_an_embedded_redis_has_a_pipe_of_its_own, setup, teardown)
{
	open_spawner(false);
	assert_int_equal(s->keeper_fd[0], -1);
	assert_int_equal(fcntl(s->life_fd[0], F_GETFD), FD_CLOEXEC);
	assert_logged("cgroup_missing", "reason=Read-only file system");
	close(s->life_fd[0]);
	close(s->life_fd[1]);
	open_spawner(true);
	assert_int_equal(fcntl(s->keeper_fd[1], F_GETFD), FD_CLOEXEC);
	spawner_leave_keeper(s);
	assert_int_equal(s->keeper_fd[1], -1);
	spawner_leave_keeper(s);
}

/* ---- in the child ---- */

static void check_worker(const struct child *child)
{
	int sig = 0;
	sigset_t set;

	CHECK(child->queue == m.config.conf->queues[MAIL] && child->queue_index == MAIL && child->index == 1);
	CHECK(atomic_load(&child->board->slots[1].handler_generation) == 7 && child->slot == 1 && child->boot == 0xb0);
	CHECK(strcmp(child->lock_identity, "lock:1") == 0 && child->lock_key == NULL && child->master_pid == getppid());
	CHECK(child->master_fd == inherited[0] && is_open(inherited[0]));
	CHECK(!is_open(inherited[1]) && !is_open(inherited[2]) && is_open(inherited[3]));
	CHECK(m.processes.items[0].role.socket == -1);
	CHECK(getenv(LEFTOVERS_TOKEN_NAME) != NULL && strcmp(getenv("ENTERED"), "yes") == 0 && s->cgroup_fd == -1);
	for (size_t i = 0; i < sizeof(m.lock.text.key); i++)
		CHECK(m.lock.text.key[i] == 0);
	CHECK(is_open(m.lock.fd));
	CHECK(prctl(PR_GET_PDEATHSIG, &sig) == 0 && sig == SIGTERM);
	CHECK(prctl(PR_GET_CHILD_SUBREAPER, &sig) == 0 && sig == 1);
	CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0 && sigismember(&set, SIGTERM) == 1 && sigismember(&set, SIGABRT) == 0);
	CHECK(atomic_load(&child->board->slots[1].pid) == getpid());
}

TEST(a_worker_keeps_nothing_that_is_the_masters, setup, teardown)
{
	cgroup_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	open_spawner(true);
	spawner_fork_sweeper(s, m.config.conf, 0, 0);
	inherited[0] = s->life_fd[0];
	inherited[1] = s->life_fd[1];
	inherited[2] = s->keeper_fd[0];
	inherited[3] = s->keeper_fd[1];
	master_forks.child = check_worker;
	fork_worker(0);
	child_succeeds();
	assert_true(is_open(s->cgroup_fd));
	spawner_close(s);
	assert_int_equal(s->cgroup_fd, -1);
}

/* Waits for what the other end sends. */
static ssize_t hear(int fd, char *text, size_t size)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, HANG_MS) == 1 ? recv(fd, text, size, 0) : -1;
}

static void check_sweeper(const struct child *child)
{
	char text[8] = "";

	CHECK(hear(child->master_fd, text, sizeof(text)) == 5 && memcmp(text, "hello", 5) == 0);
	CHECK(send(child->master_fd, "yes", 3, 0) == 3);
	CHECK(hear(child->master_fd, text, sizeof(text)) == 0);	/* the master closed its end, and no child holds it */
	CHECK(child->lock_key == m.lock.text.key && m.lock.text.key[0] == 0x55 && child->handler_users == &m.lock.text.users);
	CHECK(!is_open(inherited[0]) && !is_open(inherited[1]) && child->queue == NULL && child->queue_index == -1);
	CHECK(child->queue_index_of("later") == LATER && child->queue_index_of("none") == -1);
	CHECK(getenv(LEFTOVERS_TOKEN_NAME) != NULL);
}

TEST(a_sweeper_has_the_other_end_of_the_masters_socket, setup, teardown)
{
	char text[8] = "";
	int fd, slot;

	open_spawner(false);
	inherited[0] = s->life_fd[0];
	inherited[1] = s->life_fd[1];
	master_forks.child = check_sweeper;
	slot = spawner_fork_sweeper(s, m.config.conf, 0, 0);
	fd = m.processes.items[slot].role.socket;
	assert_true((fcntl(fd, F_GETFL) & O_NONBLOCK) != 0);
	assert_int_equal(send(fd, "hello", 5, 0), 5);
	assert_int_equal(hear(fd, text, sizeof(text)), 3);
	processes_close_socket(&m.processes, slot);
	child_succeeds();
}

void __wrap_keeper_run(const struct conf *conf, struct scoreboard *board, int slot, int life_fd)
{
	CHECK(conf == m.config.conf && board == m.board && slot == 1);
	CHECK(life_fd == inherited[2] && is_open(inherited[2]));
	CHECK(!is_open(inherited[0]) && !is_open(inherited[1]) && !is_open(inherited[3]) && m.lock.fd == -1);
	CHECK(getenv(LEFTOVERS_TOKEN_NAME) == NULL && getenv("ENTERED") == NULL);
	_exit(0);
}

static void never(const struct child *child)
{
	(void)child;
	_exit(1);
}

TEST(the_keeper_holds_neither_the_lock_nor_the_pipe_that_ends_it, setup, teardown)
{
	open_spawner(true);
	memcpy(inherited, (int[]){ s->life_fd[0], s->life_fd[1], s->keeper_fd[0], s->keeper_fd[1] }, sizeof(inherited));
	master_forks.child = never;
	assert_int_equal(spawner_fork_keeper(s, m.config.conf, 0, 0), 1);
	child_succeeds();
	assert_logged("keeper_started", "slot=1");
}

static void check_core(const struct child *child)
{
	CHECK((prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 1) == child->conf->supervisor.core);
}

TEST(a_child_leaves_a_core_only_if_the_configuration_asks_for_it, setup, teardown)
{
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	open_spawner(false);
	master_forks.child = check_core;
	fork_worker(0);
	child_succeeds();
	m.config.conf->supervisor.core = true;
	fork_worker(0);
	child_succeeds();
	m.config.conf->supervisor.core = false;
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

int main(int argc, char *argv[], char *envp[])
{
	title_init(argc, argv, envp);
	return unit_run(NULL, NULL);
}
