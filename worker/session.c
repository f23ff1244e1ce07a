/*
 * A worker's connection to Redis. The worker opens it again whenever it is lost, each time as a new incarnation that
 * takes over the trays of the one before, so that a late command of the old connection can reach nothing. This file
 * renews the lease, and passes each reply to the component that sent the command. Other components decide which
 * messages to fetch or move.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define RECONNECT_BASE_MS 100
#define RECONNECT_CAP_MS 30000

void session_init(struct worker *w, const struct components *components)
{
	const struct conf *conf = w->env->child->conf;
	const struct redis_options options = conf_redis_options(conf);
	char error[256];

	if (redis_target_parse(&w->session.target, &options, error, sizeof(error)) == -1) {
		/* cannot happen: the configuration was checked */
		log_error("redis_url", log_str("error", error));
		exit(1);
	}
	w->session.components = components;
	redis_target_use_prefix(&w->session.target, conf->redis.prefix);
	redis_target_use(&w->session.target, conf->redis.tls);
	strlcpy(w->session.id.node, conf->supervisor.node, sizeof(w->session.id.node));
	w->session.id.boot = w->env->child->boot;
	w->session.id.slot = w->env->child->slot;
	snprintf(w->session.client_name, sizeof(w->session.client_name), "quredisd:%s:%s", w->session.id.node,
	    w->env->name);
	redis_init(&w->session.redis, &w->session.target, w->session.client_name);
	w->session.target_mark = redis_target_mark(&w->session.target, "");
	w->session.announced_master = atomic_load(&w->env->child->board->sweeper.announced_master);
	route_prefer(&w->session.redis.route, &w->session.target, w->session.announced_master & 0xff);
	queue_greets(&w->session.redis, true, conf);
}

void session_free(struct worker *w)
{
	redis_close(&w->session.redis, NULL);
	queue_owner_free(&w->session.owner);
	queue_owner_free(&w->session.previous);
	redis_target_free(&w->session.target);
}

void session_polled(struct session *s, bool readable)
{
	s->readable = readable;
}

void session_expect(struct worker *w, enum answer answer, int tray, int item, int64_t due_ms)
{
	if (w->session.answers.next - w->session.answers.first == ANSWERS_MAX)
		abort();	/* cannot happen: three trays and a lease expect fewer answers */
	w->session.answers.ring[w->session.answers.next++ % ANSWERS_MAX] =
	    (struct expected){ (uint8_t)answer, (int8_t)tray, (int16_t)item };
	redis_expect_by(&w->session.redis, due_ms);
}

/* The worker must be back well before a sweeper of another host, which may have reconnected sooner, finds its lease run
 * out. */
static int64_t reconnect_cap_ms(const struct worker *w)
{
	int64_t cap = w->env->child->conf->supervisor.lease_ms / 4;

	if (!redis_error_needs_operator(w->session.redis.error_class) && !redis_target_is_remote(&w->session.target) &&
	    cap > REDIS_LOCAL_BACKOFF_MS)
		return REDIS_LOCAL_BACKOFF_MS;
	return cap < RECONNECT_CAP_MS ? cap : RECONNECT_CAP_MS;
}

/* Calls a function of each component that has it. */
#define FOR_COMPONENTS(w, function)						\
	for (size_t i = 0; i < (w)->session.components->n; i++)		\
		if ((w)->session.components->all[i].function != NULL)	\
			(w)->session.components->all[i].function(w)

/* Commands on a lost connection get no answer. The trays, read under the next name, tell what became of them. */
static void forget_asked(struct worker *w)
{
	FOR_COMPONENTS(w, lost);
	redis_close(&w->session.redis, NULL);
	w->session.answers.first = w->session.answers.next;
	w->session.registered = w->session.renewing = false;
	w->session.lease.answered = w->session.lease.sent;
	w->session.server = (struct redis_identity){0};
}

static void lose(struct worker *w, int64_t now_ms)
{
	forget_asked(w);
	retry_failed(&w->session.retry, &(struct retry_backoff){ RECONNECT_BASE_MS, reconnect_cap_ms(w), 1 }, now_ms);
	errors_report_connection(w, now_ms);
}

/*
 * Takes a new name for every connection and after every doubt: the names of keys decide which worker owns a message,
 * and no clock does. If Redis never answered the registration of a name, the worker has fetched nothing under it, so it
 * registers that name again, still in place of the previous one: the trays are under one of the two.
 */
static void take_new_name(struct worker *w)
{
	if (w->session.owner.keys != NULL && !w->session.confirmed)
		return;
	w->session.previous = w->session.owner;
	w->session.id.generation = slot_next_generation(w->env->slot);
	incarnation_format(&w->session.id, w->session.incarnation);
	queue_owner_init(&w->session.owner, &w->env->keys, w->session.incarnation,
	    w->env->child->conf->supervisor.lease_ms);
	w->session.confirmed = false;
}

static void note_renewal_sent(struct worker *w, int64_t now_ms)
{
	w->session.lease.sent_ms[w->session.lease.sent++ % RENEWALS_MAX] = clock_boottime_ms();
	w->session.lease.next_ms = now_ms + w->session.owner.lease_ms / 4;
}

/* Right before a renewal, so that components can tell whether this server is another one, or has restarted. */
static void ask_server(struct worker *w, int64_t now_ms)
{
	w->session.server = (struct redis_identity){0};
	queue_identity(&w->session.redis);
	for (int i = 0; i < QUEUE_IDENTITY_INFOS; i++)
		session_expect(w, ANSWER_SERVER, -1, 0, now_ms + REDIS_TIMEOUT_MS);
}

static void send_renewal(struct worker *w, int64_t now_ms)
{
	const struct conf *conf = w->env->child->conf;
	char *registration;

	take_new_name(w);
	registration = queue_registration(w->env->child->lock_identity, conf->supervisor.node, (int)getpid(),
	    clock_realtime_ms(), conf->supervisor.lease_ms, w->env->keys.shared);
	ask_server(w, now_ms);
	queue_owner_has_seats(&w->session.owner, w->seats.n);	/* another server may not know them */
	queue_renew(&w->session.redis, &w->session.owner, &w->session.previous, registration);
	session_expect(w, ANSWER_RENEW, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	note_renewal_sent(w, now_ms);
	w->session.renewing = true;
	w->session.registered = w->session.refused = false;
	free(registration);
	FOR_COMPONENTS(w, named);
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	/* A worker that is leaving needs no new name. It would not deregister that name, so sweepers would miss the
	 * lease of its worker. */
	if (w->session.redis.state != REDIS_READY || !w->session.registered || w->exit.leaving || w->exit.left)
		return;
	log_warning("incarnation_renewed", log_str("incarnation", w->session.incarnation), log_str("reason", why));
	w->session.registered = false;
}

static bool expects_answer(const struct session *s)
{
	return s->answers.first != s->answers.next;
}

/* True only if the worker expects no other answer: a fetch under way would fill a tray of the old name. */
static bool may_register(const struct worker *w)
{
	return w->session.redis.state == REDIS_READY && !w->session.registered && !w->session.renewing &&
	    !expects_answer(&w->session);
}

/* The worker also renews its lease while it reads the trays: a large message can make that long. */
static bool may_renew(const struct worker *w)
{
	return (w->session.registered || w->session.renewing) &&
	    w->session.lease.sent - w->session.lease.answered < RENEWALS_MAX && !w->exit.left && !w->exit.leaving;
}

#define RENEWALS_A_LOOK 4	/* between two looks at trays that should be empty */

/*
 * Asks whether Redis went back, with the connection still there: by the counts of moves, and by the trays that the
 * worker takes for empty. In one of these a message that was done shows, which no count knows; once a lease is enough
 * for that. A worker that has fetched nothing has no such message.
 */
static void ask_trays(struct worker *w, int64_t now_ms)
{
	const struct queue_owner *o = &w->session.owner;
	const char *empty[QUEUE_TRAYS];
	int n = 0;

	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].state == TRAY_EMPTY)
			empty[n++] = o->trays[i];
	if (n > 0 && w->trays.fillings > 0 && w->session.lease.sent % RENEWALS_A_LOOK == 0) {
		redis_appendf(&w->session.redis, "EXISTS %s %s %s", empty[0], empty[n > 1 ? 1 : 0], empty[n - 1]);
		session_expect(w, ANSWER_COUNTS, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	}
	if (o->moved[0] + o->moved[1] + o->moved[2] == 0)
		return;
	queue_lease_counts(&w->session.redis, o);
	session_expect(w, ANSWER_COUNTS, -1, 0, now_ms + REDIS_TIMEOUT_MS);
}

static void renew_lease(struct worker *w, int64_t now_ms)
{
	unsigned unanswered = w->session.lease.sent - w->session.lease.answered;

	if (!may_renew(w) || now_ms < w->session.lease.next_ms)
		return;
	/* While a renewal is unanswered, the worker does not know whether the lease has expired; session_usable() is
	 * false meanwhile. */
	if (w->session.registered && unanswered == 0 && clock_boottime_ms() >= w->session.lease.until_ms) {
		session_renew_incarnation(w, "the lease was renewed too late");
		return;
	}
	queue_lease_renew(&w->session.redis, &w->session.owner);
	session_expect(w, ANSWER_LEASE, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	note_renewal_sent(w, now_ms);
	ask_trays(w, now_ms);
}

/*
 * The worker asks one Sentinel, and one that was cut off with the old master names that one. No error ends a connection
 * to such a master, so the worker compares what it has with what most Sentinels name. A server that hides its run_id
 * cannot be compared.
 */
static void leave_other_master(struct worker *w, int64_t now_ms)
{
	const struct redis_identity *server = &w->session.server;
	uint64_t mark;
	size_t sentinel;

	if (w->session.target.master == NULL || w->session.redis.state != REDIS_READY || server->run_id[0] == '\0')
		return;
	mark = redis_target_mark(&w->session.target, server->run_id);
	if (!scoreboard_names_other(w->env->child->board, w->session.target_mark, mark, now_ms, &sentinel))
		return;
	redis_fail(&w->session.redis, "most Sentinels name another master", REDIS_ERROR_LOST);
	lose(w, now_ms);
	retry_not_before(&w->session.retry, now_ms + REDIS_NEWS_MS);	/* it may be named once more */
	route_prefer(&w->session.redis.route, &w->session.target, sentinel);
}

/* A server that was cut off from its Sentinels still answers as a master, so the worker would not notice that another
 * one was promoted. */
static void follow_master(struct worker *w, int64_t now_ms)
{
	uint32_t announced = atomic_load(&w->env->child->board->sweeper.announced_master);

	if (announced == w->session.announced_master)
		return;
	w->session.announced_master = announced;
	if (w->session.redis.state != REDIS_CLOSED) {
		redis_fail(&w->session.redis, "the sweeper ordered a new connection", REDIS_ERROR_LOST);
		lose(w, now_ms);
	}
	route_prefer(&w->session.redis.route, &w->session.target, announced & 0xff);
}

/* Another process has reached the server since the last attempt. */
static bool server_is_back(const struct worker *w, int64_t now_ms)
{
	return now_ms - w->session.opened_ms >= REDIS_NEWS_MS &&
	    atomic_load(&w->env->child->board->workers.reached) != w->session.reached;
}

static void open_when_due(struct worker *w, int64_t now_ms)
{
	if (w->session.redis.state != REDIS_CLOSED || (now_ms < w->session.retry.at_ms && !server_is_back(w, now_ms)))
		return;
	w->session.reached = atomic_load(&w->env->child->board->workers.reached);
	w->session.opened_ms = now_ms;
	if (redis_open(&w->session.redis, now_ms) == -1)
		lose(w, now_ms);
}

void session_tick(struct worker *w, int64_t now_ms)
{
	follow_master(w, now_ms);
	leave_other_master(w, now_ms);
	open_when_due(w, now_ms);
	renew_lease(w, now_ms);		/* which may find that a new name is wanted */
	if (may_register(w))
		send_renewal(w, now_ms);
}

bool session_usable(const struct worker *w)
{
	return w->session.redis.state == REDIS_READY && w->session.registered &&
	    clock_boottime_ms() < w->session.lease.until_ms;
}

/* Redis executed the oldest renewal that was not answered yet, at some time after it was sent. */
static void lease_granted(struct worker *w)
{
	w->session.lease.until_ms = w->session.lease.sent_ms[w->session.lease.answered++ % RENEWALS_MAX] +
	    w->session.owner.lease_ms;
}

/* A server that hides INFO stays unknown. */
void session_server_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	(void)of, (void)now_ms;
	if (reply->type == REDIS_STRING)
		redis_identity_read(&w->session.server, reply->str, reply->len);
}

void session_lease_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	(void)of;
	if (reply->type == REDIS_INTEGER && reply->integer == 1) {
		lease_granted(w);
		return;
	}
	w->session.lease.answered++;
	if (reply->type == REDIS_INTEGER) {
		w->session.lease.until_ms = 0;
		session_renew_incarnation(w, "the lease had run out");
		return;
	}
	errors_report(w, "lease", reply);
	w->session.lease.next_ms = now_ms + 1000;
}

/* Moves sent before the question are answered, those sent after it are not: owner.moved is of the same moment as the
 * counts. */
void session_counts_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	bool differ = reply->type == REDIS_ARRAY && reply->n == QUEUE_TRAYS &&
	    !queue_lease_agrees(&w->session.owner, reply);
	bool unexpected = reply->type == REDIS_INTEGER && reply->integer > 0;	/* of ask_trays() */

	(void)of, (void)now_ms;
	if (redis_error_class(reply) == REDIS_ERROR_WRONG_TYPE)
		/* the next name has a lease of its own */
		session_renew_incarnation(w, "the lease has another type");
	else if (differ || unexpected)
		session_renew_incarnation(w, "Redis returned to an earlier state");
}

void session_drop(struct worker *w, const struct redis_reply *error, int64_t now_ms)
{
	redis_refuse(&w->session.redis, error);
	lose(w, now_ms);
}

void session_renew_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	(void)of;
	if (reply->type != REDIS_INTEGER) {
		w->session.refused = reply->type == REDIS_ERROR;
		session_drop(w, reply, now_ms);
		return;
	}
	w->session.confirmed = true;
	w->session.untouched = w->session.untouched && reply->integer == 1;
	queue_owner_free(&w->session.previous);
	/*
	 * -1: an earlier registration of this name worked, its answer was lost, and the lease has run out since: a
	 * sweeper may consider its owner dead. The trays lie under it; the next connection takes them over.
	 */
	if (reply->integer == -1) {
		redis_close(&w->session.redis, "the lease of a new incarnation ran out before its answer came");
		lose(w, now_ms);
		return;
	}
	lease_granted(w);
	FOR_COMPONENTS(w, confirmed);
}

void session_adopted(struct worker *w)
{
	w->session.renewing = false;
	w->session.registered = w->session.untouched = true;
	retry_succeeded(&w->session.retry);
	w->session.reached = atomic_fetch_add(&w->env->child->board->workers.reached, 1) + 1;
	FOR_COMPONENTS(w, adopted);
	atomic_store(&w->env->slot->redis_down, 0);
	atomic_fetch_add(&w->env->slot->counters[COUNT_RECONNECTED], 1);
	errors_clear(w);
}

/* Passes the answer to the component that asked. */
static void dispatch(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct expected e = w->session.answers.ring[w->session.answers.first++ % ANSWERS_MAX];

	w->session.components->takers[e.answer](w, (struct place){ e.tray, e.item }, reply, now_ms);
	w->session.answered_us = w->now_us;
	/* A script is gone, or this server is a replica now: only a new connection helps. */
	if (w->session.redis.state == REDIS_READY && redis_error_needs_reconnect(reply))
		session_drop(w, reply, now_ms);
}

static bool is_refused(struct worker *w)
{
	const struct components *c = w->session.components;

	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].refuses_arriving != NULL && c->all[i].refuses_arriving(w))
			return true;
	return false;
}

void session_io(struct worker *w, int64_t now_ms)
{
	struct redis_reply reply;
	int rc;

	if (w->session.redis.state == REDIS_CLOSED ||
	    (!w->session.readable && (w->session.redis.deadline_ms == 0 || now_ms <= w->session.redis.deadline_ms)))
		return;
	w->session.readable = false;
	if (redis_pump(&w->session.redis, now_ms) == -1) {
		lose(w, now_ms);
		return;
	}
	while ((rc = redis_take(&w->session.redis, &reply)) == 1)
		dispatch(w, &reply, now_ms);
	if (rc == 0 && expects_answer(&w->session) && is_refused(w)) {
		forget_asked(w);
		retry_not_before(&w->session.retry, now_ms);	/* nothing is wrong with Redis: no back-off */
	} else if (rc == -1 && expects_answer(&w->session))	/* bytes that are no answer */
		lose(w, now_ms);
}

void session_flush(struct worker *w, int64_t now_ms)
{
	if (w->session.redis.state != REDIS_CLOSED && redis_flush(&w->session.redis) == -1)
		lose(w, now_ms);
}

int64_t session_deadline_ms(const struct worker *w, int64_t now_ms)
{
	int64_t deadline_ms = w->session.redis.deadline_ms;

	if (w->session.redis.state == REDIS_CLOSED)
		return clock_earlier(w->session.retry.at_ms, now_ms + REDIS_NEWS_MS);
	if (may_renew(w) && (deadline_ms == 0 || deadline_ms > w->session.lease.next_ms))
		return w->session.lease.next_ms;
	return deadline_ms != 0 ? deadline_ms : INT64_MAX;
}
