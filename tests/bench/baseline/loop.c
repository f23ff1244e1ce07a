/*
 * What Redis itself can do for a consumer, by the shortest loop there is. No handler, no lease, no end.
 *
 *	loop SOCKET pair P JOBS KEY TRANSIT	P x RPOPLPUSH, then P x LREM, each a pipeline; until KEY is empty
 *	loop SOCKET two JOBS KEY TRANSIT	BRPOPLPUSH, LREM: two round trips
 *	loop SOCKET one JOBS KEY TRANSIT	LREM n with BRPOPLPUSH n+1: one
 *	loop SOCKET brpop KEY PROGRAM [ARG]	BRPOP, then spawn, feed, wait; for ever (loses what it holds)
 *	loop SOCKET push KEY RATE COUNT BURST PREFIX SUFFIX DB	BURST at a time, each with the nanosecond it is pushed at
 *
 * The first three print the number of messages and the time.
 */
#include <sys/wait.h>

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <hiredis/hiredis.h>

#define P_MAX 1024

extern char **environ;

static int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	_exit(1);
}

static redisReply *reply(redisContext *c)
{
	void *r = NULL;

	must(redisGetReply(c, &r) == REDIS_OK, c->errstr);
	must(((redisReply *)r)->type != REDIS_REPLY_ERROR, ((redisReply *)r)->str);
	return r;
}

static void remove_later(redisContext *c, const char *transit, const redisReply *r)
{
	redisAppendCommand(c, "LREM %s -1 %b", transit, r->str, r->len);
}

static void removed(redisContext *c)
{
	redisReply *r = reply(c);

	must(r->integer == 1, "LREM");
	freeReplyObject(r);
}

static uint64_t pair(redisContext *c, int p, const char *key, const char *transit)
{
	redisReply *got[P_MAX];
	uint64_t n = 0;
	bool more = true;

	while (more) {
		for (int i = 0; i < p; i++)
			redisAppendCommand(c, "RPOPLPUSH %s %s", key, transit);
		for (int i = 0; i < p; i++) {
			got[i] = reply(c);
			more = got[i]->type == REDIS_REPLY_STRING;
			if (more)
				remove_later(c, transit, got[i]);
		}
		for (int i = 0; i < p; i++) {
			if (got[i]->type == REDIS_REPLY_STRING) {
				removed(c);
				n++;
			}
			freeReplyObject(got[i]);
		}
	}
	return n;
}

static uint64_t two(redisContext *c, const char *key, const char *transit)
{
	redisReply *r;
	uint64_t n = 0;

	for (;; n++) {
		redisAppendCommand(c, "BRPOPLPUSH %s %s 1", key, transit);
		r = reply(c);
		if (r->type != REDIS_REPLY_STRING)
			return n;
		remove_later(c, transit, r);
		removed(c);
		freeReplyObject(r);
	}
}

static uint64_t one(redisContext *c, const char *key, const char *transit)
{
	redisReply *r, *next;
	uint64_t n = 0;

	redisAppendCommand(c, "BRPOPLPUSH %s %s 1", key, transit);
	for (r = reply(c); r->type == REDIS_REPLY_STRING; r = next, n++) {
		remove_later(c, transit, r);
		redisAppendCommand(c, "BRPOPLPUSH %s %s 1", key, transit);
		removed(c);
		next = reply(c);
		freeReplyObject(r);
	}
	return n;
}

/* The last second of the two blocking ones is waiting: it does not count. */
static int drain(const char *path, char **argv, int argc)
{
	bool pairs = strcmp(argv[0], "pair") == 0;
	int p = pairs ? atoi(argv[1]) : 1, jobs, pipes[2];
	uint64_t totals[2], n = 0;
	int64_t begin = now_ns(), end = 0;

	argv += pairs;
	must(argc - pairs == 4 && p > 0 && p <= P_MAX && pipe(pipes) == 0, "arguments");
	jobs = atoi(argv[1]);
	for (int i = 0; i < jobs; i++) {
		if (fork() == 0) {
			redisContext *c = redisConnectUnix(path);
			char transit[256];

			must(c != NULL && c->err == 0, "connect");
			snprintf(transit, sizeof(transit), "%s:%d", argv[3], i);
			totals[0] = pairs ? pair(c, p, argv[2], transit)
				  : strcmp(argv[0], "two") == 0 ? two(c, argv[2], transit) : one(c, argv[2], transit);
			totals[1] = (uint64_t)(now_ns() - (pairs ? 0 : 1000000000));
			_exit(write(pipes[1], totals, sizeof(totals)) != sizeof(totals));
		}
	}
	close(pipes[1]);
	for (int i = 0; i < jobs; i++) {
		must(read(pipes[0], totals, sizeof(totals)) == sizeof(totals), "a loop");
		n += totals[0];
		end = (int64_t)totals[1] > end ? (int64_t)totals[1] : end;
	}
	printf("%llu %.6f\n", (unsigned long long)n, (double)(end - begin) / 1e9);
	return 0;
}

static void spawn(char **argv, const redisReply *message)
{
	int in[2];
	pid_t pid;

	must(pipe2(in, O_CLOEXEC) == 0, "pipe");
	must(write(in[1], message->str, message->len) == (ssize_t)message->len, "write");
	close(in[1]);
	pid = vfork();
	if (pid == 0) {
		dup2(in[0], 0);
		execve(argv[0], argv, environ);
		_exit(127);
	}
	close(in[0]);
	must(pid != -1 && waitpid(pid, NULL, 0) == pid, "spawn");
}

_Noreturn static void brpop(redisContext *c, char **argv)
{
	for (;;) {
		redisAppendCommand(c, "BRPOP %s 0", argv[1]);
		redisReply *r = reply(c);

		if (r->type == REDIS_REPLY_ARRAY)
			spawn(argv + 2, r->element[1]);
		freeReplyObject(r);
	}
}

static int push(redisContext *c, char **argv)
{
	double rate = atof(argv[2]);
	long count = atol(argv[3]);
	int burst = atoi(argv[4]);
	int64_t begin;

	freeReplyObject(redisCommand(c, "SELECT %s", argv[7]));
	begin = now_ns();
	for (long sent = 0; sent < count; sent += burst) {
		int64_t due = begin + (int64_t)((double)sent / rate * 1e9);
		struct timespec ts = { .tv_sec = due / 1000000000, .tv_nsec = due % 1000000000 };

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
		for (int i = 0; i < burst; i++)
			redisAppendCommand(c, "LPUSH %s %s%lld%s", argv[1], argv[5], (long long)now_ns(), argv[6]);
		for (int i = 0; i < burst; i++)
			freeReplyObject(reply(c));
	}
	return 0;
}

int main(int argc, char **argv)
{
	redisContext *c;

	must(argc >= 5, "arguments");
	if (strcmp(argv[2], "brpop") != 0 && strcmp(argv[2], "push") != 0)
		return drain(argv[1], argv + 2, argc - 2);
	c = redisConnectUnix(argv[1]);
	must(c != NULL && c->err == 0, "connect");
	if (strcmp(argv[2], "brpop") == 0)
		brpop(c, argv + 2);
	must(argc == 10, "arguments");
	return push(c, argv + 2);
}
