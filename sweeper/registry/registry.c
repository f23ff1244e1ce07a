/*
 * Keeps this supervisor's own queues in the registry (quredis:queues). It enters them again if Redis has lost them. If
 * nothing else in Redis shows that a queue is served, it renews the score of the queue now and then, because other
 * hosts remove unused entries (unused_entries.c). rescue/foreign.c reads the entries of other hosts.
 */
#include <stdlib.h>
#include <string.h>

#include "sweeper/registry/registry.h"

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define ENTER_MS 60000		/* how often the entries of our queues are checked; more often if the lease is short */

extern const struct task registry_task, registry_show_task;

/* The own state of the task registry. */
struct registry {
	bool failed, logged;		/* an entry could not be read in this turn; that was logged */
};

/* The state of the task registry in a queue. */
struct entered {
	bool refused;			/* the registry did not take the queue: logged */
};

/* ---- our own queues ---- */

int registry_enter(struct sweeper *s, struct sweeper_queue *q, bool again)
{
	struct entered *entered = task_state(q, &registry_task);
	const char *name[] = { q->keys.name };
	bool refused = false, starts = !again && !q->was_recovered;
	struct redis_reply reply;

	queue_register(&s->redis, &q->keys, again);
	/* a sweeper of another host that has seen the entry unused for long must see that it is new */
	if (starts)
		queue_registry_show(&s->redis, name, 1);
	for (int i = 0; i < 2 + starts; i++)
		if (connection_answer(s, &reply) == -1)
			refused = true;
	if (s->redis.state == REDIS_CLOSED)
		return -1;
	if (refused && !entered->refused)
		log_warning("queue_unregistered", log_str("queue", q->keys.name),
		    log_str("error", s->connection.error));
	entered->refused = refused;
	return 0;
}

/* The Ruby gem rewrites the entry without the shared flag. An entry with other lists belongs to another host, and is
 * left alone. */
static bool lacks_shared(struct sweeper *s, const struct sweeper_queue *q)
{
	struct redis_reply reply;
	struct queue_keys registered;
	bool lacks;

	if (!q->keys.shared)
		return false;
	queue_registered(&s->redis, q->keys.name);
	if (connection_answer(s, &reply) == -1 || reply.type != REDIS_STRING ||
	    queue_registered_parse(&registered, s->conf->redis.prefix, q->keys.name, reply.str, reply.len) == -1)
		return false;
	lacks = !registered.shared && strcmp(registered.ingress, q->keys.ingress) == 0 &&
	    strcmp(registered.transit, q->keys.transit) == 0 &&
		strcmp(registered.escape, q->keys.escape) == 0;
	queue_keys_free(&registered);
	return lacks;
}

/* A server that has lost the entry has lost the list of names, too, so one request shows whether both are there. */
static enum task_end run_registry(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	int64_t every_ms = 2 * s->conf->supervisor.lease_ms, there = 0;

	(void)budget;
	task_wake_at(q, &registry_task, now_ms + (every_ms < ENTER_MS ? every_ms : ENTER_MS));
	queue_is_registered(&s->redis, &q->keys);
	if ((connection_integer(s, &there) == -1 || there != 1 || lacks_shared(s, q)) && s->redis.state != REDIS_CLOSED)
		registry_enter(s, q, there != 1);
	return TASK_DONE;
}

static bool is_entered(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->conf != NULL && q->recovered;
}

/* The next connection may lead to a server that has lost the entries. */
static void wake_queue(struct sweeper *s, struct sweeper_queue *q, void *unused)
{
	(void)s;
	(void)unused;
	task_wake_at(q, &registry_task, 0);
}

static void disconnected(struct sweeper *s)
{
	sweeper_queues_each(s, wake_queue, NULL);
}

const struct task registry_task = { .name = "registry", .budget = 1, .wanted = is_entered, .run_queue = run_registry,
	.disconnected = disconnected,
	.own_size = sizeof(struct registry), .state_size = sizeof(struct entered) };

/* ---- queues that nothing else shows ---- */

/* True: the registration of a worker, or the lead, shows that the queue is served, so its score need not be renewed. */
static bool shows_itself(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct scoreboard *board = s->child->board;

	for (int i = 0; i < SCOREBOARD_SLOTS && q->board != NULL; i++) {
		enum slot_state state = slot_state(&board->slots[i]);

		if (atomic_load(&board->master.queue_of[i]) == q->board - board->queues + 1 && state >= SLOT_IDLE &&
		    state <= SLOT_SETTLING)
			return true;
	}
	return lead_wanted(s, q);
}

/* Names whose scores are renewed, a group in each request. */
struct shown {
	const char *names[QUEUE_REGISTRY_GROUP];
	size_t n;
};

static void send_shown(struct sweeper *s, struct shown *shown)
{
	int64_t answer;

	if (shown->n == 0 || s->redis.state != REDIS_READY)
		return;
	queue_registry_show(&s->redis, shown->names, shown->n);
	connection_integer(s, &answer);
	shown->n = 0;
}

static void append_shown(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	struct shown *shown = arg;

	if (q->conf == NULL || shows_itself(s, q))
		return;
	if (shown->n == nitems(shown->names))
		send_shown(s, shown);
	if (shown->n < nitems(shown->names))
		shown->names[shown->n++] = q->keys.name;
}

/* A queue that has just started was entered with a new score, so the first run does nothing. */
static bool run_show(struct sweeper *s, int budget, int64_t now_ms)
{
	struct shown shown = { .n = 0 };
	bool *started = task_own(s, &registry_show_task);
	int64_t there;

	(void)budget;
	(void)now_ms;
	if (!*started) {
		*started = true;
		return false;
	}
	queue_registry_is_there(&s->redis);
	if (connection_integer(s, &there) == 0 && there == 0)
		disconnected(s);
	if (s->redis.state == REDIS_CLOSED)
		return false;
	sweeper_queues_each(s, append_shown, &shown);
	send_shown(s, &shown);
	return false;
}

const struct task registry_show_task = { .name = "registry", .interval_ms = QUEUE_REGISTRY_SHOWN_MS, .budget = 1,
    .run = run_show, .own_size = sizeof(bool) };

/* ---- errors of a turn through the registry ---- */

void registry_note_error(struct sweeper *s, const char *queue)
{
	struct registry *g = task_own(s, &registry_task);

	if (s->redis.state == REDIS_CLOSED)
		return;
	if (!g->logged)
		log_warning("registry_error", log_str("queue", queue), log_str("error", s->connection.error));
	g->failed = g->logged = true;
}

void registry_end_turn(struct sweeper *s)
{
	struct registry *g = task_own(s, &registry_task);

	if (!g->failed)
		g->logged = false;
	g->failed = false;
}
