/*
 * The commands that open a connection: those that make a server ready for its caller, or the question to a Sentinel for
 * the master. Their answers never reach the caller.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "common/redis/greeting.h"

#include "common/redis/redis.h"
#include "common/redis/reply.h"

#define REPLICA "the server is a replica, not a master"

enum greeting { GREETING_AUTH, GREETING_SELECT, GREETING_NAME, GREETING_ID, GREETING_ROLE, GREETING_MASTER,
    GREETING_MORE };

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
	r->greeting_last = r->greetings_sent;
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
	r->greeting_last = r->greetings_sent;
	r->pending = 0;
}

/* A replica that takes writes would lose what it takes, so the role is asked in another way. Its answer comes after all
 * others. */
static void ask_role_again(struct redis *r)
{
	redis_appendf(r, "INFO replication");
	r->pending = 0;
	r->greeting_role = ++r->greetings_sent;
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
	/* Said before the connection ends, instead of an answer to the first command. */
	if (strstr(reply->str, "max number of clients") != NULL)
		return false;
	/* Servers and access lists without these commands can be used all the same. */
	if (g == GREETING_NAME || g == GREETING_ID || g == GREETING_ROLE)
		return strncmp(reply->str, "ERR", 3) == 0 || strncmp(reply->str, "NOPERM", 6) == 0;
	return false;
}

static bool is_text(struct redis_reply v, const char *text)
{
	return v.type == REDIS_STRING && strcmp(v.str, text) == 0;
}

/* The answer to ask_role_again(). Where INFO is refused, too, or hides the role, a replica shows itself by READONLY at
 * the first write. */
static int take_role(struct redis *r, const struct redis_reply *v)
{
	char role[16];
	bool is_replica = v->type == REDIS_STRING && redis_info_value(v->str, v->len, "role", role, sizeof(role)) &&
	    strcmp(role, "slave") == 0;

	return is_replica ? redis_fail(r, REPLICA, REDIS_ERROR_TRANSIENT) : 0;
}

/* Many hosted services have only database 0. */
static int fail_refused(struct redis *r, enum greeting g, const struct redis_reply *v)
{
	enum redis_error_class class = redis_error_class(v);
	char why[160];

	if (g != GREETING_SELECT || (class != REDIS_ERROR_NO_COMMAND && class != REDIS_ERROR_PERMISSION))
		return redis_fail(r, v->str, class);
	snprintf(why, sizeof(why), "'SELECT' of database %d, which redis.url names: %s", r->target->db, v->str);
	return redis_fail(r, why, class);
}

/*
 * A replica is refused, but only at the end of the opening: one of a Redis Cluster answers a later command with MOVED,
 * which names the master. After a rolling upgrade all nodes that redis.url names may be replicas.
 */
static int judge_role(struct redis *r, const struct redis_reply *role)
{
	if (role->type != REDIS_ARRAY || role->n == 0 || is_text(redis_element(role, 0), "master"))
		return 0;
	if (is_text(redis_element(role, 0), "sentinel"))
		return redis_fail(r,
		    "the server is a Sentinel: name it in redis.sentinels, and what it watches in redis.master",
		    REDIS_ERROR_TRANSIENT);
	r->is_replica = true;
	return 0;
}

/* The answer to greet's last command, or to one that followed from it. */
static int take_last(struct redis *r, const struct redis_reply *v)
{
	const char *why = r->greeted(r, v);

	if (why != NULL)
		return redis_fail(r, why, REDIS_ERROR_TRANSIENT);
	if (r->pending > 0) {
		r->greetings_sent += r->pending;
		r->greeting_last = r->greetings_sent;
		r->pending = 0;
	}
	return 0;
}

int greeting_take(struct redis *r, const struct redisReply *reply)
{
	struct redis_reply v = redis_reply_view(reply);
	const char *why;
	int i = r->greetings_taken++;
	enum greeting g = i < (int)sizeof(r->greetings) && i < r->greeting_last && r->greetings[i] < GREETING_MORE
	    ? r->greetings[i] : GREETING_MORE;

	if (r->greeting_role == r->greetings_taken)
		return take_role(r, &v);
	if (v.type == REDIS_ERROR && tolerated(g, reply)) {
		if (g == GREETING_ROLE)
			ask_role_again(r);
		return 0;
	}
	if (v.type == REDIS_ERROR && route_follow(&r->route, r->target, v.str))
		return 1;
	if (v.type == REDIS_ERROR)
		return r->is_replica && !redis_error_is(&v, "MOVED") ? redis_fail(r, REPLICA, REDIS_ERROR_TRANSIENT)
		    : fail_refused(r, g, &v);
	if (g == GREETING_MASTER && r->stays && v.type == REDIS_NIL)
		return 0;
	if (g == GREETING_MASTER && (why = route_take_master(&r->route, &v)) != NULL)
		return redis_fail(r, why, REDIS_ERROR_LOST);
	if (g == GREETING_ID && v.type == REDIS_INTEGER)
		r->client_id = v.integer;
	if (g == GREETING_ROLE && judge_role(r, &v) == -1)
		return -1;
	if (r->is_replica)
		return r->greetings_taken == r->greetings_sent ? redis_fail(r, REPLICA, REDIS_ERROR_TRANSIENT) : 0;
	return g == GREETING_MORE && r->greeted != NULL && r->greetings_taken == r->greeting_last ? take_last(r, &v)
	    : 0;
}
