/*
 * What is going on, as a JSON object for the control socket and as lines for the log. Names and shape are
 * stable:
 *
 *	{ "version", "pid", "node", "boot": "16 hex digits", "since": RFC 3339, "uptime_ms",
 *	  "state": "running"|"quiet"|"draining", "config", "redis": {"url", "embedded"},
 *	  "sweeper": {"pid", "state", "heartbeat_age_ms"} or null, "keeper": {"pid", "redis_pid"} or null,
 *	  "unconfirmed_deaths",
 *	  "queues": [ { "name", "state", "reason" or null, "undecided": why a silent worker cannot be proven dead, or null,
 *	      "aside": null, or of the messages that Redis refused to move { "messages", "size" of the newest, "reason" },
 *	      "workers": {"wanted", "alive", "draining"}, "restarts",
 *	      "counters": {"fetched", "done", … all of counter_names},
 *	      "durations": [ {"below_ms": 1, "count"}, … , {"below_ms": null, "count"} ] } ],
 *	  "workers": [ { "queue", "name": "mail/0", "pid", "slot", "incarnation" or null, "state", "serial",
 *	      "running_ms" or null, "heartbeat_age_ms", "draining": bool, "redis": bool } ] }
 *
 * Counters and durations count from the master's start and never fall; a queue that left the
 * configuration is listed as long as workers of it live.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/clock.h"
#include "common/log.h"
#include "common/queue.h"
#include "supervisor/child.h"
#include "supervisor/master.h"
#include "supervisor/staff.h"
#include "supervisor/status.h"
#include "supervisor/totals.h"

static json_t *number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *text_or_null(const char *s)
{
	return s == NULL ? json_null() : json_string(s);
}

/* JSON is UTF-8, a file's name is anything. */
static json_t *path(const char *s)
{
	json_t *o = json_string(s);

	return o != NULL ? o : json_string("(not UTF-8)");
}

static json_t *counters(const struct totals *t)
{
	json_t *o = json_object();

	for (int i = 0; i < COUNTERS; i++)
		json_object_set_new(o, counter_names[i], number(t->counters[i]));
	return o;
}

static json_t *durations(const struct totals *t)
{
	json_t *a = json_array();

	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		json_array_append_new(a, json_pack("{s:o,s:o}",
		    "below_ms", i < SCOREBOARD_BUCKETS - 1 ? number(UINT64_C(1) << i) : json_null(),
		    "count", number(t->durations[i])));
	return a;
}

static json_t *aside(const struct master *m, const struct crew *c)
{
	const struct board_queue *q = &m->board->queues[c - m->crews];

	if (crew_aside(m, c) == NULL)
		return json_null();
	return json_pack("{s:o,s:I,s:s}", "messages", number(atomic_load(&q->aside)), "size", (json_int_t)atomic_load(&q->aside_size),
	    "reason", crew_aside(m, c));
}

static json_t *queue(const struct master *m, int crew)
{
	const struct crew *c = &m->crews[crew];
	struct totals t = totals_of(m, crew);
	const char *reason;
	enum crew_state state = crew_judge(m, c, &reason);

	return json_pack("{s:s,s:s,s:o,s:o,s:o,s:{s:i,s:i,s:i},s:o,s:o,s:o}",
	    "name", c->name,
	    "state", crew_state_names[state],
	    "reason", text_or_null(reason),
	    "undecided", text_or_null(crew_undecided(m, c)),
	    "aside", aside(m, c),
	    "workers", "wanted", crew_wanted(c), "alive", c->staff, "draining", t.draining,
	    "restarts", number(t.restarts),
	    "counters", counters(&t),
	    "durations", durations(&t));
}

static const char *incarnation(const struct master *m, int slot, char out[INCARNATION_SIZE])
{
	struct incarnation i = { .boot = m->boot, .slot = slot, .generation = slot_generation(&m->board->slots[slot]) };

	if (i.generation == 0)
		return NULL;
	strlcpy(i.node, m->conf->supervisor.node, sizeof(i.node));
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

static json_t *worker(const struct master *m, int slot, int64_t now_ms)
{
	const struct proc *p = &m->procs[slot];
	const struct slot *s = &m->board->slots[slot];
	char name[CHILD_NAME_SIZE], inc[INCARNATION_SIZE];
	int64_t running = running_ms(s, now_ms);

	return json_pack("{s:s,s:s,s:i,s:i,s:o,s:s,s:o,s:o,s:I,s:b,s:b}",
	    "queue", m->crews[p->crew].name,
	    "name", child_name(m, p, name),
	    "pid", (int)p->pid,
	    "slot", slot,
	    "incarnation", text_or_null(incarnation(m, slot, inc)),
	    "state", state_name(s),
	    "serial", number(atomic_load(&s->serial)),
	    "running_ms", running < 0 ? json_null() : json_integer(running),
	    "heartbeat_age_ms", (json_int_t)(now_ms - atomic_load(&s->heartbeat_ms)),
	    "draining", p->leaving || atomic_load(&m->board->orders[slot]) >= ORDER_FINISH,
	    "redis", atomic_load(&s->redis_down) == 0);
}

static json_t *sweeper(const struct master *m, int64_t now_ms)
{
	int slot = staff_sweeper(m);

	if (slot == -1)
		return json_null();
	return json_pack("{s:i,s:s,s:I}", "pid", (int)m->procs[slot].pid, "state", state_name(&m->board->slots[slot]),
	    "heartbeat_age_ms", (json_int_t)(now_ms - atomic_load(&m->board->slots[slot].heartbeat_ms)));
}

static json_t *keeper(const struct master *m)
{
	int slot = staff_keeper(m);

	if (slot == -1)
		return json_null();
	return json_pack("{s:i,s:i}", "pid", (int)m->procs[slot].pid, "redis_pid",
	    (int)atomic_load(&m->board->slots[slot].handler_pgid));
}

static const char *state(const struct master *m)
{
	if (m->stop.phase != STOP_NOT)
		return "draining";
	return m->quiet ? "quiet" : "running";
}

static bool is_shown(const struct crew *c)
{
	return c->conf != NULL || (c->leaving > 0 && c->heir == -1);
}

static json_t *queues(const struct master *m)
{
	json_t *a = json_array();

	for (int i = 0; i < m->ncrews; i++)
		if (is_shown(&m->crews[i]))
			json_array_append_new(a, queue(m, i));
	return a;
}

/* As the queues are, and then by number: slots are taken again as they become free. */
static int by_place(const void *a, const void *b)
{
	const struct proc *p = *(const struct proc *const *)a, *q = *(const struct proc *const *)b;

	if (p->crew != q->crew)
		return p->crew - q->crew;
	if (p->index != q->index)
		return p->index - q->index;
	return p < q ? -1 : p > q;
}

static json_t *workers(const struct master *m, int64_t now_ms)
{
	const struct proc *procs[SCOREBOARD_SLOTS];
	size_t n = 0;
	json_t *a = json_array();

	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == PROC_WORKER)
			procs[n++] = &m->procs[slot];
	qsort(procs, n, sizeof(procs[0]), by_place);
	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, worker(m, (int)(procs[i] - m->procs), now_ms));
	return a;
}

json_t *status_document(const struct master *m, int64_t now_ms)
{
	char since[CLOCK_RFC3339_SIZE], boot[17];

	snprintf(boot, sizeof(boot), "%016" PRIx64, m->boot);
	return json_pack("{s:s,s:i,s:s,s:s,s:s,s:I,s:s,s:o,s:{s:o,s:b},s:o,s:o,s:i,s:o,s:o}",
	    "version", QUREDIS_VERSION,
	    "pid", (int)getpid(),
	    "node", m->conf->supervisor.node,
	    "boot", boot,
	    "since", clock_rfc3339(m->since_ms, since),
	    "uptime_ms", (json_int_t)(now_ms - m->started_ms),
	    "state", state(m),
	    "config", path(m->conf_path),
	    "redis", "url", path(m->conf->redis.url), "embedded", m->conf->redis.embedded,
	    "sweeper", sweeper(m, now_ms),
	    "keeper", keeper(m),
	    "unconfirmed_deaths", m->deaths.n,
	    "queues", queues(m),
	    "workers", workers(m, now_ms));
}

static void log_queue(const struct master *m, int crew)
{
	const struct crew *c = &m->crews[crew];
	struct totals t = totals_of(m, crew);
	const char *reason;
	enum crew_state state_now = crew_judge(m, c, &reason);

	log_info("status_queue", log_str("queue", c->name), log_str("state", crew_state_names[state_now]),
	    log_str("reason", reason), log_int("wanted", crew_wanted(c)), log_int("alive", c->staff),
	    log_int("draining", t.draining), log_int("restarts", (int64_t)t.restarts),
	    log_int("done", (int64_t)t.counters[COUNT_DONE]), log_int("failed", (int64_t)t.counters[COUNT_FAILED]),
	    log_int("retried", (int64_t)t.counters[COUNT_RETRIED]),
	    log_int("escaped", (int64_t)t.counters[COUNT_ESCAPED]));
}

static void log_worker(const struct master *m, int slot, int64_t now_ms)
{
	const struct proc *p = &m->procs[slot];
	const struct slot *s = &m->board->slots[slot];
	char name[CHILD_NAME_SIZE], inc[INCARNATION_SIZE];

	log_info("status_worker", log_str("queue", m->crews[p->crew].name), log_str("worker", child_name(m, p, name)),
	    log_int("child", p->pid), log_str("incarnation", incarnation(m, slot, inc)), log_str("state", state_name(s)),
	    log_int("serial", (int64_t)atomic_load(&s->serial)), log_int("running_ms", running_ms(s, now_ms)),
	    log_int("heartbeat_age_ms", now_ms - atomic_load(&s->heartbeat_ms)));
}

void status_log(const struct master *m, int64_t now_ms)
{
	log_info("status", log_str("state", state(m)), log_int("queues", (int64_t)m->conf->nqueues), log_int("workers", staff_count(m)),
	    log_int("unconfirmed_deaths", m->deaths.n), log_int("uptime_ms", now_ms - m->started_ms));
	for (int i = 0; i < m->ncrews; i++)
		if (is_shown(&m->crews[i]))
			log_queue(m, i);
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0 && m->procs[slot].kind == PROC_WORKER)
			log_worker(m, slot, now_ms);
}
