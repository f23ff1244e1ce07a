/*
 * The state of the supervisor, as a JSON object for the control socket and as lines for the log. Names and shape are
 * stable:
 *
 *	{ "version", "pid", "node", "boot": "16 hex digits", "since": RFC 3339, "uptime_ms",
 *	  "state": "running"|"quiet"|"draining", "config",
 *	  "reload_failed": null, or of the last reload { "at": RFC 3339, "problems": their number, "reason": the
 *	  first },
 *	  "redis": {"url", "embedded", "prefix", "target": the server of the configuration, "tls", "master": its name
 *	  for the Sentinels or null,
 *	      of the sweeper's connection: "connected", "address" or null, "sentinel": the one that named the server, or
 *	      null},
 *	  "sweeper": {"pid", "state", "heartbeat_age_ms"} or null, "keeper": {"pid", "redis_pid", "unsaved"} or null,
 *	  "unconfirmed_deaths",
 *	  "queues": [ { "name", "state", "reason" or null, "undecided": why a silent worker cannot be proven dead, or
 *	  null,
 *	      "aside": null, or of the messages that Redis refused to move { "messages", "size" of the newest, "reason"
 *	      }, "workers": {"wanted", "alive", "draining"},
 *	      "renewal": {"generation" of the handler since the last reload or restart, "outdated": workers that serve
 *	      with an earlier one, "ready": a worker serves with it, and it was READY, "not_ready": why it did not
 *	      replace an earlier one, or null, "failed": why it is not ready in a worker that serves, or null,
 *	      "waits_for": what the successor of one waits for, or null},
 *	      the figures of FACT_OF_HOST that common/facts/table.h shows in its table: "wanted", "restarts",
 *	      "counters": {"fetched", "done", … all of common/facts/counters.h},
 *	      "classes": {the dead letters of each class that the handler named},
 *	      "durations": [ {"below_ms": 1, "count"}, … , {"below_ms": null, "count"} ] } ],
 *	  "workers": [ { "queue", "name": "mail/0", "pid", "slot", "incarnation" or null, "state", "serial",
 *	      "waits_for": why it requests no message now (slot_waits_for()), or null, "running_ms" or null,
 *	      "progress": {"percent", "text"} or null, "heartbeat_age_ms", "draining": bool, "redis": bool } ] }
 *
 * Counters and durations count from the master's start and never fall; a queue that left the
 * configuration is listed as long as workers of it live.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/log/log.h"
#include "common/queue/queue.h"
#include "supervisor/master.h"
#include "supervisor/status.h"

static json_t *json_number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

/* JSON must be UTF-8, but a file name may have any bytes, and a text of the scoreboard may be torn. */
static json_t *json_path(const char *s)
{
	json_t *o = json_string(s);

	return o != NULL ? o : json_string("(not UTF-8)");
}

static json_t *text_or_null(const char *s)
{
	return s == NULL ? json_null() : json_path(s);
}

static void add_classes(json_t *to, const struct queue_classes *from)
{
	struct class_figure f[CLASS_FIGURES];
	size_t n = classes_sum(from, f);

	for (size_t i = 0; i < n; i++)
		json_object_set_new(to, f[i].name,
		    json_number((uint64_t)json_integer_value(json_object_get(to, f[i].name)) + f[i].n));
}

/* Those of all places of the queue on the board, as in totals_of(). */
static json_t *classes(const struct queues *qs, int queue)
{
	json_t *o = json_object();

	for (int i = 0; i < qs->n; i++)
		if (queues_root(qs, i) == queue)
			add_classes(o, &qs->board->queues[i].workers.classes);
	return o;
}

static json_t *aside(const struct master *m, const struct queue_workers *q)
{
	const struct board_queue *b = &m->board->queues[queues_place(&m->queues, q)];
	const char *reason = holds_aside(b);

	if (reason == NULL)
		return json_null();
	return json_pack("{s:o,s:I,s:s}", "messages", json_number(atomic_load(&b->sweeper.aside)),
	    "size", (json_int_t)atomic_load(&b->sweeper.aside_size), "reason", reason);
}

static json_t *holds(const struct master *m, const struct queue_workers *q, const struct hold_slots *slots,
    const struct judged all[HOLDS], size_t n, int64_t now_ms)
{
	const struct board_queue *b = &m->board->queues[queues_place(&m->queues, q)];
	json_t *list = json_array();
	char text[HOLD_TEXT_SIZE];

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_pack("{s:s,s:o,s:s,s:s}", "state", holds_table[all[i].hold].name,
		    "reason", text_or_null(holds_explain_alone(m->board, b, slots, &all[i], q->conf, now_ms, text)),
		    "setter", holds_table[all[i].hold].setter, "until", holds_table[all[i].hold].end));
	return list;
}

static json_t *renewal(const struct master *m, const struct queue_workers *q)
{
	int queue = queues_place(&m->queues, q);
	struct slot_text_seen why = slot_text_read(&m->board->queues[queue].master.not_ready_why);
	char failure[RENEWAL_WHY_SIZE];

	return json_pack("{s:I,s:i,s:b,s:o,s:o,s:o}", "generation", (json_int_t)q->handler_generation,
	    "outdated", renewal_outdated(&m->queues, queue), "ready", renewal_is_loaded(&m->queues, queue),
	    "not_ready", q->not_ready ? json_path(why.text) : json_null(),
	    "failed", renewal_has_failed(&m->queues, queue, failure) ? json_path(failure) : json_null(),
	    "waits_for", text_or_null(renewal_waits_for(&m->queues, queue)));
}

/* In the words of the worst hold. An order, as a pause, must not hide what is known against the handler. */
static json_t *reason(const struct master *m, const struct queue_workers *q, const struct hold_slots *slots,
    const struct judged *worst, int64_t now_ms)
{
	const struct board_queue *b = &m->board->queues[queues_place(&m->queues, q)];
	char text[HOLD_TEXT_SIZE], flaw[HOLD_TEXT_SIZE];
	const char *why = holds_explain(m->board, b, slots, worst, q->conf, now_ms, text);
	char *both;
	json_t *o;

	if (why == NULL || worst->hold == HOLD_NONE || holds_explain_not_ready(b, flaw) == NULL)
		return text_or_null(why);
	both = alloc_format("%s; also: %s", why, flaw);
	o = json_path(both);
	free(both);
	return o;
}

static json_t *queue(const struct master *m, const struct queue_workers *q, const struct hold_slots *slots,
    int64_t now_ms)
{
	struct totals t = totals_of(&m->queues, queues_place(&m->queues, q));
	const struct board_queue *b = &m->board->queues[queues_place(&m->queues, q)];
	struct judged all[HOLDS];
	/* read once, since others write the board: the first one is state and reason */
	size_t n = holds_list(m->board, b, slots, all);
	struct judged judged = holds_worst(m->board, b, slots, all, n);
	struct facts f = holds_host_facts(m->board, b, slots, &judged, q->conf, now_ms);
	json_t *row = json_pack("{s:s,s:s,s:o,s:o,s:o,s:o,s:{s:i,s:i,s:i},s:o,s:o,s:o,s:o}",
	    "name", q->name,
	    "state", holds_table[judged.hold].name,
	    "reason", reason(m, q, slots, &judged, now_ms),
	    "holds", holds(m, q, slots, all, n, now_ms),
	    "undecided", text_or_null(holds_undecided(b)),
	    "aside", aside(m, q),
	    "workers", "wanted", queues_wanted(q), "alive", q->serving, "draining", t.draining,
	    "renewal", renewal(m, q),
	    "counters", counters_json(t.counters, COUNTERS_ALL),
	    "classes", classes(&m->queues, queues_place(&m->queues, q)),
	    "durations", counters_histogram_json(t.durations));

	facts_write(row, FACT_OF_HOST, IN_STATUS | IN_STATUS_END, &f);
	return row;
}

static const struct slot *slot_of(const struct master *m, const struct process *p)
{
	return &m->board->slots[processes_slot(&m->processes, p)];
}

static const char *incarnation(const struct master *m, const struct process *p, char out[INCARNATION_SIZE])
{
	struct incarnation i = { .boot = m->spawner.boot, .slot = processes_slot(&m->processes, p),
	    .generation = slot_generation(slot_of(m, p)) };

	if (i.generation == 0)
		return NULL;
	strlcpy(i.node, m->config.conf->supervisor.node, sizeof(i.node));
	incarnation_format(&i, out);
	return out;
}

static int64_t running_ms(const struct slot *s, int64_t now_ms)
{
	int64_t started = atomic_load(&s->started_ms);

	return started == 0 ? -1 : now_ms - started;
}

static const char *state_name(const struct slot *s)
{
	enum slot_state state = slot_state(s);

	return state <= SLOT_STOPPING ? slot_state_names[state] : "unknown";
}

/* The text has no control characters. It is torn, and then perhaps no UTF-8, if the worker was killed while it
 * wrote. */
static json_t *progress(const struct slot *s)
{
	struct slot_text_seen p = slot_text_read(&s->progress);
	json_t *text = json_string(p.text);

	if (p.number == -1 || text == NULL) {
		json_decref(text);
		return json_null();
	}
	return json_pack("{s:i, s:o}", "percent", p.number, "text", text);
}

static json_t *worker(const struct master *m, const struct process *p, int64_t now_ms)
{
	const struct slot *s = slot_of(m, p);
	char name[PROCESS_NAME_SIZE], inc[INCARNATION_SIZE];
	int64_t running = running_ms(s, now_ms);

	return json_pack("{s:s,s:s,s:i,s:i,s:o,s:s,s:o,s:o,s:o,s:o,s:I,s:b,s:b}",
	    "queue", p->role.queue_name,
	    "name", process_name(&p->role, name),
	    "pid", (int)p->pid,
	    "slot", processes_slot(&m->processes, p),
	    "incarnation", text_or_null(incarnation(m, p, inc)),
	    "state", state_name(s),
	    "waits_for", text_or_null(slot_waits_for(atomic_load(&s->hold))),
	    "serial", json_number(atomic_load(&s->serial)),
	    "running_ms", running < 0 ? json_null() : json_integer(running),
	    "progress", progress(s),
	    "heartbeat_age_ms", (json_int_t)(now_ms - atomic_load(&s->heartbeat_ms)),
	    "draining", p->state == PROCESS_LEAVING ||
	    processes_is_finishing(&m->processes, processes_slot(&m->processes, p)),
	    "redis", atomic_load(&s->redis_down) == 0);
}

static json_t *sweeper(const struct master *m, int64_t now_ms)
{
	const struct process *p = processes_sweeper(&m->processes);

	if (p == NULL)
		return json_null();
	return json_pack("{s:i,s:s,s:I}", "pid", (int)p->pid, "state", state_name(slot_of(m, p)),
	    "heartbeat_age_ms", (json_int_t)(now_ms - atomic_load(&slot_of(m, p)->heartbeat_ms)));
}

/* A word of the sweeper may be older than the configuration. */
static json_t *sentinel_address(const struct redis_target *t, uint32_t sentinel)
{
	const struct redis_address *a = sentinel == 0 || sentinel > t->naddresses ? NULL : &t->addresses[sentinel - 1];

	if (a == NULL || t->master == NULL)
		return json_null();
	return json_sprintf(strchr(a->host, ':') != NULL ? "[%s]:%d" : "%s:%d", a->host, a->port);
}

static json_t *redis_server(const struct master *m)
{
	const struct conf *conf = m->config.conf;
	const struct board_sweeper *words = &m->board->sweeper;
	const struct process *p = processes_sweeper(&m->processes);
	const struct redis_options options = conf_redis_options(conf);
	bool connected = p != NULL && atomic_load(&slot_of(m, p)->redis_down) == 0 &&
	    slot_state(slot_of(m, p)) > SLOT_CONNECTING;
	struct redis_endpoint peer = { atomic_load(&words->peer_high), atomic_load(&words->peer_low),
	    (int)atomic_load(&words->peer_port) };
	char address[REDIS_ENDPOINT_SIZE], error[256];
	struct redis_target t;
	json_t *o;

	if (redis_target_parse(&t, &options, error, sizeof(error)) == -1)
		t = (struct redis_target){0};		/* cannot happen: the configuration was checked */
	o = json_pack("{s:o,s:b,s:s,s:o,s:b,s:o,s:b,s:o,s:o}",
	    "url", json_path(conf->redis.url), "embedded", conf->redis.embedded,
	    "prefix", conf->redis.prefix == NULL ? "" : conf->redis.prefix,
	    "target", json_path(t.shown == NULL ? conf->redis.url : t.shown),
	    "tls", t.tls,
	    "master", text_or_null(t.master),
	    "connected", connected,
	    "address", !connected ? json_null() : peer.port != 0 ? json_string(redis_endpoint_format(&peer, address))
	    : json_path(t.unix_path),
	    "sentinel", connected ? sentinel_address(&t, atomic_load(&words->peer_sentinel)) : json_null());
	redis_target_free(&t);
	return o;
}

/* Redis has acknowledged these bytes and could not write them to its file, while a stop waits for that. null: no stop
 * waits. */
static json_t *unsaved(const struct master *m, const struct slot *s)
{
	int64_t bytes = atomic_load(&s->unsaved);
	struct slot_text_seen why = slot_text_read(&s->redis_why);

	if (bytes == 0)
		return json_null();
	return json_pack("{s:o,s:s,s:o}", "bytes", bytes == SLOT_UNSAVED_UNKNOWN ? json_null() : json_integer(bytes),
	    "reason", why.text, "dir", json_path(m->config.conf->redis.dir));
}

static json_t *keeper(const struct master *m)
{
	const struct process *p = processes_next(&m->processes, NULL, PROCESS_KEEPER);

	if (p == NULL)
		return json_null();
	return json_pack("{s:i,s:i,s:o}", "pid", (int)p->pid,
	    "redis_pid", (int)atomic_load(&slot_of(m, p)->handler_pgid), "unsaved", unsaved(m, slot_of(m, p)));
}

static const char *state_of_master(const struct master *m)
{
	if (m->stop.phase != STOP_NOT)
		return "draining";
	return m->queues.quiet ? "quiet" : "running";
}

static bool is_shown(const struct queue_workers *q)
{
	return q->membership == MEMBER_CONFIGURED || (q->leaving > 0 && q->heir == -1);
}

static json_t *queues(const struct master *m, int64_t now_ms)
{
	json_t *a = json_array();
	struct hold_slots slots;

	holds_read_slots(m->board, &slots);
	for (int i = 0; i < m->queues.n; i++)
		if (is_shown(&m->queues.items[i]))
			json_array_append_new(a, queue(m, &m->queues.items[i], &slots, now_ms));
	return a;
}

/* In the order of the queues, then by number. The order of the slots says nothing, since a free slot is taken again. */
static int by_queue_and_index(const void *a, const void *b)
{
	const struct process *p = *(const struct process *const *)a, *q = *(const struct process *const *)b;

	if (p->role.queue != q->role.queue)
		return p->role.queue - q->role.queue;
	if (p->role.index != q->role.index)
		return p->role.index - q->role.index;
	return p < q ? -1 : p > q;
}

static json_t *workers(const struct master *m, int64_t now_ms)
{
	const struct process *sorted[SCOREBOARD_SLOTS];
	size_t n = 0;
	json_t *a = json_array();

	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_WORKER)) != NULL;)
		sorted[n++] = p;
	qsort(sorted, n, sizeof(sorted[0]), by_queue_and_index);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, worker(m, sorted[i], now_ms));
	return a;
}

/* The lines that the log's target does not take. */
static json_t *log_state(const struct master *m)
{
	char since[CLOCK_RFC3339_SIZE];
	struct log_losses l;

	log_losses(&l);
	return json_pack("{s:s,s:I,s:s?,s:s?}", "target", m->config.conf->log.target, "lost", (json_int_t)l.lines,
	    "since", l.since_ms == 0 ? NULL : clock_rfc3339(l.since_ms, since),
	    "error", l.since_ms == 0 ? NULL : strerror(l.error));
}

static json_t *reload_failed(const struct master *m)
{
	char at[CLOCK_RFC3339_SIZE];

	if (m->config.failed.problems == 0)
		return json_null();
	return json_pack("{s:s,s:I,s:o}", "at", clock_rfc3339(m->config.failed.at_ms, at),
	    "problems", (json_int_t)m->config.failed.problems, "reason", json_path(m->config.failed.reason));
}

json_t *status_document(struct master *m, int64_t now_ms)
{
	char since[CLOCK_RFC3339_SIZE], boot[17];

	queues_publish(&m->queues);
	snprintf(boot, sizeof(boot), "%016" PRIx64, m->spawner.boot);
	return json_pack("{s:s,s:i,s:s,s:s,s:s,s:I,s:s,s:b,s:o,s:o,s:o,s:o,s:o,s:o,s:i,s:o,s:o}",
	    "version", QUREDIS_VERSION,
	    "pid", (int)getpid(),
	    "node", m->config.conf->supervisor.node,
	    "boot", boot,
	    "since", clock_rfc3339(m->since_ms, since),
	    "uptime_ms", (json_int_t)(now_ms - m->started_ms),
	    "state", state_of_master(m),
	    "lock_removed", m->lock_removed,
	    "config", json_path(m->config.path),
	    "reload_failed", reload_failed(m),
	    "log", log_state(m),
	    "redis", redis_server(m),
	    "sweeper", sweeper(m, now_ms),
	    "keeper", keeper(m),
	    "unconfirmed_deaths", m->deaths.n,
	    "queues", queues(m, now_ms),
	    "workers", workers(m, now_ms));
}

static void log_queue(const struct master *m, const struct queue_workers *q, const struct hold_slots *slots,
    int64_t now_ms)
{
	struct totals t = totals_of(&m->queues, queues_place(&m->queues, q));
	const struct board_queue *b = &m->board->queues[queues_place(&m->queues, q)];
	struct judged judged = holds_judge(m->board, b, slots);
	char text[HOLD_TEXT_SIZE];

	log_info("status_queue", log_str("queue", q->name), log_str("state", holds_table[judged.hold].name),
	    log_str("reason", holds_explain(m->board, b, slots, &judged, q->conf, now_ms, text)),
	    log_int("wanted", queues_wanted(q)),
	    log_int("alive", q->serving), log_int("draining", t.draining), log_int("restarts", (int64_t)t.restarts),
	    log_int("done", (int64_t)t.counters[COUNT_DONE]), log_int("failed", (int64_t)t.counters[COUNT_FAILED]),
	    log_int("retried", (int64_t)t.counters[COUNT_RETRIED]),
	    log_int("escaped", (int64_t)t.counters[COUNT_ESCAPED]));
}

static void log_worker(const struct master *m, const struct process *p, int64_t now_ms)
{
	const struct slot *s = slot_of(m, p);
	char name[PROCESS_NAME_SIZE], inc[INCARNATION_SIZE];

	log_info("status_worker", log_str("queue", p->role.queue_name), log_str("worker", process_name(&p->role, name)),
	    log_int("child", p->pid), log_str("incarnation", incarnation(m, p, inc)), log_str("state", state_name(s)),
	    log_int("serial", (int64_t)atomic_load(&s->serial)), log_int("running_ms", running_ms(s, now_ms)),
	    log_int("heartbeat_age_ms", now_ms - atomic_load(&s->heartbeat_ms)));
}

void status_log(struct master *m, int64_t now_ms)
{
	struct hold_slots slots;

	queues_publish(&m->queues);
	holds_read_slots(m->board, &slots);
	log_info("status", log_str("state", state_of_master(m)), log_int("queues", (int64_t)m->config.conf->nqueues),
	    log_int("workers", queues_count_workers(&m->queues)), log_int("unconfirmed_deaths", m->deaths.n),
	    log_int("uptime_ms", now_ms - m->started_ms));
	for (int i = 0; i < m->queues.n; i++)
		if (is_shown(&m->queues.items[i]))
			log_queue(m, &m->queues.items[i], &slots, now_ms);
	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_WORKER)) != NULL;)
		log_worker(m, p, now_ms);
}
