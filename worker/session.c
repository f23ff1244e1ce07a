/*
 * A worker's connection: opened again and again, each time as a new incarnation that takes over the
 * trays of the one before, so that a late command of the old connection can reach nothing. Keeps the
 * lease, and passes each reply to the file that sent the command. Other files decide which messages to fetch or settle.
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
	queue_greets(&w->redis, true);
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
	atomic_store(&w->board->worker_trouble, trouble);
	if (strcmp(now, w->weather) == 0)
		return;
	strlcpy(w->weather, now, sizeof(w->weather));
	log_warning("redis_trouble", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("at", what),
	    log_str("error", text), log_str("advice", advice_of(trouble)));
}

void session_trouble(struct worker *w, const char *what, const struct redis_reply *error)
{
	const char *text = error->type == REDIS_ERROR ? error->str : "unexpected reply type from Redis";

	note_weather(w, what, text, trouble_of(redis_weather(error), text));
}

void session_fair(struct worker *w)
{
	if (w->weather[0] == '\0')
		return;
	w->weather[0] = '\0';
	atomic_store(&w->board->worker_trouble, TROUBLE_NONE);
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

/* The worker must be back well before a sweeper of another host, which may have reconnected sooner, finds its lease run out. */
static int64_t reconnect_cap_ms(const struct worker *w)
{
	int64_t cap = w->child->conf->supervisor.lease_ms / 4;

	return cap < RECONNECT_CAP_MS ? cap : RECONNECT_CAP_MS;
}

/* Commands on a lost connection get no answer. The worker reads its trays under its next name, and learns what became of them. */
static void forget_asked(struct worker *w)
{
	redis_close(&w->redis, NULL);
	w->expect_first = w->expect_next;
	w->registered = w->renewing = w->leaving = w->asking_paused = w->asking_time = false;
	w->renewals_answered = w->renewals_sent;
	notes_lost(w);
	evidence_lost(w);
}

static void lose(struct worker *w, int64_t now_ms)
{
	forget_asked(w);
	atomic_store(&w->slot->redis_down, 1);
	w->failures++;
	w->connect_at_ms = now_ms + backoff_ms(RECONNECT_BASE_MS, 2, reconnect_cap_ms(w), 1, w->failures, arc4random());
	note_weather(w, "connection", w->redis.error,
	    w->redis.weather == REDIS_MISCONFIGURED ? trouble_of(REDIS_MISCONFIGURED, w->redis.error) : TROUBLE_NO_REDIS);
}

/*
 * A new name for every connection and after every doubt: key names decide who owns a message, no clock
 * does. A name whose registration was never answered has fetched nothing, so the worker registers it again, still in
 * place of the previous name: the trays are under one of the two.
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
	w->confirmed = false;
}

static void note_renewal_sent(struct worker *w, int64_t now_ms)
{
	w->lease_sent_ms[w->renewals_sent++ % RENEWALS_MAX] = clock_boottime_ms();
	w->next_lease_ms = now_ms + w->owner.lease_ms / 4;
}

static void read_trays(struct worker *w, int64_t now_ms)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		queue_list(&w->redis, w->owner.trays[i], 0, -1);
		session_expect(w, ANSWER_ADOPT, i, 0, now_ms + REDIS_TIMEOUT_MS);
	}
}

static void send_renewal(struct worker *w, int64_t now_ms)
{
	const struct conf *conf = w->child->conf;
	char *registration;

	take_new_name(w);
	registration = queue_registration(w->child->lock_identity, conf->supervisor.node, (int)getpid(), clock_realtime_ms(),
	    conf->supervisor.lease_ms, w->keys.shared);
	adopt_ask_server(w, now_ms);
	queue_renew(&w->redis, &w->owner, w->previous.keys == NULL ? NULL : &w->previous, registration);
	session_expect(w, ANSWER_RENEW, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	if (!too_large_send(w, now_ms))
		read_trays(w, now_ms);
	evidence_lost(w);
	note_renewal_sent(w, now_ms);
	w->renewing = true;
	w->registered = w->refused = false;
	free(registration);
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	/* A worker that is leaving needs no new name. Nobody would deregister that name, and sweepers would miss its worker. */
	if (w->redis.state != REDIS_READY || !w->registered || w->leaving || w->left)
		return;
	log_warning("incarnation_renewed", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("incarnation", w->incarnation), log_str("reason", why));
	w->registered = false;
}

/* Only if no other answer is expected: a fetch that is under way would fill a tray of the old name. */
static bool may_register(const struct worker *w)
{
	return w->redis.state == REDIS_READY && !w->registered && !w->renewing && w->expect_first == w->expect_next;
}

/* The worker also renews its lease while it reads the trays: a large message can make that long. */
static bool may_renew(const struct worker *w)
{
	return (w->registered || w->renewing) && w->renewals_sent - w->renewals_answered < RENEWALS_MAX && !w->left && !w->leaving;
}

static void renew_lease(struct worker *w, int64_t now_ms)
{
	unsigned unanswered = w->renewals_sent - w->renewals_answered;

	if (!may_renew(w) || now_ms < w->next_lease_ms)
		return;
	/* While a renewal is unanswered, nobody knows whether the lease ran out; session_usable() is false meanwhile. */
	if (w->registered && unanswered == 0 && clock_boottime_ms() >= w->lease_until_ms) {
		session_renew_incarnation(w, "the lease was renewed too late");
		return;
	}
	queue_lease_renew(&w->redis, &w->owner);
	session_expect(w, ANSWER_LEASE, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	note_renewal_sent(w, now_ms);
	if (w->owner.moved[0] + w->owner.moved[1] + w->owner.moved[2] == 0)
		return;
	queue_lease_counts(&w->redis, &w->owner);
	session_expect(w, ANSWER_COUNTS, -1, 0, now_ms + REDIS_TIMEOUT_MS);
}

/*
 * Nothing that was fetched under an older name runs any more, so a sweeper that finds such a name on this server, with
 * messages that were not taken over, may return them at once.
 */
static void show_abandoned(struct worker *w)
{
	uint64_t before = atomic_load(&w->slot->abandoned);

	if (tray_count(w, ITEM_RUNNING) == 0)
		w->claim_gone = false;
	if (!w->registered || w->claim_gone || before == w->id.generation)
		return;
	atomic_store(&w->slot->abandoned, w->id.generation);
	if (before != 0)
		atomic_fetch_add(&w->board->renamed, 1);
}

void session_tick(struct worker *w, int64_t now_ms)
{
	show_abandoned(w);
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

/* Redis executed the oldest renewal that was not answered yet, at some time after it was sent. */
static void lease_granted(struct worker *w)
{
	w->lease_until_ms = w->lease_sent_ms[w->renewals_answered++ % RENEWALS_MAX] + w->owner.lease_ms;
}

static void lease_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	if (reply->type == REDIS_INTEGER && reply->integer == 1) {
		lease_granted(w);
		return;
	}
	w->renewals_answered++;
	if (reply->type == REDIS_INTEGER) {
		w->lease_until_ms = 0;
		session_renew_incarnation(w, "the lease had run out");
		return;
	}
	session_trouble(w, "lease", reply);
	w->next_lease_ms = now_ms + 1000;
}

/* Moves sent before the question are answered, those sent after it are not: owner.moved is of the same moment as the counts. */
static void counts_answer(struct worker *w, const struct redis_reply *reply)
{
	if (reply->type == REDIS_ERROR && redis_error_is(reply, "WRONGTYPE"))
		session_renew_incarnation(w, "the lease has another type");	/* the next name has a lease of its own */
	else if (reply->type == REDIS_ARRAY && reply->n == QUEUE_TRAYS && !queue_lease_agrees(&w->owner, reply))
		session_renew_incarnation(w, "Redis returned to an earlier state");
}

void session_drop(struct worker *w, const struct redis_reply *error, int64_t now_ms)
{
	w->redis.weather = redis_weather(error);
	redis_close(&w->redis, error->type == REDIS_ERROR ? error->str : "unexpected reply type from Redis");
	lose(w, now_ms);
}

/*
 * Redis executed an earlier registration of this name, its answer was lost, and the lease has run out since: a sweeper may hold the
 * name for dead. The trays lie under it, so the next connection takes them over under a new name.
 */
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
	lease_granted(w);
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
	/* 0: a tray holds a message that this worker does not know. It exits like a dead worker, so that a sweeper returns the message. */
	w->clean = w->left && reply->integer == 1;
	if (!w->left)
		session_trouble(w, "deregister", reply);
}

static void dispatch(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	struct expected e = w->expected[w->expect_first++ % ANSWERS_MAX];

	switch ((enum answer)e.answer) {
	case ANSWER_SERVER:
		adopt_server_answer(w, reply);
		break;
	case ANSWER_RENEW:
		renew_answer(w, reply, now_ms);
		break;
	case ANSWER_TOO_LARGE:
		if (too_large_answer(w, reply, now_ms))
			read_trays(w, now_ms);
		break;
	case ANSWER_ADOPT:
		adopt_answer(w, e.tray, reply, now_ms);
		break;
	case ANSWER_LEASE:
		lease_answer(w, reply, now_ms);
		break;
	case ANSWER_COUNTS:
		counts_answer(w, reply);
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
	case ANSWER_EVIDENCE:
		evidence_answer(w, e.item, reply, now_ms);
		break;
	case ANSWER_SECRET:
		notes_secret_answer(w, e.tray, reply, now_ms);
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
	if (rc == 0 && too_large_arriving(w)) {
		forget_asked(w);
		w->connect_at_ms = now_ms;	/* nothing is wrong with Redis: no back-off */
	} else if (rc == -1 && w->expect_first != w->expect_next) {	/* bytes that are no answer */
		lose(w, now_ms);
	}
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
	if (may_renew(w))
		return w->redis.deadline_ms != 0 && w->redis.deadline_ms < w->next_lease_ms ? w->redis.deadline_ms
											    : w->next_lease_ms;
	return w->redis.deadline_ms != 0 ? w->redis.deadline_ms : INT64_MAX;
}
