/*
 * Keeps max_in_flight of a queue: a message starts only in a seat, and Redis gives so many to all hosts together
 * (seats.lua). A worker takes its seats for a busy period: it keeps them from one message to the next, asks Redis
 * before it uses one that was last confirmed a while ago, and gives back those that it does not use. A worker that gets
 * none waits in Redis for one that becomes free, and leaves a mark meanwhile: then others get no answer that they may
 * go on after a message.
 *
 * A request says how many seats the worker wants, not how many more, so after a lost answer it does no harm to send it
 * again. Until the answer comes, the worker counts only on what Redis could not refuse. Each new name is registered
 * together with the seats of the worker: a server that went back in time may not know them, and gives no seats until
 * every worker has registered with it, or its lease has ended.
 */
#include <limits.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define CONFIRMED_FOR_US 50000	/* a worker that is refused meanwhile waits no longer for this one than its message */
#define UNUSED_US 100000	/* seats that no message used for so long are given back */
/* An idle worker asks Redis no more often: a worker that waits in Redis asks each third time only */
#define WAIT_MS 2000
#define ASK_MS (3 * WAIT_MS)

static const struct retry_backoff backoff = { .base_ms = 100, .cap_ms = 10000, .jitter = 0.5 };

static bool has_limit(const struct worker *w)
{
	return w->env->conf->max_in_flight > 0;
}

static int64_t running(const struct worker *w)
{
	return tray_count(&w->trays, ITEM_RUNNING);
}

void seats_init(struct worker *w)
{
	w->seats.first = slot_generation(w->env->slot) + 1;	/* the last one may be of a process that was killed */
}

/* A request whose answer is lost may have been executed, so only what it said to hold is certain; seats_send() has
 * set n to that. */
void seats_lost(struct worker *w)
{
	struct seats *s = &w->seats;

	s->asking = 0;
	s->blocking = s->refused = s->keeps_one = s->none_waits = false;
	s->at_ms = s->confirmed_us = 0;
	s->lost_ms = w->now_us / 1000;
}

static const struct queue_seats_limit *limit_of(struct worker *w)
{
	struct queue_seats_limit *l = &w->seats.limit;

	if (l->max == 0)
		strlcpy(l->node, w->env->child->conf->supervisor.node, sizeof(l->node));
	l->max = w->env->conf->max_in_flight;
	l->loaded_ms = board_limits_loaded_ms(w->env->board, w->env->child->conf->loaded_ms);
	return l;
}

/* Held are the seats in which messages run. While Redis gives none, also those that it cannot give to another worker,
 * so that their messages can follow each other. */
static int64_t held(const struct worker *w)
{
	return w->seats.quiet && !w->seats.above && w->seats.n > running(w) ? w->seats.n : running(w);
}

/*
 * How long the clock of the server has run evenly: the sweeper has seen when it was set last (0: it has seen nothing
 * yet). Watched: only as long as a sweeper of this host has looked, else INT64_MAX if none has seen that it was set.
 */
static int64_t even_ms(const struct worker *w, bool watched)
{
	struct server_clock known;
	struct age_clock clock;

	server_clock_read(&known, &w->env->child->board->sweeper.clock);
	if (!server_clock_age(&known, clock_boottime_ms(), &clock))
		return watched ? 0 : INT64_MAX;
	if (watched)
		return clock.now_ms - clock.since_ms;
	return clock.stepped_ms > 0 ? clock.now_ms - clock.stepped_ms : INT64_MAX;
}

/*
 * For so long this server has certainly been the one that counts the seats: since this connection began, and before it,
 * if it was no replica, since its start. A server tells the time since its start by a clock that may have been set
 * since. So that counts no further back than that clock has run evenly, or than the use of another server by this
 * worker. A supervisor that has just started cannot know whether it was set: then only what is watched is certain.
 */
static int64_t known_ms(const struct worker *w, bool watched, int64_t now_ms)
{
	const struct redis_identity *server = &w->session.server;
	const struct seats *s = &w->seats;
	int64_t connected_ms = now_ms - s->adopted_ms, up_ms = connected_ms;

	if (!server->promoted)
		up_ms = clock_earlier(server->up_ms + connected_ms, even_ms(w, watched));
	if (up_ms < connected_ms)
		up_ms = connected_ms;
	return s->other_ms != 0 ? clock_earlier(up_ms, now_ms - s->other_ms) : up_ms;
}

static void seats_send(struct worker *w, int64_t wanted, bool from_ingress, int64_t now_ms)
{
	struct seats *s = &w->seats;
	struct queue_seats_wish wish = { .first = s->first, .held = held(w), .from_ingress = from_ingress,
	    .server = &w->session.server, .known = s->anew, .recount = s->above, .limit = limit_of(w),
	    .watched_ms = known_ms(w, true, now_ms), .up_ms = known_ms(w, false, now_ms) };

	if (wanted < wish.held)
		wish.held = wanted;	/* it gives back what it could keep */
	wish.wanted = wanted;
	queue_seats(&w->session.redis, &w->session.owner, &wish);
	session_expect(w, ANSWER_SEATS, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	s->n = wish.held;
	s->wanted = wanted;
	s->asking++;
	s->anew = false;
}

/* Says what this worker has, also if that is nothing: an earlier name may still have something. */
void seats_adopted(struct worker *w)
{
	struct seats *s = &w->seats;

	if (!has_limit(w))
		return;
	s->anew = s->quiet = true;
	s->adopted_ms = w->now_us / 1000;
	if (redis_identity_known(&s->server) && !redis_identity_same(&s->server, &w->session.server))
		s->other_ms = s->lost_ms;
	s->server = w->session.server;
	if (s->n < running(w))
		s->n = running(w);
	seats_send(w, s->n, false, w->now_us / 1000);
}

static bool is_confirmed(const struct worker *w)
{
	const struct seats *s = &w->seats;

	return s->asking == 0 && !s->above && s->confirmed_us != 0 && w->now_us - s->confirmed_us <= CONFIRMED_FOR_US;
}

int seats_free(const struct worker *w)
{
	int64_t n = w->seats.n - running(w);

	if (!has_limit(w))
		return INT_MAX;
	return !is_confirmed(w) || n <= 0 ? 0 : n < INT_MAX ? (int)n : INT_MAX;
}

/* Messages for a handler that runs one after the other follow each other in its seat. */
static bool runs_several(const struct worker *w)
{
	return w->env->conf->mode == CONF_MODE_PERSISTENT && w->env->conf->window > 1;
}

bool seats_let_fetch(const struct worker *w)
{
	return !has_limit(w) || (is_confirmed(w) && w->seats.n > (runs_several(w) ? running(w) : 0));
}

int seats_fetches(const struct worker *w)
{
	int64_t n = w->seats.n - running(w) - tray_count(&w->trays, ITEM_WAITING);

	return !has_limit(w) || !runs_several(w) || n > INT_MAX ? INT_MAX : n > 1 ? (int)n : 1;
}

bool seats_keep_one(const struct worker *w)
{
	return w->seats.keeps_one && w->seats.n <= running(w);
}

/* A worker with a seat that no message uses asks at once whether it may go on. */
static bool may_ask(const struct worker *w, int64_t now_ms)
{
	const struct seats *s = &w->seats;

	return s->asking == 0 && !s->blocking && now_ms >= s->retry.at_ms &&
	    (now_ms >= s->at_ms || s->n > running(w));
}

int64_t seats_next_ms(const struct worker *w, int64_t now_ms)
{
	const struct seats *s = &w->seats;

	if (s->asking > 0 || s->blocking || may_ask(w, now_ms))
		return INT64_MAX;
	return s->at_ms > s->retry.at_ms ? s->at_ms : s->retry.at_ms;
}

/* An exec handler runs its messages one after the other in one seat. */
void seats_ask(struct worker *w, int wanted, bool from_ingress, int64_t now_ms)
{
	int room;

	if (!has_limit(w) || !may_ask(w, now_ms) || !session_usable(w))
		return;
	room = w->starter.runner->room(w);
	room = room < 0 ? 0 : room;
	seats_send(w, running(w) + (wanted < room ? wanted : room), from_ingress, now_ms);
}

static void show_seats(struct worker *w, int64_t taken, int64_t max)
{
	uint64_t shown = max <= 0 ? 0 : (uint64_t)(taken < UINT32_MAX ? taken : UINT32_MAX) << 32 | (uint32_t)max;

	if (atomic_load(&w->env->slot->seats) != shown)
		atomic_store(&w->env->slot->seats, shown);
}

void seats_give_back(struct worker *w, int64_t now_ms)
{
	struct seats *s = &w->seats;

	show_seats(w, 0, 0);
	s->refused = s->keeps_one = false;
	s->at_ms = 0;
	/* A request that is under way may bring some. */
	if (has_limit(w) && (s->n > running(w) || s->asking > 0) && session_usable(w))
		seats_send(w, running(w), false, now_ms);
}

/* Redis reads nothing from a connection that waits. */
static bool may_block(const struct worker *w, int64_t now_ms)
{
	const struct seats *s = &w->seats;

	if (!s->refused || s->blocking || s->asking > 0 || now_ms >= s->at_ms || !session_usable(w) ||
	    running(w) > 0 || tray_count(&w->trays, ITEM_MOVING) > 0 || tray_fetching(&w->trays))
		return false;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (w->trays.tray[i].state == TRAY_DELETING)
			return false;
	return true;
}

void seats_await(struct worker *w, int64_t now_ms)
{
	int64_t ms = w->session.owner.lease_ms / 8;

	if (!may_block(w, now_ms))
		return;
	ms = ms >= WAIT_MS ? WAIT_MS : ms > 1000 ? 1000 : ms;	/* queue_script_seconds() likes whole ones */
	queue_seats_await(&w->session.redis, &w->env->keys, ms);
	session_expect(w, ANSWER_SEAT_FREE, -1, 0, now_ms + ms + REDIS_TIMEOUT_MS);
	w->seats.blocking = true;
}

bool seats_found_none(struct seats *s)
{
	bool none = s->none_waits;

	s->none_waits = false;
	return none;
}

/* Also a worker that is paused, or whose breaker is open, gives back what it does not use. */
void seats_tick(struct worker *w, int64_t now_ms)
{
	struct seats *s = &w->seats;

	if (!has_limit(w))
		return;
	if (s->n > 0 && clock_boottime_ms() >= w->session.lease.until_ms) {
		s->n = running(w);	/* a sweeper may have given all of them to other workers */
		s->above = s->n > 0;
	}
	if (s->n <= running(w))
		s->idle_us = 0;
	else if (s->idle_us == 0)
		s->idle_us = w->now_us;
	else if (w->now_us - s->idle_us >= UNUSED_US && s->asking == 0)
		seats_give_back(w, now_ms);
}

int64_t seats_deadline_ms(const struct worker *w)
{
	const struct seats *s = &w->seats;

	return s->idle_us == 0 || s->asking > 0 || !session_usable(w) ? INT64_MAX : (s->idle_us + UNUSED_US) / 1000 + 1;
}

/* Of a queue that has work for all seats the state does not change with each that is given. */
static void seats_granted(struct worker *w)
{
	if (!w->seats.waited)
		show_seats(w, 0, 0);
	w->seats.refused = w->seats.keeps_one = w->seats.waited = false;
	w->seats.at_ms = 0;
}

static void seats_refused(struct worker *w, const struct queue_seats_answer *a, int64_t now_ms)
{
	struct seats *s = &w->seats;

	s->refused = !s->quiet && a->has == 0;
	s->keeps_one = a->has == 0 || runs_several(w);
	s->waited = true;
	/* another worker may have known this server for longer: then its quiet time ends before */
	s->at_ms = now_ms + (s->quiet ? clock_earlier(a->quiet_ms, WAIT_MS) : a->has == 0 ? ASK_MS : WAIT_MS);
	show_seats(w, s->quiet ? 0 : a->taken, a->max);
}

static void take_seats(struct worker *w, const struct queue_seats_answer *a, int64_t now_ms)
{
	struct seats *s = &w->seats;

	s->n = a->has;
	s->confirmed_us = w->now_us;
	s->idle_us = 0;
	s->quiet = a->quiet_ms > 0;
	s->none_waits = a->waiting <= 0;
	if (s->none_waits || a->has >= s->wanted || a->has > running(w))
		seats_granted(w);
	else
		seats_refused(w, a, now_ms);
}

/*
 * A host that was cut off comes back with messages that run, beside those in the seats that others got meanwhile. When
 * one of these ends, its seat is not free: the worker asks with a recount. A quiet Redis may not know the others, and
 * an answer without a limit tells nothing.
 */
static void note_above(struct seats *s, const struct queue_seats_answer *a)
{
	if (a->has == 0)
		s->above = false;
	else if (a->max > 0 && a->quiet_ms <= 0)
		s->above = a->taken > a->max;
}

void seats_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct seats *s = &w->seats;
	struct queue_seats_answer a;

	(void)of;
	s->asking--;
	if (queue_seats_parse(reply, &a) == -1) {
		errors_report(w, "seats", reply);
		retry_failed(&s->retry, &backoff, now_ms);
		s->at_ms = s->retry.at_ms;
		return;
	}
	if (s->retry.errors > 0 && w->mover.retry.errors == 0)
		errors_clear(w);
	retry_succeeded(&s->retry);
	note_above(s, &a);
	if (a.has == QUEUE_SEATS_OTHER_SERVER)
		session_renew_incarnation(w, "its seats are counted by another Redis");
	else if (a.has == QUEUE_SEATS_NO_LEASE)
		session_renew_incarnation(w, "it asked for seats without a lease");
	else if (s->asking == 0)
		take_seats(w, &a, now_ms);
}

/* After a seat became free, or after some waits in vain, the worker asks. */
void seats_woken(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct seats *s = &w->seats;

	(void)of;
	s->blocking = false;
	if (reply->type == REDIS_NIL && now_ms < s->at_ms)
		return;
	if (reply->type == REDIS_ERROR && !redis_error_is(reply, "UNBLOCKED")) {
		errors_report(w, "seats", reply);
		s->refused = false;	/* it waits here, and asks later */
		return;
	}
	s->at_ms = 0;
}
