/*
 * Measures one queue: lengths of its lists, owners, ages, and the figures of all hosts for the last minute. It takes two
 * writes, or three if many messages wait, and changes nothing. An error in one answer leaves that figure unknown and the
 * others valid. metrics.c and health.c decide when to measure, and use the result.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "sweeper/report/gauge.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/report/health.h"

struct taking {
	struct sweeper *s;
	struct sweeper_queue *q;
	struct gauge *g;
	struct age_clock clock;
	struct queue_worker *workers;
	size_t nworkers;
	bool *elsewhere;		/* for each worker: it has messages in flight, and belongs to another host */
	int64_t now_ms;			/* CLOCK_MONOTONIC */
	int64_t active_ms, nactive;	/* sum and number of the ages known for messages in flight */
	bool wrong;			/* an answer could not be used */
};

/* Takes the next answer. False: it is an error, which was noted. */
static bool take_answer(struct taking *t, struct redis_reply *reply)
{
	if (t->s->redis.state != REDIS_CLOSED && connection_answer(t->s, reply) == 0)
		return true;
	t->wrong = true;
	return false;
}

static int64_t take_size(struct taking *t)
{
	struct redis_reply reply;

	return take_answer(t, &reply) && reply.type == REDIS_INTEGER && reply.integer >= 0 ? reply.integer : -1;
}

static void add_known(int64_t *sum, int64_t n)
{
	*sum = *sum < 0 || n < 0 ? -1 : *sum + n;
}

/* ---- escape ---- */

/* The id of a record contains the time of the failure. */
static void take_records(struct taking *t)
{
	struct gauge_list *l = &t->g->escape;
	int64_t sum = 0, n = 0;
	struct redis_reply reply;

	if (!take_answer(t, &reply) || reply.type != REDIS_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply.n; i += 2) {
		struct redis_reply id = redis_element(&reply, i);
		int64_t age = t->g->at_ms - clock_ms_of(strtod(id.type == REDIS_STRING ? id.str : "", NULL));

		age = age < 0 ? 0 : age;
		l->oldest_ms = age > l->oldest_ms ? age : l->oldest_ms;
		sum += age;
		n++;
	}
	if (n > 0 && n < QUEUE_GAUGE_RECORDS)
		l->average_ms = sum / n;	/* otherwise the page has only the oldest records */
}

/* ---- paused ---- */

/* The pause began when its text says, and at the latest when this sweeper first saw it. */
static void take_pause(struct taking *t)
{
	struct sweeper_queue *q = t->q;
	struct redis_reply reply;
	int64_t since, seen;

	t->g->paused_ms = -1;
	if (!take_answer(t, &reply))
		return;
	if (reply.type != REDIS_STRING) {
		t->g->paused_ms = metrics_of(q)->pause_seen_ms = 0;
		return;
	}
	if (metrics_of(q)->pause_seen_ms == 0)
		metrics_of(q)->pause_seen_ms = t->now_ms;
	seen = t->now_ms - metrics_of(q)->pause_seen_ms;
	since = queue_paused_since(reply.str, reply.len);
	t->g->paused_ms = since != -1 && t->g->at_ms - since > seen ? t->g->at_ms - since : seen;
	if (t->g->paused_ms == 0)
		t->g->paused_ms = 1;
}

/* ---- owners ---- */

/* Returns how long the handler of a worker of this master has been running; -1: none runs, or the worker belongs to another master. */
static int64_t running_ms(const struct taking *t, const char *incarnation)
{
	const struct child *child = t->s->child;
	struct incarnation i;
	int64_t started;

	if (incarnation_parse(&i, incarnation) == -1 || i.boot != child->boot || i.slot < 0 || i.slot >= SCOREBOARD_SLOTS ||
	    slot_generation(&child->board->slots[i.slot]) != i.generation)
		return -1;
	started = atomic_load(&child->board->slots[i.slot].started_ms);
	return started == 0 || started > t->now_ms ? -1 : t->now_ms - started;
}

/* Adds n messages that have been in flight for ms. */
static void is_in_work(struct taking *t, int64_t n, int64_t ms)
{
	struct gauge_list *l = &t->g->transit;

	if (ms < 0)
		return;
	l->oldest_ms = ms > l->oldest_ms ? ms : l->oldest_ms;
	t->active_ms += ms;
	t->nactive++;
	if (ms >= gauge_thresholds(t->s, t->q)->stuck_age_ms)
		l->stuck = l->stuck < 0 ? n : l->stuck + n;
}

/* True: the worker belongs to another master, whose node may report how long its handler has been running. */
static bool is_elsewhere(const struct taking *t, const struct queue_worker *w)
{
	struct incarnation i;

	return w->node[0] != '\0' && incarnation_parse(&i, w->incarnation) == 0 && i.boot != t->s->child->boot;
}

static void take_owner(struct taking *t, size_t index)
{
	const struct queue_worker *w = &t->workers[index];
	struct gauge *g = t->g;
	int64_t alive = take_size(t), n = 0;

	for (int tray = 0; tray <= QUEUE_RESCUE; tray++)
		add_known(&n, take_size(t));
	add_known(&g->transit.size, n);
	if (n < 0 || alive < 0)
		return;
	if (alive == 1) {
		g->workers++;
		g->active += n > 0;
		t->elsewhere[index] = n > 0 && is_elsewhere(t, w);
		if (n > 0)
			is_in_work(t, 1, running_ms(t, w->incarnation));
		return;
	}
	g->orphan_owners += w->died_at_ms == 0;
	add_known(&g->orphans, n);
	if (n > 0 && w->died_at_ms > 0 && w->died_at_ms <= g->at_ms)
		is_in_work(t, n, g->at_ms - w->died_at_ms);
}

/* Adds the runs that a node has reported: its report is some seconds old, so they have run a little longer by now. */
static void take_node(struct taking *t, size_t first)
{
	const char *node = t->workers[first].node;
	struct redis_reply reply;
	json_t *report;

	queue_node_read(&t->s->redis, node);
	if (connection_answer(t->s, &reply) == -1 || reply.type != REDIS_STRING)
		return;			/* a node need not have a report */
	report = json_loadb(reply.str, reply.len, 0, NULL);
	for (size_t i = first; i < t->nworkers; i++)
		if (t->elsewhere[i] && strcmp(t->workers[i].node, node) == 0)
			is_in_work(t, 1, queue_node_running(report, t->workers[i].incarnation, t->g->at_ms));
	json_decref(report);
}

static bool is_first_of_its_node(const struct taking *t, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (t->elsewhere[i] && strcmp(t->workers[i].node, t->workers[index].node) == 0)
			return false;
	return true;
}

static void take_owners(struct taking *t)
{
	struct gauge *g = t->g;

	t->elsewhere = alloc_zero(t->nworkers + 1, sizeof(*t->elsewhere));
	for (size_t i = 0; i < t->nworkers; i++)
		queue_gauge_owner(&t->s->redis, &t->q->keys, t->workers[i].incarnation);
	for (size_t i = 0; i < t->nworkers; i++)
		take_owner(t, i);
	for (size_t i = 0; i < t->nworkers && t->s->redis.state != REDIS_CLOSED; i++)
		if (t->elsewhere[i] && is_first_of_its_node(t, i))
			take_node(t, i);
	free(t->elsewhere);
	if (t->nactive > 0)
		g->transit.average_ms = t->active_ms / t->nactive;
	if (g->transit.stuck < 0 && (t->nactive > 0 || g->transit.size == 0))
		g->transit.stuck = 0;
}

/* ---- the whole ---- */

static void take_rate(struct taking *t)
{
	struct redis_reply reply;

	t->g->rated = take_answer(t, &reply);
	if (t->g->rated)
		queue_figures_parse(&t->g->rate, &reply);
}

/* The minutes of the window, of which the present one is not over yet; 0: health will not judge this look. */
static int64_t window_minutes(const struct taking *t)
{
	return t->g->judged ? (gauge_thresholds(t->s, t->q)->failure_window_ms + MINUTE_MS - 1) / MINUTE_MS : 0;
}

/*
 * The figures of each minute are in Redis, for all hosts. So the rate needs no memory here: it is the same after a restart, on the next leader, and
 * after Redis has gone back in time.
 */
static void ask_outcomes(struct taking *t)
{
	for (int64_t i = 0; i < window_minutes(t); i++)
		queue_outcomes(&t->s->redis, &t->q->keys, t->g->at_ms / MINUTE_MS - i);
}

static void take_outcomes(struct taking *t)
{
	struct gauge *g = t->g;
	struct queue_outcomes o;
	struct redis_reply reply;

	for (int64_t i = 0; i < window_minutes(t); i++) {
		bool good = take_answer(t, &reply) && queue_outcomes_parse(&o, &reply);

		add_known(&g->attempts, good ? o.done + o.failed : -1);
		add_known(&g->failures, good ? o.failed : -1);
	}
}

static void take_growth(struct taking *t)
{
	struct growth *growth = &metrics_of(t->q)->growth;
	struct gauge *g = t->g;
	struct queue_figures totals;
	struct redis_reply reply;
	uint64_t taken;

	if (take_answer(t, &reply) && g->ingress.size >= 0) {
		queue_figures_parse(&totals, &reply);
		/* A message that came back from delayed is not a new one. */
		taken = (uint64_t)queue_left_ingress(&totals) - totals.n[COUNT_DUE];
		growth_look(growth, &(struct growth_figures){ .at_ms = g->at_ms, .size = g->ingress.size, .taken = (int64_t)taken,
			.finished = (int64_t)(totals.n[COUNT_DONE] + totals.n[COUNT_ESCAPED]) });
	}
	g->enqueued = growth->span_ms == 0 ? -1 : (int64_t)growth_a_minute(growth, growth->came);
}

static void take_sizes(struct taking *t)
{
	struct gauge *g = t->g;
	struct redis_reply reply;
	int64_t bare = 0;

	g->ingress.size = take_size(t);
	g->escape.size = take_size(t);
	add_known(&bare, take_size(t));
	add_known(&bare, take_size(t));
	g->transit.size = g->orphans = bare;
	g->delayed = take_size(t);
	add_known(&g->delayed, take_size(t));
	take_pause(t);
	if (take_answer(t, &reply))
		t->nworkers = queue_workers_parse(&reply, &t->workers);
	else
		g->transit.size = -1;
	take_records(t);
}

int gauge_sizes(struct sweeper *s, struct sweeper_queue *q, struct gauge *g)
{
	struct taking t = { .s = s, .q = q, .g = g, .now_ms = clock_monotonic_ms() };
	const struct gauge_list unknown = { -1, -1, -1, -1 };

	*g = (struct gauge){ .ingress = unknown, .transit = unknown, .escape = unknown, .enqueued = -1 };
	queue_gauge(&s->redis, &q->keys);
	take_sizes(&t);
	if (s->redis.state != REDIS_CLOSED)
		take_owners(&t);
	queue_workers_free(t.workers, t.nworkers);
	return t.wrong ? -1 : 0;
}

int gauge_take(struct sweeper *s, struct sweeper_queue *q, struct gauge *g)
{
	struct taking t = { .s = s, .q = q, .g = g, .now_ms = clock_monotonic_ms() };
	const struct gauge_list unknown = { -1, -1, -1, -1 };
	struct redis_reply first;

	*g = (struct gauge){ .ingress = unknown, .transit = unknown, .escape = unknown, .enqueued = -1 };
	if (!server_clock_age(&s->clock, clock_boottime_ms(), &t.clock))
		return 0;
	g->at_ms = t.clock.now_ms;
	g->taken_ms = t.now_ms;
	g->judged = health_is_due(s, q, t.now_ms);
	g->attempts = g->failures = g->judged ? 0 : -1;
	queue_gauge(&s->redis, &q->keys);
	queue_rate(&s->redis, &q->keys, gauge_rated_minute(g));
	queue_totals(&s->redis, &q->keys);
	ask_outcomes(&t);
	queue_glance(&s->redis, q->keys.ingress, -GAUGE_FIRST, -1);
	take_sizes(&t);
	take_rate(&t);
	take_growth(&t);
	take_outcomes(&t);
	if (take_answer(&t, &first))
		g->ingress = gauge_waiting(s, q, g->ingress.size, &t.clock, &first, &t.wrong);
	if (s->redis.state != REDIS_CLOSED)
		take_owners(&t);
	queue_workers_free(t.workers, t.nworkers);
	return t.wrong ? -1 : 0;
}
