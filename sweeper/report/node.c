/*
 * The report of this node for consoles on other hosts, written from the scoreboard every ten seconds, and within two
 * after a queue has got another state or another reason of it. Names and shape are stable:
 *
 *	{ "node", "version", "pid", "boot": "16 hex digits", "started", "at": RFC 3339, "at_ms": by the clock of Redis,
 *	  "clock": { "since_ms": that clock runs evenly since then, "stepped_ms": was seen to be set then; 0: never },
 *	  "queues": [ { "name", "state": as in quredis status (common/holds/table.c),
 *	      "rate", "max_in_flight", "throttle": as in the configuration, or null,
 *	      "schedules": { NAME: its times } of those that push to it; absent in older reports,
 *	      "undecided": why a silent worker's messages are not returned, where that is so,
 *	      in every state but running: "reason"; while the breaker is open: "cause" in a few words,
 *	      and the figures of FACT_OF_HOST in common/facts/table.h; of "workers" and "memory" in objects } ],
 *	  "running": [ { "queue", "incarnation", "running_ms", "progress": { "percent", "text" } if it reports any } ] }
 *	      of handlers that run for a second or longer
 *
 * Only other hosts need the report, so a server that refuses it delays nothing.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <jansson.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/holds/holds.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/report/health.h"
#include "sweeper/report/node.h"

#define RUNNING_MS 1000

static json_t *running_row(const struct sweeper *s, const struct slot *slot, const char *queue, int64_t ms)
{
	struct incarnation i = { .boot = s->child->boot, .slot = (int)(slot - s->child->board->slots),
	    .generation = slot_generation(slot) };
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

static json_t *running_rows(struct sweeper *s, int64_t now_ms)
{
	json_t *all = json_array();

	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		const struct slot *slot = &s->child->board->slots[i];
		int64_t queue = atomic_load(&s->child->board->master.queue_of[i]) - 1,
		    started = atomic_load(&slot->started_ms);
		const struct sweeper_queue *q = NULL;

		if (queue >= 0 && queue < SCOREBOARD_QUEUES && started != 0 && now_ms - started >= RUNNING_MS)
			q = sweeper_queue_of_board(s, queue);
		if (q != NULL)
			json_array_append_new(all, running_row(s, slot, q->keys.name, now_ms - started));
	}
	return all;
}

/* ---- the memory of this host ---- */

static int64_t resident(int32_t pid)
{
	int64_t bytes = pid > 0 ? process_resident_bytes(pid) : 0;

	return bytes > 0 ? bytes : 0;
}

struct memory {
	int64_t workers, handlers;	/* bytes */
};

/* By the place of the queue on the board: a new array. */
static struct memory *measure_memory(const struct scoreboard *b)
{
	struct memory *all = alloc_zero(SCOREBOARD_QUEUES, sizeof(*all));

	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		const struct slot *slot = &b->slots[i];
		int64_t queue = atomic_load(&b->master.queue_of[i]) - 1;

		if (queue < 0 || queue >= SCOREBOARD_QUEUES || slot_state(slot) == SLOT_FREE)
			continue;
		all[queue].workers += resident(atomic_load(&slot->pid));
		all[queue].handlers += resident(atomic_load(&slot->handler_pgid));
	}
	return all;
}

/* ---- the document ---- */

struct queues {
	struct hold_slots slots;
	struct memory *memory;		/* by the place on the board */
	json_t *all;
	int64_t now_ms;			/* CLOCK_MONOTONIC */
};

/* In the words of `quredis status`. NULL, and left out: there is none, or two sweepers have written the text at a time,
 * during a reload. */
static json_t *reason_of(const struct sweeper *s, const struct sweeper_queue *q, const struct queues *out,
    const struct judged *judged)
{
	char text[HOLD_TEXT_SIZE];

	return json_string(holds_lasting_reason(s->child->board, q->board, &out->slots, judged, q->conf, text));
}

static struct facts facts_of(const struct sweeper *s, const struct sweeper_queue *q, const struct queues *out,
    const struct judged *judged)
{
	const struct memory *memory = &out->memory[q->board - s->child->board->queues];
	struct facts f = holds_host_facts(s->child->board, q->board, &out->slots, judged, q->conf, out->now_ms);

	f.n[FACT_WORKER_MEMORY] = memory->workers;
	f.n[FACT_HANDLER_MEMORY] = memory->handlers;
	return f;
}

static json_t *names_of(uint32_t also)
{
	json_t *names = also == 0 ? NULL : json_array();

	for (int hold = HOLDS - 1; also != 0 && hold > HOLD_NONE; hold--)
		if ((also & 1U << hold) != 0)
			json_array_append_new(names, json_string(holds_table[hold].name));
	return names;
}

static json_t *schedules_of_queue(const struct conf *conf, const char *queue)
{
	json_t *all = json_object();
	char *times;

	for (size_t i = 0; i < conf->nschedules; i++) {
		if (strcmp(conf->schedules[i]->queue, queue) != 0)
			continue;
		times = conf_schedule_times(conf->schedules[i]);
		json_object_set_new(all, conf->schedules[i]->name, json_string(times));
		free(times);
	}
	return all;
}

static void append_queue(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	struct queues *out = arg;
	char cause[HANDLER_CAUSE_SIZE], rate[CONF_RATE_TEXT_SIZE];
	struct judged judged;
	struct facts f;
	json_t *row;

	if (q->conf == NULL || q->board == NULL)
		return;
	judged = holds_judge(s->child->board, q->board, &out->slots);
	f = facts_of(s, q, out, &judged);
	row = json_pack("{s:s, s:s, s:s?, s:o, s:s?, s:o*, s:s*, s:o*}", "name", q->keys.name, "state",
	    holds_table[judged.hold].name, "rate",
	    q->conf->rate.n == 0 ? NULL : conf_rate_text(&q->conf->rate, rate), "max_in_flight",
	    q->conf->max_in_flight > 0 ? json_integer(q->conf->max_in_flight) : json_null(), "throttle",
	    q->conf->throttle, "also", names_of(judged.also),
	    "undecided", holds_undecided(q->board), "schedules", schedules_of_queue(s->conf, q->keys.name));
	if (f.n[FACT_BREAKER] > 0)
		json_object_set_new(row, "cause",
		    json_string(handler_cause_label(atomic_load(&q->board->workers.breaker.cause), cause)));
	json_object_set_new(row, "reason", reason_of(s, q, out, &judged));
	facts_write(row, FACT_OF_HOST, 0, &f);
	json_array_append_new(out->all, row);
}

static json_t *queues(struct sweeper *s, int64_t now_ms)
{
	struct queues out = { .memory = measure_memory(s->child->board), .all = json_array(), .now_ms = now_ms };

	holds_read_slots(s->child->board, &out.slots);
	sweeper_queues_each(s, append_queue, &out);
	free(out.memory);
	return out.all;
}

static char *document(struct sweeper *s, const struct age_clock *clock, int64_t now_ms)
{
	char started[CLOCK_RFC3339_SIZE], at[CLOCK_RFC3339_SIZE], boot[17], *text;
	json_t *o;

	snprintf(boot, sizeof(boot), "%016" PRIx64, s->child->boot);
	o = json_pack("{s:s, s:s, s:i, s:s, s:s, s:s, s:I, s:{s:I, s:I}, s:o, s:o}",
	    "node", s->conf->supervisor.node, "version", QUREDIS_VERSION,
	    "pid", (int)s->child->master_pid, "boot", boot,
	    "started", clock_rfc3339(atomic_load(&s->child->board->master.started_ms), started),
	    "at", clock_rfc3339(clock->now_ms, at), "at_ms", (json_int_t)clock->now_ms,
	    "clock", "since_ms", (json_int_t)clock->since_ms, "stepped_ms", (json_int_t)clock->stepped_ms,
	    "queues", queues(s, now_ms), "running", running_rows(s, now_ms));
	text = json_dumps(o, JSON_COMPACT);
	json_decref(o);
	return text;
}

/* ---- whether what the report says has changed ---- */

#define LOOK_MS 1000		/* between looks, and so between reports, however often a state changes */

static void add_state(struct sweeper *s, struct sweeper_queue *q, void *arg)
{
	uint64_t *sum = arg;
	struct judged judged;
	char text[HOLD_TEXT_SIZE];
	const char *reason;

	if (q->conf == NULL || q->board == NULL)
		return;
	judged = holds_judge(s->child->board, q->board, health_slots(s));
	reason = holds_lasting_reason(s->child->board, q->board, health_slots(s), &judged, q->conf, text);
	*sum = hash_text(hash_byte(*sum, (unsigned char)judged.hold), reason == NULL ? "" : reason);
}

/* States, not events: a state that has come and gone between two looks needs no report. */
static uint64_t states_now(struct sweeper *s)
{
	uint64_t sum = HASH_EMPTY;

	sweeper_queues_each(s, add_state, &sum);
	return sum;
}

/* ---- the task ---- */

struct node_report {
	int64_t due_ms;		/* CLOCK_MONOTONIC: the next report, at the latest */
	int64_t look_ms;	/* the next look whether another one is needed */
	uint64_t states;	/* states_now() at the last report */
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
		log_warning("node_shared", log_str("node", s->conf->supervisor.node),
		    log_int("other", json_integer_value(json_object_get(o, "pid"))),
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

static bool is_due(struct node_report *own, uint64_t states, int64_t now_ms)
{
	own->look_ms = now_ms + LOOK_MS;
	return now_ms >= own->due_ms || states != own->states;
}

static void write_node_report(struct sweeper *s, struct node_report *own, const char *text)
{
	struct redis_reply reply;

	queue_node_write(&s->redis, s->conf->supervisor.node, text);
	if (connection_answer(s, &reply) == 0) {
		own->refused = false;
		own->written = true;
	} else if (s->redis.state != REDIS_CLOSED && !own->refused) {
		log_warning("node_unreported", log_str("error", s->connection.error));
		own->refused = true;
	}
}

/* Other tasks wake the loop each second, so a look costs no turn of its own. */
static bool run_node(struct sweeper *s, int budget, int64_t now_ms)
{
	struct node_report *own = task_own(s, &node_task);
	struct age_clock clock;
	uint64_t states;
	char *text;

	(void)budget;
	if (now_ms < own->look_ms || !sweeper_is_active(s) ||
	    !server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		return false;
	states = states_now(s);
	if (!is_due(own, states, now_ms))
		return false;
	find_other(s, own);
	if (s->redis.state == REDIS_CLOSED)
		return false;
	text = document(s, &clock, now_ms);
	if (text == NULL)
		return false;
	write_node_report(s, own, text);
	free(text);
	if (s->redis.state != REDIS_CLOSED) {
		own->states = states;
		own->due_ms = now_ms + QUEUE_NODE_EVERY_MS;
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

const struct task node_task = { .name = "node", .budget = 1, .unsealed = true, .run = run_node,
	.settle = delete_report, .own_size = sizeof(struct node_report) };
