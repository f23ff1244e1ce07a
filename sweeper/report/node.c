/*
 * The report of this node for consoles on other hosts, written every ten seconds from the scoreboard. Names and shape are
 * stable:
 *
 *	{ "node", "version", "pid", "boot": "16 hex digits", "started", "at": RFC 3339, "at_ms": by the clock of Redis,
 *	  "clock": { "since_ms": that clock runs evenly since then, "stepped_ms": was seen to be set then; 0: never },
 *	  "queues": [ { "name", "state": as in quredis status (common/holds/table.c), "wanted",
 *	      "undecided": why a silent worker's messages are not returned, where that is so,
 *	      "workers": { "idle", "running", … what is not 0 }, "restarts", "breaker": bool,
 *	      in every state but running: "reason"; while the breaker is open: "cause" in a few words, and "next_attempt_ms" after at_ms of its handler;
 *	      while all workers have lost Redis: "next_connect_ms" after at_ms, of the first of them,
 *	      "memory": { "workers", "handlers": resident bytes of those processes } } ],
 *	  "running": [ { "queue", "incarnation", "running_ms", "progress": { "percent", "text" } if it reports any } ] }
 *	      of handlers that run for a second or longer
 *
 * Only other hosts need the report, so a server that refuses it delays nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <bsd/string.h>
#include <jansson.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"

#define RUNNING_MS 1000

extern const struct task node_task;

/* For each queue of the board: the number of slots in each state, and the memory of these processes and their handlers. */
struct census {
	struct hold_slots slots;
	struct counted {
		int workers[SLOT_STOPPING + 1];
		int64_t worker_bytes, handler_bytes;
	} queues[SCOREBOARD_QUEUES];
};

static json_t *running_row(const struct sweeper *s, const struct slot *slot, const char *queue, int64_t ms)
{
	struct incarnation i = { .boot = s->child->boot, .slot = (int)(slot - s->child->board->slots), .generation = slot_generation(slot) };
	struct slot_text_seen p = slot_text_read(&slot->progress);
	char name[INCARNATION_SIZE];
	json_t *row, *progress;

	strlcpy(i.node, s->conf->supervisor.node, sizeof(i.node));
	incarnation_format(&i, name);
	row = json_pack("{s:s, s:s, s:I}", "queue", queue, "incarnation", name, "running_ms", (json_int_t)ms);
	if (p.number != -1 && (progress = json_pack("{s:i, s:s}", "percent", p.number, "text", p.text)) != NULL)
		json_object_set_new(row, "progress", progress);
	return row;
}

static int64_t resident(int32_t pid)
{
	int64_t bytes = pid > 0 ? process_resident_bytes(pid) : 0;

	return bytes > 0 ? bytes : 0;
}

static json_t *count_slots(struct sweeper *s, struct census *c, int64_t now_ms)
{
	json_t *all = json_array();

	holds_read_slots(s->child->board, &c->slots);
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		const struct slot *slot = &s->child->board->slots[i];
		int64_t queue = atomic_load(&s->child->board->master.queue_of[i]) - 1, started = atomic_load(&slot->started_ms);
		const struct sweeper_queue *q;

		if (queue < 0 || queue >= SCOREBOARD_QUEUES || slot_state(slot) > SLOT_STOPPING)
			continue;
		c->queues[queue].workers[slot_state(slot)]++;
		c->queues[queue].worker_bytes += resident(atomic_load(&slot->pid));
		c->queues[queue].handler_bytes += resident(atomic_load(&slot->handler_pgid));
		q = started == 0 || now_ms - started < RUNNING_MS ? NULL : sweeper_queue_of_board(s, queue);
		if (q != NULL)
			json_array_append_new(all, running_row(s, slot, q->keys.name, now_ms - started));
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

static void set_left(json_t *row, const char *member, int64_t at_ms, int64_t now_ms)
{
	json_object_set_new(row, member, json_integer(at_ms < now_ms ? 0 : at_ms - now_ms));
}

/* Adds why the breaker is open in a few words, and when workers try the handler again. */
static void add_cause(json_t *row, const struct sweeper_queue *q, int64_t now_ms)
{
	const struct queue_breaker *b = &q->board->workers.breaker;
	char text[HANDLER_CAUSE_SIZE];

	json_object_set_new(row, "cause", json_string(handler_cause_label(atomic_load(&b->cause), text)));
	set_left(row, QUEUE_NODE_NEXT_ATTEMPT, atomic_load(&b->until_ms), now_ms);
}

/* Adds the reason of a hold in the words of `quredis status`, and when a worker tries to connect, if all have lost Redis. */
static void add_reason(json_t *row, const struct sweeper *s, const struct sweeper_queue *q, const struct census *c, const struct judged *judged,
    int64_t now_ms)
{
	const struct scoreboard *b = s->child->board;
	const struct hold_workers *w = &c->slots.of_queue[q->board - b->queues];
	char text[HOLD_TEXT_SIZE];

	if (judged->hold == HOLD_NONE)
		return;
	/* Two sweepers may write a text at a time during a reload: then it may be torn, and no UTF-8. */
	json_object_set_new(row, "reason", json_string(holds_explain(b, q->board, &c->slots, judged, q->conf, 0, text)));
	if (w->next != NULL && w->connected == 0 && queue_error_in(judged->error) == QUEUE_ERROR_NO_REDIS)
		set_left(row, QUEUE_NODE_NEXT_CONNECT, atomic_load(&w->next->redis_retry_ms), now_ms);
}

static json_t *queue(const struct sweeper *s, const struct sweeper_queue *q, const struct census *all, int64_t now_ms)
{
	const struct counted *c = &all->queues[q->board - s->child->board->queues];
	struct judged judged = holds_judge(s->child->board, q->board, &all->slots);
	bool breaker = atomic_load(&q->board->workers.breaker.step) > 0;
	json_t *row;

	row = json_pack("{s:s, s:s, s:s*, s:i, s:o, s:I, s:b, s:{s:I, s:I}}", "name", q->keys.name,
	    "state", holds_table[judged.hold].name, "undecided", holds_undecided(q->board),
	    "wanted", (int)atomic_load(&q->board->master.wanted), "workers", workers(c->workers),
	    "restarts", (json_int_t)atomic_load(&q->board->master.restarts), "breaker", breaker,
	    "memory", "workers", (json_int_t)c->worker_bytes, "handlers", (json_int_t)c->handler_bytes);
	if (breaker)
		add_cause(row, q, now_ms);
	add_reason(row, s, q, all, &judged, now_ms);
	return row;
}

struct queues {
	const struct census *census;
	json_t *all;
	int64_t now_ms;			/* CLOCK_MONOTONIC */
};

static void append_queue(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	struct queues *out = arg;

	if (q->conf != NULL && q->board != NULL)
		json_array_append_new(out->all, queue(s, q, out->census, out->now_ms));
}

static json_t *queues(struct sweeper *s, const struct census *c, int64_t now_ms)
{
	struct queues out = { c, json_array(), now_ms };

	sweeper_queues_each(s, append_queue, &out);
	return out.all;
}

static char *document(struct sweeper *s, const struct age_clock *clock, int64_t now_ms)
{
	struct census c = {0};
	char started[CLOCK_RFC3339_SIZE], at[CLOCK_RFC3339_SIZE], boot[17], *text;
	json_t *long_ones = count_slots(s, &c, now_ms), *o;

	snprintf(boot, sizeof(boot), "%016" PRIx64, s->child->boot);
	o = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:{s:I, s:I}, s:o, s:o}", "node", s->conf->supervisor.node, "version", QUREDIS_VERSION,
	    "pid", (int)s->child->master_pid, "boot", boot,
	    "started", clock_rfc3339(atomic_load(&s->child->board->master.started_ms), started),
	    "at", clock_rfc3339(clock->now_ms, at), "at_ms", (json_int_t)clock->now_ms,
	    "clock", "since_ms", (json_int_t)clock->since_ms, "stepped_ms", (json_int_t)clock->stepped_ms,
	    "queues", queues(s, &c, now_ms), "running", long_ones);
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

struct node_report {
	bool refused;		/* the refusal was logged */
	bool written;		/* this process has written the report */
	int foreign;		/* how often in a row another supervisor had replaced it */
};

/* Two, since a Redis that went back to an earlier state shows the report of an earlier supervisor once. */
#define FOREIGN_LOOKS 2

static void look_at_report(struct sweeper *s, struct node_report *own, const struct redis_reply *reply)
{
	json_t *o = json_loadb(reply->str, reply->len, 0, NULL);
	const char *boot = json_string_value(json_object_get(o, "boot"));
	char ours[17];

	snprintf(ours, sizeof(ours), "%016" PRIx64, s->child->boot);
	own->foreign = boot != NULL && strcmp(boot, ours) != 0 ? own->foreign + 1 : 0;
	if (own->foreign == FOREIGN_LOOKS)
		log_warning("node_shared", log_str("node", s->conf->supervisor.node), log_int("other", json_integer_value(json_object_get(o, "pid"))),
		    log_str("advice", "another supervisor reports under this name: give each its own supervisor.node"));
	json_decref(o);
}

/* The supervisor of another lock may have the same name: each then replaces the other's report. */
static void find_other(struct sweeper *s, struct node_report *own)
{
	struct redis_reply reply;

	if (!own->written)
		return;
	queue_node_read(&s->redis, s->conf->supervisor.node);
	if (connection_answer(s, &reply) == 0 && reply.type == REDIS_STRING)
		look_at_report(s, own, &reply);
}

static bool run_node(struct sweeper *s, int budget, int64_t now_ms)
{
	struct node_report *own = task_own(s, &node_task);
	struct age_clock clock;
	struct redis_reply reply;
	char *text;

	(void)budget;
	if (!sweeper_is_active(s) || !server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		return false;
	find_other(s, own);
	if (s->redis.state == REDIS_CLOSED)
		return false;
	text = document(s, &clock, now_ms);
	if (text == NULL)
		return false;
	queue_node_write(&s->redis, s->conf->supervisor.node, text);
	free(text);
	if (connection_answer(s, &reply) == 0) {
		own->refused = false;
		own->written = true;
	} else if (s->redis.state != REDIS_CLOSED && !own->refused) {
		log_warning("node_unreported", log_str("error", s->connection.error));
		own->refused = true;
	}
	return false;
}

/* At the end of the process: deletes the report. */
static void delete_report(struct sweeper *s)
{
	struct redis_reply reply;

	if (!sweeper_is_active(s) || s->redis.state != REDIS_READY)
		return;
	queue_node_drop(&s->redis, s->conf->supervisor.node);
	connection_answer(s, &reply);
}

const struct task node_task = { .name = "node", .interval_ms = QUEUE_NODE_EVERY_MS, .budget = 1, .unsealed = true, .run = run_node,
	.settle = delete_report, .own_size = sizeof(struct node_report) };
