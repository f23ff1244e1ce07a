#ifndef TESTS_UNIT_SWEEPER_SWEEPER_PROCESS_H
#define TESTS_UNIT_SWEEPER_SWEEPER_PROCESS_H

/*
 * For tests of a whole sweeper: the process runs against a private Redis, with the test program as its master. A test starts it, sends it what a master
 * sends, and looks at the scoreboard and at Redis. The process can be told to die at its Nth write.
 */
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <dirent.h>
#include <fcntl.h>
#include <mntent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "common/base/alloc.h"
#include "common/board/child.h"
#include "common/base/clock.h"
#include "common/queue/moves.h"
#include "common/queue/notes.h"
#include "common/queue/watch.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/sealed.h"
#include "sweeper/sweeper.h"

#define LOCK "boot:1:2"
#define BOOT UINT64_C(0x00000000000000b0)
#define OLD_BOOT "00000000000000a0"
#define OUR_BOOT "00000000000000b0"
#define WAIT_MS 30000
#define QUEUES 3

static struct private_redis server;
static struct conf conf;
static struct conf_queue queues[QUEUES], *queue_list_of[QUEUES];
static struct scoreboard *board;
static struct child child;
static int master_fd = -1;
static pid_t sweeper;

/* ---- death of the sweeper at a chosen write ---- */

static int writes_to_live;	/* 0: for ever */
static bool die_after_write;	/* else before it */
static pid_t dies_instead;	/* 0: the sweeper itself */
static bool in_sweeper;		/* this process is one */
static int writes_to_order;	/* until the master orders it to finish; 0: the test orders it */

/* What any sweeper did; shared with it. */
struct looks {
	_Atomic int processes, cgroups;		/* how often it began to look through all processes, and through the hierarchy of cgroups */
	_Atomic int writes_after_order;		/* to Redis */
};
static struct looks *looks;

int __real_redis_output_write(redisContext *c, struct redis_output *o);
int __wrap_redis_output_write(redisContext *c, struct redis_output *o);

int __wrap_redis_output_write(redisContext *c, struct redis_output *o)
{
	bool last = writes_to_live > 0 && --writes_to_live == 0;
	int rc;

	if (in_sweeper && atomic_load(&board->master.orders[0]) == ORDER_FINISH)
		atomic_fetch_add(&looks->writes_after_order, 1);
	if (in_sweeper && writes_to_order > 0 && --writes_to_order == 0)
		atomic_store(&board->master.orders[0], ORDER_FINISH);
	if (last && !die_after_write)
		raise(SIGKILL);
	rc = __real_redis_output_write(c, o);
	if (last)
		kill(dies_instead == 0 ? getpid() : dies_instead, SIGKILL);
	return rc;
}

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
FILE *__real_setmntent(const char *file, const char *type);
FILE *__wrap_setmntent(const char *file, const char *type);

DIR *__wrap_opendir(const char *name)
{
	if (strcmp(name, "/proc") == 0)
		atomic_fetch_add(&looks->processes, 1);
	return __real_opendir(name);
}

FILE *__wrap_setmntent(const char *file, const char *type)
{
	atomic_fetch_add(&looks->cgroups, 1);
	return __real_setmntent(file, type);
}

static const unsigned char lock_key[LEFTOVERS_KEY_SIZE] = "unit";
static const struct leftovers_users handler_users;	/* nobody: no process of this machine is a leftover */

/* ---- the master ---- */

static inline int index_of(const char *name)
{
	for (size_t i = 0; i < conf.nqueues; i++)
		if (strcmp(conf.queues[i]->name, name) == 0)
			return (int)i;
	return -1;
}

static inline _Noreturn void be_sweeper(int fd, int lives, bool after)
{
	int log = open(getenv("SWEEPER_LOG") != NULL ? getenv("SWEEPER_LOG") : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	sigset_t all;

	dup2(log, STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	redis_close(&server.r, NULL);
	log_process("sweeper");
	in_sweeper = true;
	writes_to_live = lives;
	die_after_write = after;
	child.master_fd = fd;
	sweeper_run(&child);
}

static inline void start_dying(int lives, bool after)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	child.master_pid = getpid();
	sweeper = fork();
	assert_int_not_equal(sweeper, -1);
	if (sweeper == 0) {
		close(fds[0]);
		be_sweeper(fds[1], lives, after);
	}
	close(fds[1]);
	master_fd = fds[0];
}

static inline void start(void)
{
	start_dying(0, false);
}

static inline int wait_end(int timeout_ms)
{
	int64_t until = clock_monotonic_ms() + timeout_ms;
	int status;

	while (waitpid(sweeper, &status, WNOHANG) == 0) {
		if (clock_monotonic_ms() >= until)
			fail_msg("the sweeper does not end");
		usleep(1000);
	}
	sweeper = 0;
	close(master_fd);
	master_fd = -1;
	return status;
}

static inline void order(enum order o)
{
	atomic_store(&board->master.orders[0], o);
	kill(sweeper, SIGTERM);
}

static inline void finish(void)
{
	order(ORDER_FINISH);
	assert_int_equal(wait_end(WAIT_MS), 0);
	atomic_store(&board->master.orders[0], ORDER_RUN);
}

static inline void kill9(void)
{
	kill(sweeper, SIGKILL);
	wait_end(WAIT_MS);
}

/* ---- waiting ---- */

#define WAIT_FOR(condition)                                                                        \
	for (int64_t until_ = clock_monotonic_ms() + WAIT_MS; !(condition); usleep(2000))          \
		if (clock_monotonic_ms() >= until_)                                                \
	fail_msg("waited in vain for %s", #condition)

static inline enum queue_gate gate(int queue)
{
	return (enum queue_gate)atomic_load(&board->queues[queue].sweeper.gate);
}

static inline enum queue_error error(int queue)
{
	return queue_error_in(atomic_load(&board->queues[queue].sweeper.error));
}

static inline void tell_death(struct child_death death, const char *queue)
{
	snprintf(death.queue, sizeof(death.queue), "%s", queue);
	death.queue_index = index_of(queue);
	assert_int_equal(send(master_fd, &death, sizeof(death), 0), sizeof(death));
}

static inline void tell(uint64_t serial, int slot, uint64_t generation, const char *queue)
{
	tell_death((struct child_death){ .serial = serial, .slot = slot, .first_generation = 1, .generation = generation, .blame = BLAME_WORKER }, queue);
}

/* The serial of the next answer about a death; 0: none within timeout_ms. */
static inline uint64_t told(int timeout_ms)
{
	struct pollfd p = { .fd = master_fd, .events = POLLIN };
	struct child_death_answer answer;

	do {
		if (poll(&p, 1, timeout_ms) != 1)
			return 0;
		assert_int_equal(recv(master_fd, &answer, sizeof(answer), 0), sizeof(answer));
	} while (answer.serial == CHILD_GATE_OPENED);
	return answer.serial;
}

/* ---- Redis ---- */

static inline void add_process(const char *queue, const char *incarnation, const char *lock, int pid)
{
	char *json = queue_registration(lock, "n", pid, 1, 0, false), *key = alloc_format("transit:%s:workers", queue);

	REDIS(&server, "HSET %s %s %s", key, incarnation, json);
	free(json);
	free(key);
}

/* Each is a process of its own. */
static inline void add_worker(const char *queue, const char *incarnation, const char *lock)
{
	static int pid = 1000;

	add_process(queue, incarnation, lock, ++pid);
}

static inline void annotate(const char *incarnation, const char *key, const char *value)
{
	struct queue_keys k;
	struct queue_owner o;

	queue_keys_default(&k, NULL, "mail");
	queue_owner_init(&o, &k, incarnation, 1000);
	queue_annotate(&server.r, &o, key, value);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_owner_free(&o);
	queue_keys_free(&k);
}

/* raw begins with a wrapper, which counts in this queue. */
static inline void push_sealed(const char *list, const char *ingress, const char *raw)
{
	struct message_keys keys = sealed_keys(ingress);
	struct buffer b = {0};

	sealed_append(&b, &keys, raw, strlen(raw));
	REDIS(&server, "RPUSH %s %b", list, b.data, b.len);
	buffer_free(&b);
}

/* Parts of entry i of a list of the queue with this ingress. */
static inline struct message entry_of(const char *list, const char *ingress, int64_t i)
{
	static char raw[1 << 16];
	struct redis_reply reply = REDIS(&server, "LINDEX %s %d", list, i);
	struct message_keys keys = sealed_keys(ingress);
	struct message m;

	assert_int_equal(reply.type, REDIS_STRING);
	memcpy(raw, reply.str, reply.len);
	message_parse(&m, &keys, raw, reply.len);
	return m;
}

static inline struct message entry(const char *ingress, int64_t i)
{
	return entry_of(ingress, ingress, i);
}

static inline void assert_payload(const struct message *m, const char *payload)
{
	assert_int_equal(message_payload_len(m), strlen(payload));
	assert_memory_equal(message_payload(m), payload, strlen(payload));
}

static inline int64_t llen(const char *list)
{
	return REDIS_INT(&server, "LLEN %s", list);
}

static inline uint64_t swept(int queue, enum counter c)
{
	return atomic_load(&board->queues[queue].sweeper.swept[c]);
}

/* ---- each test: an empty server, a new board ---- */

static char *handler[] = { (char *)"/bin/true", NULL };

static inline void make_queue(int i, const char *name)
{
	queues[i] = (struct conf_queue){ .headers = true, .message_max = 1 << 20, .name = alloc_string(name), .ingress = alloc_format("ingress:%s", name),
		.transit = alloc_format("transit:%s", name), .escape = alloc_format("escape:%s", name), .handler = handler,
		.recovery_attempts = 1, .dead_letter = { .enabled = true, .payload_max = 65536 },
		.purge = { .max_transit_age_ms = INT64_MAX, .max_ingress_age_ms = INT64_MAX, .max_message_age_ms = INT64_MAX } };
	queue_list_of[i] = &queues[i];
}

static inline int setup_all(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	make_queue(0, "mail");
	make_queue(1, "news");
	make_queue(2, "later");
	conf.redis.url = server.url;
	conf.supervisor.node = (char *)"n";
	conf.queues = queue_list_of;
	return 0;
}

static inline int teardown_all(void **state)
{
	(void)state;
	private_redis_stop(&server);
	for (int i = 0; i < QUEUES; i++) {
		free(queues[i].name);
		free(queues[i].ingress);
		free(queues[i].transit);
		free(queues[i].escape);
	}
	return 0;
}

static inline int setup(void **state)
{
	(void)state;
	if (sweeper != 0)
		kill9();	/* a test before failed */
	looks = mmap(NULL, sizeof(*looks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(looks, MAP_FAILED);
	board = scoreboard_new();
	conf.nqueues = 1;
	conf.redis.allow_eviction = false;
	conf.health.enabled = conf.purge.enabled = false;
	conf.purge.interval_ms = 60000;
	conf.redis.user = conf.redis.password = NULL;
	conf.supervisor.lease_ms = 30000;
	child = (struct child){ .conf = &conf, .board = board, .slot = 0, .queue_index_of = index_of, .boot = BOOT,
		.lock_identity = LOCK, .lock_key = lock_key, .handler_users = &handler_users };
	REDIS(&server, "FLUSHALL");
	REDIS(&server, "CONFIG SET maxmemory-policy noeviction");
	REDIS(&server, "CONFIG SET maxmemory 0");
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	if (sweeper != 0)
		kill9();
	scoreboard_free(board);
	return 0;
}

#endif
