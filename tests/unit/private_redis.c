/* Starts and stops the redis-server of a unit test. */
#include <sys/prctl.h>
#include <sys/wait.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/private_redis.h"

#include "common/base/clock.h"
#include "common/queue/moves.h"

#define START_MS 20000

static _Noreturn void run_server(const struct private_redis *p, pid_t parent)
{
	const char *server = getenv("QUREDIS_TEST_SERVER");
	char socket[96];

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	snprintf(socket, sizeof(socket), "%s/s", p->dir);
	execlp(server != NULL ? server : "redis-server", "redis-server", "--port", "0", "--unixsocket", socket, "--dir", p->dir, "--save", "",
	    "--appendonly", p->aof ? "yes" : "no", "--appendfsync", "always", "--logfile", "log", "--loglevel", "warning", NULL);
	_exit(1);
}

void private_redis_connect(struct private_redis *p)
{
	int64_t until = clock_monotonic_ms() + START_MS;

	redis_close(&p->r, NULL);
	while (redis_connect(&p->r, REDIS_TIMEOUT_MS, NULL) == -1) {
		assert_true(clock_monotonic_ms() < until);
		usleep(5000);
	}
}

static void launch(struct private_redis *p)
{
	pid_t parent = getpid();

	p->pid = fork();
	assert_int_not_equal(p->pid, -1);
	if (p->pid == 0)
		run_server(p, parent);
	private_redis_connect(p);
}

void private_redis_start(struct private_redis *p, bool aof)
{
	char error[128];

	*p = (struct private_redis){ .aof = aof };
	strcpy(p->dir, "/tmp/qu.XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	snprintf(p->url, sizeof(p->url), "unix://%s/s", p->dir);
	assert_int_equal(redis_target_parse(&p->target, &(struct redis_options){ .url = p->url }, error, sizeof(error)), 0);
	redis_init(&p->r, &p->target, "test");
	queue_greets(&p->r, true, NULL);
	launch(p);
}

static void end(struct private_redis *p)
{
	kill(p->pid, SIGKILL);
	assert_int_equal(waitpid(p->pid, NULL, 0), p->pid);
}

void private_redis_restart(struct private_redis *p)
{
	end(p);
	launch(p);
}

void private_redis_stop(struct private_redis *p)
{
	char command[96];

	redis_close(&p->r, NULL);
	end(p);
	redis_target_free(&p->target);
	snprintf(command, sizeof(command), "rm -rf %s", p->dir);
	assert_int_equal(system(command), 0);
}

struct redis_reply private_redis_answer_or_error(struct private_redis *p)
{
	struct redis_reply reply = {0};

	if (redis_wait(&p->r, &reply, 20000, NULL) == -1)
		fail_msg("%s", p->r.error);
	return reply;
}

struct redis_reply private_redis_answer(struct private_redis *p)
{
	struct redis_reply reply = private_redis_answer_or_error(p);

	if (reply.type == REDIS_ERROR)
		fail_msg("%s", reply.str);
	return reply;
}
