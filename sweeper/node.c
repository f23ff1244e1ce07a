/*
 * What this node says of itself to consoles on other hosts, every ten seconds, from the scoreboard. Names and shape are
 * stable:
 *
 *	{ "node", "version", "pid", "boot": "16 hex digits", "started", "at": RFC 3339, "at_ms": by the clock of Redis,
 *	  "clock": { "since_ms": that clock runs evenly since then, "stepped_ms": was seen to be set then; 0: never },
 *	  "queues": [ { "name", "state": "running"|"paused"|"recovering"|"breaker"|"no redis", "wanted",
 *	      "undecided": why a silent worker's messages are not returned, where that is so,
 *	      "workers": { "idle", "running", … what is not 0 }, "restarts", "breaker": bool,
 *	      "memory": { "workers", "handlers": resident bytes of those processes } } ],
 *	  "running": [ { "queue", "incarnation", "running_ms" } ] }	of handlers that run for a second or longer
 *
 * Only others read it: a server that will not have it holds nothing up.
 */
#include "sweeper/node.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <bsd/string.h>
#include <jansson.h>

#include "common/clock.h"
#include "common/process.h"
#include "common/queue_nodes.h"
#include "sweeper/sweeper.h"

#define RUNNING_MS 1000

/* The words of status, as far as the sweeper knows them. */
static const char *const state_names[] = {
	[QUEUE_RECOVERING] = "recovering", [QUEUE_OPEN] = "running", [QUEUE_PAUSED] = "paused", [QUEUE_REFUSED] = "no redis",
};

/* Of each queue of the board, how many slots are in which state, and how much memory they and their handlers have. */
struct census {
	struct counted {
		int workers[SLOT_STOPPING + 1];
		int64_t worker_bytes, handler_bytes;
	} queues[SCOREBOARD_QUEUES];
};

static json_t *running(const struct sweeper *s, const struct slot *slot, const char *queue, int64_t ms)
{
	struct incarnation i = { .boot = s->child->boot, .slot = (int)(slot - s->child->board->slots), .generation = slot_generation(slot) };
	char name[INCARNATION_SIZE];

	strlcpy(i.node, s->conf->supervisor.node, sizeof(i.node));
	incarnation_format(&i, name);
	return json_pack("{s:s, s:s, s:I}", "queue", queue, "incarnation", name, "running_ms", (json_int_t)ms);
}

static const char *queue_name(const struct sweeper *s, int64_t index)
{
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (q->board == &s->child->board->queues[index])
			return q->keys.name;
	return NULL;
}

static int64_t resident(int32_t pid)
{
	int64_t bytes = pid > 0 ? process_resident_bytes(pid) : 0;

	return bytes > 0 ? bytes : 0;
}

static json_t *count(const struct sweeper *s, struct census *c, int64_t now_ms)
{
	json_t *all = json_array();

	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		const struct slot *slot = &s->child->board->slots[i];
		int64_t queue = atomic_load(&slot->queue) - 1, started = atomic_load(&slot->started_ms);
		const char *name;

		if (queue < 0 || queue >= SCOREBOARD_QUEUES || slot_state(slot) > SLOT_STOPPING)
			continue;
		c->queues[queue].workers[slot_state(slot)]++;
		c->queues[queue].worker_bytes += resident(atomic_load(&slot->pid));
		c->queues[queue].handler_bytes += resident(atomic_load(&slot->handler_pgid));
		name = started == 0 || now_ms - started < RUNNING_MS ? NULL : queue_name(s, queue);
		if (name != NULL)
			json_array_append_new(all, running(s, slot, name, now_ms - started));
	}
	return all;
}

static json_t *workers(const int counted[SLOT_STOPPING + 1])
{
	json_t *o = json_object();

	for (int state = SLOT_STARTING; state <= SLOT_STOPPING; state++)
		if (counted[state] > 0)
			json_object_set_new(o, slot_state_names[state], json_integer(counted[state]));
	return o;
}

static json_t *queue(const struct swept *q, uint32_t gate, const struct counted *c)
{
	bool breaker = atomic_load(&q->board->breaker_step) > 0;
	uint32_t undecided = atomic_load(&q->board->undecided);

	return json_pack("{s:s, s:s, s:s*, s:i, s:o, s:I, s:b, s:{s:I, s:I}}", "name", q->keys.name,
	    "state", gate == QUEUE_OPEN && breaker ? "breaker" : state_names[gate],
	    "undecided", undecided > 0 ? doubt_text((enum doubt)(undecided - 1)) : NULL, "wanted", (int)atomic_load(&q->board->wanted), "workers", workers(c->workers),
	    "restarts", (json_int_t)atomic_load(&q->board->restarts), "breaker", breaker,
	    "memory", "workers", (json_int_t)c->worker_bytes, "handlers", (json_int_t)c->handler_bytes);
}

static json_t *queues(const struct sweeper *s, const struct census *c)
{
	json_t *all = json_array();
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		uint32_t gate = q->board == NULL ? QUEUE_RECOVERING : atomic_load(&q->board->gate);

		if (q->conf == NULL || q->board == NULL || gate > QUEUE_REFUSED)
			continue;
		json_array_append_new(all, queue(q, gate, &c->queues[q->board - s->child->board->queues]));
	}
	return all;
}

static char *document(const struct sweeper *s, const struct age_clock *clock, int64_t now_ms)
{
	struct census c = {0};
	char started[CLOCK_RFC3339_SIZE], at[CLOCK_RFC3339_SIZE], boot[17], *text;
	json_t *long_ones = count(s, &c, now_ms), *o;

	snprintf(boot, sizeof(boot), "%016" PRIx64, s->child->boot);
	o = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:{s:I, s:I}, s:o, s:o}", "node", s->conf->supervisor.node, "version", QUREDIS_VERSION,
	    "pid", (int)s->child->master_pid, "boot", boot,
	    "started", clock_rfc3339(atomic_load(&s->child->board->started_ms), started),
	    "at", clock_rfc3339(clock->now_ms, at), "at_ms", (json_int_t)clock->now_ms,
	    "clock", "since_ms", (json_int_t)clock->since_ms, "stepped_ms", (json_int_t)clock->stepped_ms,
	    "queues", queues(s, &c), "running", long_ones);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

static bool run_node(struct sweeper *s, int budget, int64_t now_ms)
{
	struct age_clock clock;
	struct redis_reply reply;
	char *text;

	(void)budget;
	if (atomic_load(&s->child->board->sweeper) != s->child->slot || !server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		return false;
	text = document(s, &clock, now_ms);
	if (text == NULL)
		return false;
	queue_node_write(&s->redis, s->conf->supervisor.node, text);
	free(text);
	if (connection_answer(s, &reply) == 0) {
		s->unreported = false;
	} else if (s->redis.state != REDIS_CLOSED && !s->unreported) {
		log_warning("node_unreported", log_str("error", s->error));
		s->unreported = true;
	}
	return false;
}

const struct task node_task = { .name = "node", .interval_ms = QUEUE_NODE_EVERY_MS, .budget = 1, .run = run_node };

void node_drop(struct sweeper *s)
{
	struct redis_reply reply;

	if (atomic_load(&s->child->board->sweeper) != s->child->slot || s->redis.state != REDIS_READY)
		return;
	queue_node_drop(&s->redis, s->conf->supervisor.node);
	connection_answer(s, &reply);
}
