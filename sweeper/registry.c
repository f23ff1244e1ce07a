/*
 * The registry (quredis:queues). Our own queues are kept in it, also when Redis has forgotten everything, and those that
 * nothing else shows to be served are shown there. Those that others put there are looked at in turn, a few at a time, so
 * that what a dead host left comes back although nobody here serves that queue. What a look is, and whether somebody is
 * dead, is watch.c's; entries that nobody needs leave by vacancies.c.
 */
#include <stdlib.h>
#include <string.h>

#include "sweeper/sweeper.h"

#include "common/nitems.h"
#include "common/queue_watch.h"

#define ENTER_MS 60000		/* how often our queues are seen to; more often if the lease is short */
#define LOOKS 2			/* a round: half a lease */
#define LOOKS_PER_WORKERS 8	/* one more for so many workers of our own: they cost more than it */
#define LOOKS_ALARMED 50	/* the same when somebody was missed */
#define ALARMED_TURNS 2		/* the rest of this one, and a whole one */

/* ---- our own queues ---- */

/* Only others read the registry: a server that will not have the entry (full, no right) holds nothing up. */
int registry_enter(struct sweeper *s, struct swept *q, bool again)
{
	const char *name[] = { q->keys.name };
	bool refused = false, starts = !again && !q->was_recovered;
	struct redis_reply reply;

	queue_register(&s->redis, &q->keys, again);
	if (starts)		/* of who saw it unused for long nobody takes it for the same */
		queue_registry_show(&s->redis, name, 1);
	for (int i = 0; i < 2 + starts; i++)
		if (connection_answer(s, &reply) == -1)
			refused = true;
	if (s->redis.state == REDIS_CLOSED)
		return -1;
	if (refused && !q->unregistered)
		log_warning("queue_unregistered", log_str("queue", q->keys.name), log_str("error", s->error));
	q->unregistered = refused;
	return 0;
}

/* The gem writes our entry anew, and leaves out that others share the queue. An entry of other lists is somebody else's. */
static bool lacks_shared(struct sweeper *s, const struct swept *q)
{
	struct redis_reply reply;
	struct queue_keys told;
	bool lacks;

	if (!q->keys.shared)
		return false;
	queue_registered(&s->redis, q->keys.name);
	if (connection_answer(s, &reply) == -1 || reply.type != REDIS_STRING ||
	    queue_registered_parse(&told, q->keys.name, reply.str, reply.len) == -1)
		return false;
	lacks = !told.shared && strcmp(told.ingress, q->keys.ingress) == 0 && strcmp(told.transit, q->keys.transit) == 0 &&
		strcmp(told.escape, q->keys.escape) == 0;
	queue_keys_free(&told);
	return lacks;
}

/* Who forgets the entry forgets the list of names, too: one look says whether both are there. */
static int see_to(struct sweeper *s, struct swept *q)
{
	int64_t there = 0;

	queue_is_registered(&s->redis, &q->keys);
	if (connection_integer(s, &there) == 0 && there == 1 && !lacks_shared(s, q))
		return 0;
	return s->redis.state == REDIS_CLOSED ? -1 : registry_enter(s, q, there != 1);
}

/* A short registry needs no look all the time. */
static int64_t turn_least_ms(const struct sweeper *s)
{
	return 2 * s->conf->supervisor.lease_ms;
}

/* A worker, or whoever does its periodic work, shows that somebody serves it: so nothing is written for it. */
static bool shows_itself(const struct sweeper *s, const struct swept *q)
{
	const struct scoreboard *board = s->child->board;

	for (int i = 0; i < SCOREBOARD_SLOTS && q->board != NULL; i++) {
		enum slot_state state = slot_state(&board->slots[i]);

		if (atomic_load(&board->slots[i].queue) == q->board - board->queues + 1 && state >= SLOT_IDLE && state <= SLOT_SETTLING)
			return true;
	}
	return lead_wanted(s, q);
}

/* Others may forget a queue that nobody serves (vacancies.c). -1: lost */
static int show(struct sweeper *s, bool *forgotten)
{
	const char *names[QUEUE_REGISTRY_GROUP];
	const struct swept *q;
	int64_t answer;
	size_t n = 0;

	queue_registry_is_there(&s->redis);
	*forgotten = connection_integer(s, &answer) == 0 && answer == 0;
	TAILQ_FOREACH(q, &s->queues, entry) {
		if (q->conf != NULL && !shows_itself(s, q))
			names[n++] = q->keys.name;
		if (n == nitems(names) || (n > 0 && TAILQ_NEXT(q, entry) == NULL)) {
			queue_registry_show(&s->redis, names, n);
			if (connection_integer(s, &answer) == -1 && s->redis.state == REDIS_CLOSED)
				return -1;
			n = 0;
		}
	}
	return s->redis.state == REDIS_CLOSED ? -1 : 0;
}

static int show_now_and_then(struct sweeper *s, int64_t now_ms)
{
	struct registry *g = &s->registry;
	bool forgotten = false;

	if (g->shown_ms == 0)		/* who starts was shown by recovery */
		g->shown_ms = now_ms;
	if (now_ms - g->shown_ms < REGISTRY_SHOWN_MS)
		return 0;
	if (show(s, &forgotten) == -1)
		return -1;
	g->shown_ms = now_ms;
	if (forgotten)
		g->entered_ms = 0;
	return 0;
}

static bool run_registry(struct sweeper *s, int budget, int64_t now_ms)
{
	int64_t every_ms = turn_least_ms(s) < ENTER_MS ? turn_least_ms(s) : ENTER_MS;
	struct registry *g = &s->registry;
	struct swept *q;

	(void)budget;
	if (show_now_and_then(s, now_ms) == -1 ||
	    (g->entered_ms != 0 && g->connection == s->redis.connection && now_ms - g->entered_ms < every_ms))
		return false;
	TAILQ_FOREACH(q, &s->queues, entry)
		if (q->conf != NULL && q->recovery == RECOVERED && see_to(s, q) == -1)
			return false;
	g->entered_ms = now_ms;
	g->connection = s->redis.connection;
	return false;
}

const struct task registry_task = { .name = "registry", .interval_ms = 1000, .budget = 1, .run = run_registry };

/* ---- pages ---- */

void registry_wrong(struct sweeper *s, const char *queue)
{
	struct registry *g = &s->registry;

	if (s->redis.state == REDIS_CLOSED)
		return;
	if (!g->said)
		log_warning("registry_trouble", log_str("queue", queue), log_str("error", s->error));
	g->wrong = g->said = true;
}

void registry_free(struct sweeper *s)
{
	registry_page_drop(&s->registry.page);
}

/* A turn is over, and another one not due yet. */
static bool rests(const struct sweeper *s, int64_t now_ms)
{
	const struct registry *g = &s->registry;

	return g->page.rank == 0 && g->turn_ms != 0 && now_ms - g->turn_ms < turn_least_ms(s);
}

static int next_page(struct sweeper *s, int64_t now_ms)
{
	struct registry *g = &s->registry;

	if (g->page.rank == 0) {
		if (!g->wrong)
			g->said = false;
		g->wrong = false;
		g->alarmed -= g->alarmed > 0 ? 1 : 0;
		g->turn_ms = now_ms;
	}
	g->next = 0;
	return registry_page_next(s, &g->page);
}

/* ---- queues that are not ours ---- */

void registry_round(struct sweeper *s)
{
	const struct swept *q;
	int workers = 0;

	TAILQ_FOREACH(q, &s->queues, entry)
		workers += q->conf == NULL ? 0 : q->conf->workers;
	s->registry.looks = (s->registry.alarmed > 0 ? LOOKS_ALARMED : LOOKS) + workers / LOOKS_PER_WORKERS;
}

bool registry_is_seen_to(const struct sweeper *s, const struct queue_keys *keys)
{
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (strcmp(q->keys.transit, keys->transit) == 0)
			return true;
	return false;
}

/* True: it cost a look. */
static bool look_at(struct sweeper *s, const struct registered *e, int64_t now_ms)
{
	struct queue_keys keys;

	if (e->json == NULL || queue_registered_parse(&keys, e->name, e->json, strlen(e->json)) == -1) {
		trouble_say(s, TROUBLE_OTHER, "its entry in the registry names no lists");
		registry_wrong(s, e->name);
		return false;
	}
	if (registry_is_seen_to(s, &keys)) {
		queue_keys_free(&keys);
		return false;
	}
	if (watch_queue(s, swept_add(s, keys, NULL), now_ms))
		s->registry.alarmed = ALARMED_TURNS;	/* who is missed there may be missed elsewhere: soon */
	return true;
}

bool registry_look(struct sweeper *s, int budget, int64_t now_ms)
{
	struct registry *g = &s->registry;

	while (g->looks > 0 && sweeper_goes_on(s)) {
		if (g->next == g->page.n && (rests(s, now_ms) || next_page(s, now_ms) == -1 || g->page.n == 0))
			break;
		if (budget-- == 0)
			return true;
		g->looks -= look_at(s, &g->page.entries[g->next++], now_ms) ? 1 : 0;
	}
	g->looks = 0;
	return false;
}
