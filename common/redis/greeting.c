/*
 * The commands that open a connection: those that make a server ready for its caller, or the question to a Sentinel for the master. Their answers never
 * reach the caller.
 */
#include <stdint.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/redis/greeting.h"

#include "common/redis/redis.h"
#include "common/redis/reply.h"

enum greeting { GREETING_AUTH, GREETING_SELECT, GREETING_NAME, GREETING_ID, GREETING_ROLE, GREETING_MASTER, GREETING_MORE };

static void greet_with(struct redis *r, enum greeting g)
{
	r->greetings[r->greetings_sent++] = (uint8_t)g;
}

static void append_login(struct redis *r, const struct redis_login *login)
{
	if (login->password == NULL)
		return;
	if (login->user != NULL)
		redis_appendf(r, "AUTH %s %s", login->user, login->password);
	else
		redis_appendf(r, "AUTH %s", login->password);
	greet_with(r, GREETING_AUTH);
}

static void append_question(struct redis *r)
{
	append_login(r, &r->target->sentinel_login);
	redis_appendf(r, "SENTINEL GET-MASTER-ADDR-BY-NAME %s", r->target->master);
	greet_with(r, GREETING_MASTER);
	r->pending = 0;
}

static void append_greetings(struct redis *r)
{
	const struct redis_target *t = r->target;

	append_login(r, &t->login);
	if (t->db != 0) {
		redis_appendf(r, "SELECT %d", (int64_t)t->db);
		greet_with(r, GREETING_SELECT);
	}
	if (r->name != NULL) {
		redis_appendf(r, "CLIENT SETNAME %s", r->name);
		greet_with(r, GREETING_NAME);
	}
	redis_appendf(r, "CLIENT ID");
	greet_with(r, GREETING_ID);
	redis_appendf(r, "ROLE");
	greet_with(r, GREETING_ROLE);
	r->pending = 0;
	if (r->greet != NULL)
		r->greet(r);
	r->greetings_sent += r->pending;
	r->pending = 0;
}

void greeting_append(struct redis *r)
{
	if (r->route.asks)
		append_question(r);
	else
		append_greetings(r);
}

static bool tolerated(enum greeting g, const redisReply *reply)
{
	/* Servers and access lists without these commands can be used all the same. */
	if (g == GREETING_NAME || g == GREETING_ID || g == GREETING_ROLE)
		return strncmp(reply->str, "ERR", 3) == 0 || strncmp(reply->str, "NOPERM", 6) == 0;
	return false;
}

static bool is_text(struct redis_reply v, const char *text)
{
	return v.type == REDIS_STRING && strcmp(v.str, text) == 0;
}

int greeting_take(struct redis *r, const struct redisReply *reply)
{
	struct redis_reply v = redis_reply_view(reply);
	const char *why;
	int i = r->greetings_taken++;
	enum greeting g = i < (int)sizeof(r->greetings) && r->greetings[i] < GREETING_MORE ? r->greetings[i] : GREETING_MORE;

	if (v.type == REDIS_ERROR && tolerated(g, reply))
		return 0;
	if (v.type == REDIS_ERROR)
		return redis_fail(r, v.str, redis_error_class(&v));
	if (g == GREETING_MASTER && (why = route_take_master(&r->route, &v)) != NULL)
		return redis_fail(r, why, REDIS_ERROR_TRANSIENT);
	if (g == GREETING_ID && v.type == REDIS_INTEGER)
		r->client_id = v.integer;
	if (g == GREETING_ROLE && v.type == REDIS_ARRAY && v.n > 0 && !is_text(redis_element(&v, 0), "master"))
		return redis_fail(r, "the server is a replica, not a master", REDIS_ERROR_TRANSIENT);
	if (g == GREETING_MORE && r->greeted != NULL && r->greetings_taken == r->greetings_sent && (why = r->greeted(&v)) != NULL)
		return redis_fail(r, why, REDIS_ERROR_TRANSIENT);
	return 0;
}
