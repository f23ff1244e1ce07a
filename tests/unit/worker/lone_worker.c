/* The worker that tests of its components share, and what stands there for its session. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/worker/lone_worker.h"

#include "common/base/base.h"
#include "tests/unit/sealed.h"

struct lone_worker lone;
struct private_redis lone_server;

static char *const handler[] = { (char *)"/bin/true", NULL };

/* ---- the session ---- */

void session_expect(struct worker *w, enum answer answer, int tray, int item, int64_t due_ms)
{
	assert_ptr_equal(w, lone.w);
	lone.expected++;
	lone.last = (struct expected){ (uint8_t)answer, (int8_t)tray, (int16_t)item };
	lone.due_ms = due_ms;
}

void errors_report(struct worker *w, const char *what, const struct redis_reply *error)
{
	assert_ptr_equal(w, lone.w);
	assert_non_null(error);
	lone.reported++;
	lone.at = what;
}

void errors_of_connection(struct errors *e, const char *what)
{
	e->of_connection = what;
}

void errors_clear(struct worker *w)
{
	assert_ptr_equal(w, lone.w);
	lone.cleared++;
}

void session_drop(struct worker *w, const struct redis_reply *error, int64_t now_ms)
{
	(void)error, (void)now_ms;
	assert_ptr_equal(w, lone.w);
	lone.dropped++;
}

/* ---- the worker ---- */

void lone_worker_begin(bool shared)
{
	lone = (struct lone_worker){ .w = alloc_zero(1, sizeof(*lone.w)), .board = scoreboard_new() };
	assert_non_null(lone.board);
	lone.conf.supervisor.node = (char *)"n";
	lone.conf.supervisor.lease_ms = LONE_LEASE_MS;
	lone.queue = (struct conf_queue){ .name = (char *)"mail", .ingress = (char *)"i", .transit = (char *)"t", .escape = (char *)"e",
		.handler = (char **)handler, .headers = true, .shared = shared, .ttl_ms = -1, .message_max = 1 << 20 };
	lone.child = (struct child){ .conf = &lone.conf, .queue = &lone.queue, .board = lone.board, .slot = 1, .index = 2, .boot = 0xb0 };
	lone.env = env_new(&lone.child);
	lone.w->env = lone.env;
	tray_init(&lone.w->trays, &lone.env->keys);
	queue_owner_init(&lone.w->session.owner, &lone.env->keys, LONE_INCARNATION, LONE_LEASE_MS);
	memcpy(lone.w->session.incarnation, LONE_INCARNATION, sizeof(LONE_INCARNATION));
	lone.w->session.redis.state = REDIS_READY;
	lone.w->session.registered = lone.w->session.confirmed = true;
}

void lone_worker_end(void)
{
	if (lone.w->session.redis.context != NULL)
		redis_close(&lone.w->session.redis, NULL);
	queue_owner_free(&lone.w->session.owner);
	tray_free_all(&lone.w->trays);
	free(lone.w);
	env_free(lone.env);
	scoreboard_free(lone.board);
}

int lone_worker_setup(void **state)
{
	(void)state;
	lone_worker_begin(false);
	return 0;
}

int lone_worker_teardown(void **state)
{
	(void)state;
	lone_worker_end();
	return 0;
}

int lone_worker_start_server(void **state)
{
	(void)state;
	private_redis_start(&lone_server, false);
	return 0;
}

int lone_worker_stop_server(void **state)
{
	(void)state;
	private_redis_stop(&lone_server);
	return 0;
}

void lone_worker_connect(void)
{
	struct redis *r = &lone.w->session.redis;

	redis_init(r, &lone_server.target, "worker");
	queue_greets(r, true, NULL);
	if (redis_connect(r, REDIS_TIMEOUT_MS, NULL) == -1)
		fail_msg("%s", r->error);
	REDIS(&lone_server, "FLUSHDB");
	queue_renew(r, &lone.w->session.owner, NULL, "{}");
	assert_int_equal(lone_worker_answer().integer, 0);
}

struct redis_reply lone_worker_answer(void)
{
	struct redis_reply reply = {0};

	assert_true(lone.w->session.redis.pending > 0);
	if (redis_wait(&lone.w->session.redis, &reply, 20000, NULL) == -1)
		fail_msg("%s", lone.w->session.redis.error);
	return reply;
}

void lone_worker_add(int tray, const char *raw)
{
	tray_add(&lone.w->trays, tray, raw, strlen(raw), false);
}

void lone_worker_add_sealed(int tray, const char *raw)
{
	struct message_keys keys = sealed_learn("i");
	struct buffer sealed = {0};

	sealed_append(&sealed, &keys, raw, strlen(raw));
	tray_add(&lone.w->trays, tray, sealed.data, sealed.len, false);
	buffer_free(&sealed);
}
