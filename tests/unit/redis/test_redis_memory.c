/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=redisFormatCommandArgv,--wrap=redisAppendCommandArgv,--wrap=redisAppendFormattedCommand */
/* A command that there is no memory for: nobody waits for its answer, or takes another's for it. */
#include <string.h>

#include <hiredis/hiredis.h>
#include <hiredis/sds.h>

#include "common/redis/redis.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/unit.h"

static struct private_redis server;
static int until_none = -1;	/* calls of hiredis that still have memory; -1: all */

/* ---- hiredis without memory, as it says so ---- */

int __real_redisFormatCommandArgv(char **target, int argc, const char **argv, const size_t *lens);
int __wrap_redisFormatCommandArgv(char **target, int argc, const char **argv, const size_t *lens);
int __real_redisAppendCommandArgv(redisContext *c, int argc, const char **argv, const size_t *lens);
int __wrap_redisAppendCommandArgv(redisContext *c, int argc, const char **argv, const size_t *lens);
int __real_redisAppendFormattedCommand(redisContext *c, const char *command, size_t len);
int __wrap_redisAppendFormattedCommand(redisContext *c, const char *command, size_t len);

static bool refused(void)
{
	if (until_none <= 0)
		return until_none == 0;
	until_none--;
	return false;
}

static int refuse(redisContext *c)
{
	c->err = REDIS_ERR_OOM;
	strcpy(c->errstr, "Out of memory");
	return REDIS_ERR;
}

int __wrap_redisFormatCommandArgv(char **target, int argc, const char **argv, const size_t *lens)
{
	return refused() ? -1 : __real_redisFormatCommandArgv(target, argc, argv, lens);
}

int __wrap_redisAppendCommandArgv(redisContext *c, int argc, const char **argv, const size_t *lens)
{
	return refused() ? refuse(c) : __real_redisAppendCommandArgv(c, argc, argv, lens);
}

int __wrap_redisAppendFormattedCommand(redisContext *c, const char *command, size_t len)
{
	return refused() ? refuse(c) : __real_redisAppendFormattedCommand(c, command, len);
}

/* ---- tests ---- */

static int start(void **unused)
{
	(void)unused;
	private_redis_start(&server, false);
	return 0;
}

static int stop(void **unused)
{
	(void)unused;
	private_redis_stop(&server);
	return 0;
}

/* At the next flush, before anybody waits for an answer. */
static void closes(void)
{
	assert_int_equal(redis_flush(&server.r), -1);
	assert_int_equal(server.r.state, REDIS_CLOSED);
	assert_int_equal(server.r.pending, 0);
	assert_non_null(strstr(server.r.error, "Out of memory"));
	until_none = -1;
	private_redis_connect(&server);
	assert_int_equal(REDIS_INT(&server, "LLEN l"), 0);
}

TEST(one_command)
{
	until_none = 0;
	redis_appendf(&server.r, "LPUSH l a");
	closes();
}

TEST(one_behind_another)
{
	until_none = 1;
	redis_appendf(&server.r, "LLEN l");
	redis_appendf(&server.r, "LPUSH l a");
	closes();
}

TEST(several_at_once)
{
	struct redis_command push = {0};

	redis_format(&push, "LPUSH %s %s", "l", "a");
	for (int memory = 0; memory < 3; memory++) {
		until_none = memory;
		redis_append_command(&server.r, &push, 3);
		closes();
	}
	redis_command_free(&push);
}

/* The buffer keeps commands that wait to be sent, and no memory of those that were sent. */
TEST(memory_of_sent_commands)
{
	static char large[100000];

	redis_appendf(&server.r, "ECHO %b", large, sizeof(large));
	redis_free_memory(&server.r);
	assert_int_equal(private_redis_answer(&server).len, sizeof(large));
	redis_free_memory(&server.r);
	assert_int_equal(sdsalloc(server.r.context->obuf), 0);
	assert_int_equal(REDIS_INT(&server, "LLEN l"), 0);
}

UNIT_MAIN(start, stop)
