/*
 * The registry (quredis:queues). Our own queues are kept in it, also when Redis has forgotten everything. Those that
 * others put there are looked at in turn, a few at a time, so that what a dead host left comes back although nobody
 * here serves that queue. What a look is, and whether somebody is dead, is watch.c's.
 */
#include <stdlib.h>
#include <string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
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
	struct redis_reply reply;
	bool refused = false;

	queue_register(&s->redis, &q->keys, again);
	for (int i = 0; i < 2; i++)
		if (connection_answer(s, &reply) == -1)
			refused = true;
	if (s->redis.state == REDIS_CLOSED)
		return -1;
	if (refused && !q->unregistered)
		log_warning("queue_unregistered", log_str("queue", q->keys.name), log_str("error", s->error));
	q->unregistered = refused;
	return 0;
}

/* Who forgets the entry forgets the list of names, too: one look says whether both are there. */
static int see_to(struct sweeper *s, struct swept *q)
{
	int64_t there;

	queue_is_registered(&s->redis, &q->keys);
	if (connection_integer(s, &there) == 0 && there == 1)
		return 0;
	return s->redis.state == REDIS_CLOSED ? -1 : registry_enter(s, q, true);
}

/* A short registry needs no look all the time. */
static int64_t turn_least_ms(const struct sweeper *s)
{
	return 2 * s->conf->supervisor.lease_ms;
}

bool registry_task(struct sweeper *s, int budget, int64_t now_ms)
{
	int64_t every_ms = turn_least_ms(s) < ENTER_MS ? turn_least_ms(s) : ENTER_MS;
	struct registry *g = &s->registry;
	struct swept *q;

	(void)budget;
	if (g->entered_ms != 0 && g->connection == s->redis.connection && now_ms - g->entered_ms < every_ms)
		return false;
	TAILQ_FOREACH(q, &s->queues, entry)
		if (q->conf != NULL && q->recovery == RECOVERED && see_to(s, q) == -1)
			return false;
	g->entered_ms = now_ms;
	g->connection = s->redis.connection;
	return false;
}

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

static void drop_page(struct registry *g)
{
	for (size_t i = 0; i < g->n; i++) {
		free(g->page[i].name);
		free(g->page[i].json);
	}
	g->n = g->next = 0;
}

void registry_free(struct sweeper *s)
{
	drop_page(&s->registry);
}

/* A name that no configuration allows has never had workers. */
static bool is_name(const struct redis_reply *name)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

	return name->type == REDIS_STRING && name->len > 0 && name->len <= QUEUE_NAME_MAX &&
	       strspn(name->str, allowed) == name->len;
}

static int read_names(struct sweeper *s, int64_t *total)
{
	struct registry *g = &s->registry;
	struct redis_reply reply;

	*total = 0;
	queue_registry_page(&s->redis, g->rank, REGISTRY_PAGE);
	if (connection_answer(s, &reply) == -1) {
		registry_wrong(s, NULL);
		return -1;
	}
	for (size_t i = 0; i < reply.n && i < REGISTRY_PAGE; i++) {
		struct redis_reply name = redis_element(&reply, i);

		++*total;
		if (is_name(&name))
			g->page[g->n++] = (struct registered){ .name = alloc_string(name.str) };
	}
	return 0;
}

static void take_entry(struct registered *e, const struct redis_reply *reply)
{
	if (reply->type == REDIS_STRING)
		e->json = alloc_copy(reply->str, reply->len);
}

/* Where one command must not name keys of several slots, or this user may not give it. */
static void read_entries_singly(struct sweeper *s)
{
	struct registry *g = &s->registry;

	for (size_t i = 0; i < g->n; i++)
		queue_registered(&s->redis, g->page[i].name);
	for (size_t i = 0; i < g->n && s->redis.state != REDIS_CLOSED; i++) {
		struct redis_reply reply;

		if (connection_answer(s, &reply) == 0)
			take_entry(&g->page[i], &reply);
		else
			registry_wrong(s, g->page[i].name);
	}
}

static void read_entries(struct sweeper *s)
{
	struct registry *g = &s->registry;
	struct redis_reply reply;
	char *names[REGISTRY_PAGE];

	for (size_t i = 0; i < g->n; i++)
		names[i] = g->page[i].name;
	queue_registered_all(&s->redis, names, g->n);
	if (connection_answer(s, &reply) == -1) {
		if (s->redis.state != REDIS_CLOSED)
			read_entries_singly(s);
		return;
	}
	for (size_t i = 0; reply.type == REDIS_ARRAY && i < reply.n && i < g->n; i++) {
		struct redis_reply entry = redis_element(&reply, i);

		take_entry(&g->page[i], &entry);
	}
}

/* A turn is over, and another one not due yet. */
static bool rests(const struct sweeper *s, int64_t now_ms)
{
	const struct registry *g = &s->registry;

	return g->rank == 0 && g->turn_ms != 0 && now_ms - g->turn_ms < turn_least_ms(s);
}

/* The ranks of a set that changes meanwhile shift: what is left out now comes at the next turn. */
static int next_page(struct sweeper *s, int64_t now_ms)
{
	struct registry *g = &s->registry;
	int64_t total;

	drop_page(g);
	if (g->rank == 0) {
		if (!g->wrong)
			g->said = false;
		g->wrong = false;
		g->alarmed -= g->alarmed > 0 ? 1 : 0;
		g->turn_ms = now_ms;
	}
	if (read_names(s, &total) == -1)
		return -1;
	g->rank = total < REGISTRY_PAGE ? 0 : g->rank + total;
	if (g->n > 0)
		read_entries(s);
	return s->redis.state == REDIS_CLOSED ? -1 : 0;
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

/* Its workers are those of the transit list, whatever the queue is called here or there. */
static bool is_seen_to(const struct sweeper *s, const struct queue_keys *keys)
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
	if (is_seen_to(s, &keys)) {
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
		if (g->next == g->n && (rests(s, now_ms) || next_page(s, now_ms) == -1 || g->n == 0))
			break;
		if (budget-- == 0)
			return true;
		g->looks -= look_at(s, &g->page[g->next++], now_ms) ? 1 : 0;
	}
	g->looks = 0;
	return false;
}
