/*
 * Notices that the Sentinels have promoted another master. A promotion normally ends the connections to the old master.
 * But a master that a broken network cuts off from its Sentinels keeps its connections, and what is written to it is
 * lost as soon as it returns as a replica. So the sweeper asks the Sentinels in turn, and has all processes of this
 * host reconnect when one of them names another server that is a master.
 *
 * But a Sentinel that was cut off with the old master names that one, which still says that it is a master. To follow
 * each Sentinel in turn would lead from one master to the other every few seconds, and what the old one takes is lost.
 * So more of the Sentinels must name the other server than the one in use.
 *
 * A worker that connects by itself asks one Sentinel, too. So the sweeper publishes which server most Sentinels name,
 * and a worker that has another one leaves it.
 */
#include <assert.h>
#include <string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"

#define EVERY_MS 5000

struct sentinel_watch {
	size_t at;		/* the Sentinel to ask next */
	uint64_t silent;	/* a bit for each Sentinel that did not answer last, which was logged */
	uint64_t agrees;	/* a bit for each Sentinel that named last the server that this connection has */
	int64_t connection;	/* redis.connection for which `agrees` holds */
	bool outvoted;		/* one names another server than most do, which was logged */
};

static_assert(REDIS_ADDRESSES_MAX <= 64, "a word of sentinel_watch has a bit for each");

static void log_silent(struct sentinel_watch *w, uint64_t sentinel, const struct redis *asked)
{
	if ((w->silent & sentinel) == 0)
		log_warning("sentinel_silent", log_str("error", asked->error));
	w->silent |= sentinel;
}

static bool is_same_node(const struct redis_route *a, const struct redis_route *b)
{
	return a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* One Sentinel may name a server by its host name, and another one by its address. A server that hides its run_id is
 * known by what it is named. */
static bool is_other_server(struct sweeper *s, struct redis *named)
{
	struct redis_identity id = {0};

	if (is_same_node(&named->route, &s->redis.route) || connection_identity(named, &id) == -1)
		return false;
	return !redis_identity_known(&id) || strcmp(id.run_id, s->server.is.run_id) != 0;
}

/* How many more Sentinels name this server than the one in use. A name that is neither counts for none: it may be
 * another name of either. */
static int votes_for(struct sweeper *s, const struct redis_route *named)
{
	int votes = 1;

	for (size_t i = 0; i < s->target.naddresses; i++) {
		struct redis asked;

		if (i == named->at)
			continue;
		redis_init(&asked, &s->target, s->connection.client_name);
		asked.brief = true;
		route_prefer(&asked.route, &s->target, i);
		if (connection_find_master(&asked) == 0)
			votes += is_same_node(&asked.route, named) - is_same_node(&asked.route, &s->redis.route);
	}
	return votes;
}

static void log_outvoted(struct sweeper *s, struct sentinel_watch *w, const struct redis_route *named)
{
	const struct redis_address *sentinel = &s->target.addresses[named->at];

	if (!w->outvoted)
		log_warning("sentinel_outvoted", log_str("sentinel", sentinel->host),
		    log_int("sentinel_port", sentinel->port),
		    log_str("names", named->host), log_int("names_port", named->port));
	w->outvoted = true;
}

static void announce_master(struct sweeper *s, const struct redis_route *to)
{
	log_warning("redis_master_changed", log_str("from", s->redis.route.host),
	    log_int("from_port", s->redis.route.port), log_str("to", to->host), log_int("to_port", to->port));
	scoreboard_announce_master(s->child->board, to->at);
	redis_fail(&s->redis, "a Sentinel named another master", REDIS_ERROR_LOST);
	route_prefer(&s->redis.route, &s->target, to->at);
}

static void judge_other(struct sweeper *s, struct sentinel_watch *w, const struct redis_route *named)
{
	if (votes_for(s, named) <= 0) {
		log_outvoted(s, w, named);
		return;
	}
	w->outvoted = false;
	announce_master(s, named);
}

/*
 * Asks the next Sentinel, and connects to the server that it names, so that the opening checks its role. Of a server
 * that cannot be reached it is not known whether it is another one.
 */
static void ask_sentinel(struct sweeper *s, struct sentinel_watch *w)
{
	uint64_t sentinel = UINT64_C(1) << w->at;
	struct redis asked;

	redis_init(&asked, &s->target, s->connection.client_name);
	asked.brief = true;
	route_prefer(&asked.route, &s->target, w->at++);
	w->at %= s->target.naddresses;
	w->agrees &= ~sentinel;
	if (connection_find_master(&asked) == -1) {
		log_silent(w, sentinel, &asked);
		return;
	}
	w->silent &= ~sentinel;
	if (is_same_node(&asked.route, &s->redis.route)) {
		w->agrees |= sentinel;
		return;
	}
	asked.finds_master = false;
	if (connection_connect(&asked) == 0) {
		if (is_other_server(s, &asked))
			judge_other(s, w, &asked.route);
		else if (asked.state == REDIS_READY)
			w->agrees |= sentinel;
	}
	redis_close(&asked, NULL);
}

/* The workers compare their servers with this one only while most Sentinels name it, and while it shows its run_id. */
static void publish_majority(struct sweeper *s, const struct sentinel_watch *w)
{
	const char *run_id = s->server.is.run_id;
	size_t n = 0, last = 0;

	for (size_t i = 0; i < s->target.naddresses; i++)
		if ((w->agrees & UINT64_C(1) << i) != 0) {
			n++;
			last = i;
		}
	if (2 * n > s->target.naddresses && run_id[0] != '\0')
		scoreboard_confirm_master(s->child->board, redis_target_mark(&s->target, ""),
		    redis_target_mark(&s->target, run_id), last, clock_monotonic_ms());
	else
		scoreboard_doubt_master(s->child->board);
}

/* A new connection may have another server, so all Sentinels are asked. */
static void ask_sentinels(struct sweeper *s, struct sentinel_watch *w)
{
	size_t n = s->redis.connection == w->connection ? 1 : s->target.naddresses;

	if (s->redis.connection != w->connection)
		w->agrees = 0;
	w->connection = s->redis.connection;
	for (; n > 0 && sweeper_goes_on(s); n--)
		ask_sentinel(s, w);
	if (n == 0 && s->redis.state == REDIS_READY)	/* else not all were asked, and their majority is not known */
		publish_majority(s, w);
}

static bool run_sentinel(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	(void)now_ms;
	if (s->target.master != NULL)
		ask_sentinels(s, task_own(s, &sentinel_task));
	return false;
}

const struct task sentinel_task = { .name = "sentinel", .interval_ms = EVERY_MS, .budget = 1, .unsealed = true,
	.run = run_sentinel,
	.own_size = sizeof(struct sentinel_watch) };
