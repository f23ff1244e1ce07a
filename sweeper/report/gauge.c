/*
 * Measures one queue: lengths of its lists, owners, ages, and the figures of all hosts for the last whole minute. It
 * takes two writes, or three if many messages wait, and changes nothing. An error in one answer leaves that figure
 * unknown and the others valid. metrics.c and health.c decide when to measure, and use the result.
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
	int64_t *facts;			/* g->facts.n */
	struct age_clock clock;
	struct queue_worker *workers;
	size_t nworkers;
	bool *elsewhere;		/* for each worker: it has messages in flight, and belongs to another host */
	int64_t now_ms;			/* CLOCK_MONOTONIC */
	int64_t active_ms, nactive;	/* sum and number of the ages known for messages in flight */
	struct queue_failed failed;	/* why attempts failed in the window of health */
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
	int64_t sum = 0, n = 0, *oldest = &t->facts[FACT_ESCAPE_OLDEST];
	struct redis_reply reply;

	if (!take_answer(t, &reply) || reply.type != REDIS_ARRAY)
		return;
	for (size_t i = 0; i + 1 < reply.n; i += 2) {
		struct redis_reply id = redis_element(&reply, i);
		int64_t age = t->g->at_ms - clock_ms_of(strtod(id.type == REDIS_STRING ? id.str : "", NULL));

		age = age < 0 ? 0 : age;
		*oldest = age > *oldest ? age : *oldest;
		sum += age;
		n++;
	}
	if (n > 0 && n < QUEUE_GAUGE_RECORDS)
		t->facts[FACT_ESCAPE_AVERAGE] = sum / n;	/* otherwise the page has only the oldest records */
}

/* ---- paused ---- */

/* The pause began when its text says, and at the latest when this sweeper first saw it. */
static void take_pause(struct taking *t)
{
	struct sweeper_queue *q = t->q;
	struct redis_reply reply;
	int64_t since, seen, *paused_ms = &t->facts[FACT_PAUSED];

	if (!take_answer(t, &reply))
		return;
	if (reply.type != REDIS_STRING) {
		*paused_ms = metrics_of(q)->pause_seen_ms = 0;
		return;
	}
	if (metrics_of(q)->pause_seen_ms == 0)
		metrics_of(q)->pause_seen_ms = t->now_ms;
	seen = t->now_ms - metrics_of(q)->pause_seen_ms;
	since = queue_paused_since(reply.str, reply.len);
	*paused_ms = since != -1 && t->g->at_ms - since > seen ? t->g->at_ms - since : seen;
	if (*paused_ms == 0)
		*paused_ms = 1;
}

/* ---- seats ---- */

static void take_seats(struct taking *t)
{
	struct queue_seats_seen seen;
	struct redis_reply reply;

	if (t->q->keys.seats == NULL || !take_answer(t, &reply) || queue_seats_each(&reply, &seen, NULL, NULL) == -1)
		return;
	t->facts[FACT_SEATS_TAKEN] = seen.taken;
	t->facts[FACT_SEATS_LIMIT] = seen.limit.max > 0 ? seen.limit.max
	    : t->q->conf == NULL ? -1 : t->q->conf->max_in_flight;
}

/* ---- owners ---- */

/* Returns how long the handler of a worker of this master has been running; -1: none runs, or the worker belongs to
 * another master. */
static int64_t running_ms(const struct taking *t, const char *incarnation)
{
	const struct child *child = t->s->child;
	struct incarnation i;
	int64_t started;

	if (incarnation_parse(&i, incarnation) == -1 || i.boot != child->boot || i.slot < 0 ||
	    i.slot >= SCOREBOARD_SLOTS || slot_generation(&child->board->slots[i.slot]) != i.generation)
		return -1;
	started = atomic_load(&child->board->slots[i.slot].started_ms);
	return started == 0 || started > t->now_ms ? -1 : t->now_ms - started;
}

/* Adds n messages that have been in flight for ms. */
static void is_in_work(struct taking *t, int64_t n, int64_t ms)
{
	int64_t *oldest = &t->facts[FACT_TRANSIT_OLDEST], *stuck = &t->facts[FACT_TRANSIT_STUCK];

	if (ms < 0)
		return;
	*oldest = ms > *oldest ? ms : *oldest;
	t->active_ms += ms;
	t->nactive++;
	if (ms >= gauge_thresholds(t->s, t->q)->stuck_age_ms)
		*stuck = *stuck < 0 ? n : *stuck + n;
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
	int64_t alive = take_size(t), n = 0;

	for (int tray = 0; tray <= QUEUE_RESCUE; tray++)
		add_known(&n, take_size(t));
	add_known(&t->facts[FACT_TRANSIT_SIZE], n);
	if (n < 0 || alive < 0)
		return;
	if (alive == 1) {
		t->facts[FACT_ALIVE]++;
		t->facts[n > 0 ? FACT_ACTIVE : FACT_WAITING]++;
		t->elsewhere[index] = n > 0 && is_elsewhere(t, w);
		if (n > 0)
			is_in_work(t, 1, running_ms(t, w->incarnation));
		return;
	}
	t->facts[FACT_ORPHAN_REGISTRATIONS] += w->died_at_ms == 0;
	add_known(&t->facts[FACT_ORPHAN_MESSAGES], n);
	if (n > 0 && w->died_at_ms > 0 && w->died_at_ms <= t->g->at_ms)
		is_in_work(t, n, t->g->at_ms - w->died_at_ms);
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
		t->facts[FACT_TRANSIT_AVERAGE] = t->active_ms / t->nactive;
	if (t->facts[FACT_TRANSIT_STUCK] < 0 && (t->nactive > 0 || t->facts[FACT_TRANSIT_SIZE] == 0))
		t->facts[FACT_TRANSIT_STUCK] = 0;
}

/* ---- the whole ---- */

static void take_rate(struct taking *t)
{
	struct redis_reply reply;
	struct queue_figures f;

	if (!take_answer(t, &reply))
		return;
	queue_figures_parse(&f, &reply);
	t->facts[FACT_RATE_DONE] = (int64_t)f.n[COUNT_DONE];
	t->facts[FACT_RATE_FAILED] = (int64_t)f.n[COUNT_FAILED];
	t->facts[FACT_RATE_RETRIED] = (int64_t)f.n[COUNT_RETRIED];
	t->facts[FACT_RATE_ESCAPED] = (int64_t)f.n[COUNT_ESCAPED];
	t->facts[FACT_RATE_EXPIRED] = (int64_t)f.n[COUNT_EXPIRED];
	t->facts[FACT_RATE_RESCUED] = (int64_t)f.n[COUNT_RESCUED];
}

/* The minutes of the window, of which the present one is not over yet; 0: health will not judge this look. */
static int64_t window_minutes(const struct taking *t)
{
	return t->g->judged ? (gauge_thresholds(t->s, t->q)->failure_window_ms + MINUTE_MS - 1) / MINUTE_MS : 0;
}

static void keep_failed(struct taking *t)
{
	struct queue_failed **kept = &metrics_of(t->q)->failed;
	int64_t first_ms = (t->g->at_ms / MINUTE_MS - window_minutes(t) + 1) * MINUTE_MS;

	free(*kept);
	*kept = NULL;
	if (t->facts[FACT_FAILURES] <= 0)
		return;
	if (t->failed.at_ms < first_ms || t->failed.at_ms > t->g->at_ms)
		t->failed.at_ms = 0;		/* it is of another time */
	queue_failed_sort(&t->failed);
	*kept = alloc_zero(1, sizeof(**kept));
	**kept = t->failed;
}

static void take_outcomes(struct taking *t)
{
	struct queue_outcomes o;
	struct redis_reply reply;

	for (int64_t i = 0; i < window_minutes(t); i++) {
		bool good = take_answer(t, &reply) && queue_outcomes_in(&o, &reply);

		add_known(&t->facts[FACT_ATTEMPTS], good ? o.done + o.failed : -1);
		add_known(&t->facts[FACT_FAILURES], good ? o.failed : -1);
		if (good)
			queue_failed_add(&t->failed, &reply);
	}
	if (t->g->judged)
		keep_failed(t);
}

static void take_growth(struct taking *t)
{
	struct growth *growth = &metrics_of(t->q)->growth;
	int64_t at_ms = t->g->at_ms, size = t->facts[FACT_INGRESS_SIZE];
	struct queue_figures totals;
	struct redis_reply reply;
	uint64_t taken;

	if (take_answer(t, &reply) && size >= 0) {
		queue_figures_parse(&totals, &reply);
		queue_failed_latest(&t->failed, &reply);
		/* A message that came back from delayed is not a new one. */
		taken = (uint64_t)queue_left_ingress(&totals) - totals.n[COUNT_DUE];
		growth_look(growth, &(struct growth_figures){ .at_ms = at_ms, .size = size, .taken = (int64_t)taken,
			.finished = (int64_t)(totals.n[COUNT_DONE] + totals.n[COUNT_ESCAPED]) });
	}
	if (growth->span_ms == 0)
		return;
	t->facts[FACT_ARRIVALS] = (int64_t)(growth_a_minute(growth, growth->came) * 1000);
	t->facts[FACT_COMPLETIONS] = (int64_t)(growth_a_minute(growth, growth->left) * 1000);
	t->facts[FACT_ENQUEUED] = t->facts[FACT_ARRIVALS] / 1000;
	t->facts[FACT_GROWTH_WINDOW] = growth->span_ms;
	t->facts[FACT_GROWING] = growth->since_ms == 0 ? 0 : growth->last.at_ms - growth->since_ms;
}

static void take_sizes(struct taking *t)
{
	int64_t *facts = t->facts, bare = 0;
	struct redis_reply reply;

	facts[FACT_INGRESS_SIZE] = take_size(t);
	facts[FACT_ESCAPE_SIZE] = take_size(t);
	add_known(&bare, take_size(t));
	add_known(&bare, take_size(t));
	facts[FACT_TRANSIT_SIZE] = facts[FACT_ORPHAN_MESSAGES] = bare;
	facts[FACT_DELAYED_SIZE] = take_size(t);
	add_known(&facts[FACT_DELAYED_SIZE], take_size(t));
	take_pause(t);
	if (take_answer(t, &reply)) {
		t->nworkers = queue_workers_parse(&reply, &t->workers);
		facts[FACT_ALIVE] = facts[FACT_ACTIVE] = facts[FACT_WAITING] = facts[FACT_ORPHAN_REGISTRATIONS] = 0;
	} else {
		facts[FACT_TRANSIT_SIZE] = -1;
	}
	take_records(t);
	take_seats(t);
}

int gauge_sizes(struct sweeper *s, struct sweeper_queue *q, struct gauge *g)
{
	struct taking t = { .s = s, .q = q, .g = g, .facts = g->facts.n, .now_ms = clock_monotonic_ms() };

	*g = (struct gauge){ .facts = facts_unknown() };
	queue_gauge(&s->redis, &q->keys);
	take_sizes(&t);
	if (s->redis.state != REDIS_CLOSED)
		take_owners(&t);
	queue_workers_free(t.workers, t.nworkers);
	return t.wrong ? -1 : 0;
}

int gauge_take(struct sweeper *s, struct sweeper_queue *q, struct gauge *g)
{
	struct taking t = { .s = s, .q = q, .g = g, .facts = g->facts.n, .now_ms = clock_monotonic_ms() };
	struct redis_reply first;

	*g = (struct gauge){ .facts = facts_unknown() };
	if (!server_clock_age(&s->clock, clock_boottime_ms(), &t.clock))
		return 0;
	g->at_ms = t.clock.now_ms;
	g->taken_ms = t.now_ms;
	g->judged = health_is_due(s, q, t.now_ms);
	t.facts[FACT_ATTEMPTS] = t.facts[FACT_FAILURES] = g->judged ? 0 : -1;
	t.facts[FACT_FAILURE_WINDOW] = gauge_thresholds(s, q)->failure_window_ms;
	queue_gauge(&s->redis, &q->keys);
	queue_rate(&s->redis, &q->keys, gauge_rated_minute(g));
	queue_totals(&s->redis, &q->keys);
	/* The figures of each minute are of all hosts, and in Redis: so the rate is the same after a restart, and on
	 * the next leader. */
	for (int64_t i = 0; i < window_minutes(&t); i++)
		queue_rate(&s->redis, &q->keys, g->at_ms / MINUTE_MS - i);
	queue_glance(&s->redis, q->keys.ingress, -GAUGE_FIRST, -1);
	take_sizes(&t);
	take_rate(&t);
	take_growth(&t);
	take_outcomes(&t);
	if (take_answer(&t, &first))
		gauge_waiting(s, q, &g->facts, &t.clock, &first, &t.wrong);
	if (s->redis.state != REDIS_CLOSED)
		take_owners(&t);
	queue_workers_free(t.workers, t.nworkers);
	return t.wrong ? -1 : 0;
}
