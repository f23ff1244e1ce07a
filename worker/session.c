/*
 * A worker's connection: opened again and again, each time as a new incarnation that takes over the
 * trays of the one before, so that a late command of the old connection can reach nothing. Keeps the
 * lease, and hands every answer to whoever asked. Which messages to fetch or settle is not decided here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "worker/worker.h"

#include "common/backoff.h"
#include "common/clock.h"

#define RECONNECT_BASE_MS 100
#define RECONNECT_CAP_MS 30000

void session_init(struct worker *w)
{
	const struct conf *conf = w->child->conf;
	char error[256];

	if (redis_target_parse(&w->target, conf->redis.url, conf->redis.user, conf->redis.password, error,
		sizeof(error)) == -1) {
		log_error("redis_url", log_str("error", error));	/* the configuration was checked: cannot be */
		exit(1);
	}
	strlcpy(w->id.node, conf->supervisor.node, sizeof(w->id.node));
	w->id.boot = w->child->boot;
	w->id.slot = w->child->slot;
	snprintf(w->client_name, sizeof(w->client_name), "quredisd:%s:%s", w->id.node, w->name);
	redis_init(&w->redis, &w->target, w->client_name);
	w->redis.greet = queue_scripts_load;
	redis_init(&w->unblock, &w->target, w->client_name);
}

void session_free(struct worker *w)
{
	redis_close(&w->redis, NULL);
	redis_close(&w->unblock, NULL);
	queue_owner_free(&w->owner);
	queue_owner_free(&w->previous);
	redis_target_free(&w->target);
}

static enum queue_trouble trouble_of(enum redis_weather weather, const char *text)
{
	if (weather == REDIS_MISCONFIGURED)
		return strstr(text, "WRONGTYPE") != NULL ? TROUBLE_WRONG_TYPE : TROUBLE_NO_PERMISSION;
	return TROUBLE_STORM;
}

static const char *advice_of(enum queue_trouble trouble)
{
	switch (trouble) {
	case TROUBLE_WRONG_TYPE:
		return "a key of this queue has another type: rename or remove it";
	case TROUBLE_NO_PERMISSION:
		return "check redis.password_file and the user's access list";
	default:
		return NULL;
	}
}

/* One line a change: the same trouble again is silent. */
static void note_weather(struct worker *w, const char *what, const char *text, enum queue_trouble trouble)
{
	char now[sizeof(w->weather)];

	snprintf(now, sizeof(now), "%s: %.64s", what, text);
	atomic_store(&w->board->trouble, trouble);
	if (strcmp(now, w->weather) == 0)
		return;
	strlcpy(w->weather, now, sizeof(w->weather));
	log_warning("redis_trouble", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("at", what),
	    log_str("error", text), log_str("advice", advice_of(trouble)));
}

void session_trouble(struct worker *w, const char *what, const struct redis_reply *error)
{
	const char *text = error->type == REDIS_ERROR ? error->str : "an answer of a kind that was not expected";

	note_weather(w, what, text, trouble_of(redis_weather(error), text));
}

void session_fair(struct worker *w)
{
	if (w->weather[0] == '\0')
		return;
	w->weather[0] = '\0';
	atomic_store(&w->board->trouble, TROUBLE_NONE);
	log_info("redis_fair", log_str("queue", w->conf->name), log_str("worker", w->name));
}

void session_expect(struct worker *w, enum answer answer, int tray, int item, int64_t due_ms)
{
	if (w->expect_next - w->expect_first == ANSWERS_MAX)
		abort();	/* three trays and a lease cannot ask for so much */
	w->expected[w->expect_next++ % ANSWERS_MAX] =
	    (struct expected){ (uint8_t)answer, (int8_t)tray, (int16_t)item };
	redis_expect_by(&w->redis, due_ms);
}

/* Back well before another host's sweeper, which may have been quicker, can take our lease for run out. */
static int64_t reconnect_cap_ms(const struct worker *w)
{
	int64_t cap = w->child->conf->supervisor.lease_ms / 4;

	return cap < RECONNECT_CAP_MS ? cap : RECONNECT_CAP_MS;
}

/* What was asked on it will never be answered; the next incarnation looks what became of it. */
static void lose(struct worker *w, int64_t now_ms)
{
	redis_close(&w->redis, NULL);
	w->expect_first = w->expect_next;
	w->registered = w->renewing = w->leaving = w->asking_paused = w->asking_time = false;
	w->lease_sent_ms = 0;
	notes_lost(w);
	atomic_store(&w->slot->redis_down, 1);
	w->failures++;
	w->connect_at_ms = now_ms + backoff_ms(RECONNECT_BASE_MS, 2, reconnect_cap_ms(w), 1, w->failures, arc4random());
	note_weather(w, "connection", w->redis.error,
	    w->redis.weather == REDIS_MISCONFIGURED ? trouble_of(REDIS_MISCONFIGURED, w->redis.error) : TROUBLE_NO_REDIS);
}

/*
 * A new name for every connection and after every doubt: key names decide who owns a message, no clock
 * does. A name whose renewal was never answered has fetched nothing, so it is asked for again, still in
 * place of the last one that was: the trays are under one of the two.
 */
static void take_new_name(struct worker *w)
{
	if (w->owner.keys != NULL && !w->confirmed)
		return;
	w->previous = w->owner;
	strlcpy(w->previous_incarnation, w->incarnation, sizeof(w->previous_incarnation));
	w->previous.incarnation = w->previous_incarnation;
	w->id.generation = slot_next_generation(w->slot);
	incarnation_format(&w->id, w->incarnation);
	queue_owner_init(&w->owner, &w->keys, w->incarnation, w->child->conf->supervisor.lease_ms);
	w->owner.blmove = w->previous.blmove;
	w->confirmed = false;
}

static void send_renewal(struct worker *w, int64_t now_ms)
{
	const struct conf *conf = w->child->conf;
	char *registration;

	take_new_name(w);
	registration = queue_registration(w->child->lock_identity, conf->supervisor.node, (int)getpid(), clock_realtime_ms(),
	    conf->supervisor.lease_ms, w->keys.shared);
	queue_renew(&w->redis, &w->owner, w->previous.keys == NULL ? NULL : &w->previous, registration);
	session_expect(w, ANSWER_RENEW, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		queue_list(&w->redis, w->owner.trays[i], 0, -1);
		session_expect(w, ANSWER_ADOPT, i, 0, now_ms + REDIS_TIMEOUT_MS);
	}
	w->lease_sent_ms = clock_boottime_ms();
	w->renewing = true;
	w->registered = w->refused = false;
	free(registration);
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	/* Who leaves needs no other name: one that nobody took back would be missed for a while. */
	if (w->redis.state != REDIS_READY || w->renewing || w->leaving || w->left)
		return;
	log_warning("incarnation_renewed", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("incarnation", w->incarnation), log_str("reason", why));
	w->registered = false;
}

/* Ours is the oldest answer still expected: with a fetch under way a new name would leave it behind. */
static bool may_register(const struct worker *w)
{
	return w->redis.state == REDIS_READY && !w->registered && !w->renewing && w->expect_first == w->expect_next;
}

static void renew_lease(struct worker *w, int64_t now_ms)
{
	if (!w->registered || w->lease_sent_ms != 0 || now_ms < w->next_lease_ms || w->left || w->leaving)
		return;
	if (clock_boottime_ms() >= w->lease_until_ms) {
		session_renew_incarnation(w, "the lease was renewed too late");
		return;
	}
	queue_lease_renew(&w->redis, &w->owner);
	session_expect(w, ANSWER_LEASE, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	w->lease_sent_ms = clock_boottime_ms();
}

void session_tick(struct worker *w, int64_t now_ms)
{
	if (w->redis.state == REDIS_CLOSED && now_ms >= w->connect_at_ms && redis_open(&w->redis, now_ms) == -1)
		lose(w, now_ms);
	renew_lease(w, now_ms);		/* which may find that a new name is wanted */
	if (may_register(w))
		send_renewal(w, now_ms);
}

bool session_usable(const struct worker *w)
{
	return w->redis.state == REDIS_READY && w->registered && clock_boottime_ms() < w->lease_until_ms;
}

static void lease_granted(struct worker *w, int64_t now_ms)
{
	w->lease_until_ms = w->lease_sent_ms + w->owner.lease_ms;
	w->lease_sent_ms = 0;
	w->next_lease_ms = now_ms + w->owner.lease_ms / 4;
}

static void lease_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	if (reply->type == REDIS_INTEGER && reply->integer == 1) {
		lease_granted(w, now_ms);
		return;
	}
	w->lease_sent_ms = 0;
	if (reply->type == REDIS_INTEGER) {
		w->lease_until_ms = 0;
		session_renew_incarnation(w, "the lease had run out");
		return;
	}
	session_trouble(w, "lease", reply);
	w->next_lease_ms = now_ms + 1000;
}

void session_drop(struct worker *w, const struct redis_reply *error, int64_t now_ms)
{
	w->redis.weather = redis_weather(error);
	redis_close(&w->redis, error->type == REDIS_ERROR ? error->str : "an answer of a kind that was not expected");
	lose(w, now_ms);
}

/* The answer was lost, and we came back so late that this name may be taken for dead: whatever we had lies under it. */
static void name_is_used_up(struct worker *w, int64_t now_ms)
{
	redis_close(&w->redis, "the lease of a new incarnation ran out before its answer came");
	lose(w, now_ms);
}

static void renew_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	if (reply->type != REDIS_INTEGER) {
		w->refused = reply->type == REDIS_ERROR;
		session_drop(w, reply, now_ms);
		return;
	}
	w->confirmed = true;
	queue_owner_free(&w->previous);
	if (reply->integer == -1) {
		name_is_used_up(w, now_ms);
		return;
	}
	lease_granted(w, now_ms);
}

void session_adopted(struct worker *w)
{
	w->renewing = false;
	w->registered = true;
	w->failures = 0;
	atomic_store(&w->slot->redis_down, 0);
	atomic_fetch_add(&w->slot->counters[COUNT_RECONNECTED], 1);
	session_fair(w);
}

static void deregister_answer(struct worker *w, const struct redis_reply *reply)
{
	w->leaving = false;
	w->left = reply->type == REDIS_INTEGER;
	/* 0: something we do not know of lies in a tray. We go as one dead, so that the sweeper returns it. */
	w->clean = w->left && reply->integer == 1;
	if (!w->left)
		session_trouble(w, "deregister", reply);
}

static void dispatch(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct expected e = w->expected[w->expect_first++ % ANSWERS_MAX];

	switch ((enum answer)e.answer) {
	case ANSWER_RENEW:
		renew_answer(w, reply, now_ms);
		break;
	case ANSWER_ADOPT:
		adopt_answer(w, e.tray, reply, now_ms);
		break;
	case ANSWER_LEASE:
		lease_answer(w, reply, now_ms);
		break;
	case ANSWER_FETCH:
		fetch_answer(w, e.tray, reply, now_ms);
		break;
	case ANSWER_PAUSED:
		fetch_paused_answer(w, reply);
		break;
	case ANSWER_NOTES:
		notes_answer(w, e.tray, reply, now_ms);
		break;
	case ANSWER_TIME:
		expiry_time_answer(w, reply);
		break;
	case ANSWER_MOVE:
		move_answer(w, (struct place){ e.tray, e.item }, reply, now_ms);
		break;
	case ANSWER_DELETE:
		move_delete_answer(w, e.tray, reply, now_ms);
		break;
	case ANSWER_DEREGISTER:
		deregister_answer(w, reply);
		break;
	}
	/* A script is gone, or this server is a replica now: only a new connection helps. */
	if (w->redis.state == REDIS_READY && (redis_weather(reply) == REDIS_RECONNECT || redis_error_is(reply, "READONLY") ||
		redis_error_is(reply, "UNBLOCKED") || redis_error_is(reply, "MASTERDOWN")))
		session_drop(w, reply, now_ms);
}

void session_io(struct worker *w, int64_t now_ms)
{
	struct redis_reply reply;
	int rc;

	if (w->redis.state == REDIS_CLOSED || (!w->readable && (w->redis.deadline_ms == 0 || now_ms <= w->redis.deadline_ms)))
		return;
	w->readable = false;
	if (redis_pump(&w->redis, now_ms) == -1) {
		lose(w, now_ms);
		return;
	}
	while ((rc = redis_take(&w->redis, &reply)) == 1)
		dispatch(w, &reply, now_ms);
	if (rc == -1 && w->expect_first != w->expect_next)	/* bytes that are no answer */
		lose(w, now_ms);
}

void session_flush(struct worker *w, int64_t now_ms)
{
	if (w->redis.state != REDIS_CLOSED && redis_flush(&w->redis) == -1)
		lose(w, now_ms);
}

int64_t session_deadline_ms(const struct worker *w)
{
	if (w->redis.state == REDIS_CLOSED)
		return w->connect_at_ms;
	if (w->registered && w->lease_sent_ms == 0 && !w->left && !w->leaving)
		return w->redis.deadline_ms != 0 && w->redis.deadline_ms < w->next_lease_ms ? w->redis.deadline_ms
											    : w->next_lease_ms;
	return w->redis.deadline_ms != 0 ? w->redis.deadline_ms : INT64_MAX;
}
