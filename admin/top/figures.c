/*
 * The figures of each queue, from the answers of ls, stats, health and nodes, and their order. They are made once for
 * each look: a key only sorts them and draws again, however many queues there are.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"

#include "common/base/base.h"
#include "common/holds/holds.h"

const struct top_sort_key top_sort_keys[TOP_SORTS] = {
	[TOP_BY_HEALTH] = { "health", 'h', "the sickest first" },
	[TOP_BY_NAME] = { "name", 'n', "by name" },
	[TOP_BY_INGRESS] = { "ingress", 'i', "most waiting messages" },
	[TOP_BY_OLDEST] = { "oldest", 'o', "longest waiting message" },
	[TOP_BY_TRANSIT] = { "transit", 't', "most messages in flight" },
	[TOP_BY_DELAYED] = { "delayed", 'd', "most delayed messages" },
	[TOP_BY_ESCAPE] = { "escape", 'e', "most dead letters" },
	[TOP_BY_FAILED] = { "failed", 'f', "most failed attempts a second" },
};

/* ---- how sick a queue is ---- */

enum { WELL, WAITING, DEGRADED, UNKNOWN, SICK };		/* as reports_badness() */

static const int badness_of_level[] = {
	[HOLD_WELL] = WELL, [HOLD_ORDERED] = WAITING, [HOLD_PASSING] = WAITING, [HOLD_WARNING] = DEGRADED,
	[HOLD_BAD] = SICK
};

/* The rank of a state; a state that this version does not know is the worst. -1: none. */
static int place_of_state(const char *state)
{
	return state == NULL ? -1 : (int)holds_by_name(state);
}

static int badness_of_health(const char *health)
{
	static const int of[] = { [QUEUE_HEALTHY] = WELL, [QUEUE_DEGRADED] = DEGRADED, [QUEUE_UNHEALTHY] = SICK };
	int level = queue_health_level_of(health);

	return health == NULL ? WELL : level == -1 ? UNKNOWN : of[level];
}

/* The worse of state and health decides: health is some seconds old, or absent. Of equally bad queues, the one with
 * worse health is first. */
static int64_t sickness_of(const struct top_queue *q)
{
	int place = place_of_state(q->state), health = badness_of_health(q->health);
	int state = place < 0 ? WELL : place < HOLDS ? badness_of_level[holds_table[place].level] : SICK;

	return (health > state ? health : state) * 10000 + health * 100 + (place < 0 ? 0 : place);
}

/* ---- collecting ---- */

struct collected {
	struct top_figures *f;
	json_t *places;		/* name -> index in f->queues */
	const json_t **before, **now;	/* rows of the oldest and the newest sample; owned arrays */
};

static struct top_queue *queue_named(const struct collected *c, const json_t *row, const char *key)
{
	const char *name = json_string_value(json_object_get(row, key));
	const json_t *place = name == NULL ? NULL : json_object_get(c->places, name);

	return place == NULL ? NULL : &c->f->queues[json_integer_value(place)];
}

static void collect_lists(struct collected *c, const json_t *queues)
{
	struct top_queue *q;
	const json_t *row;
	size_t i;

	json_array_foreach(queues, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		if (name == NULL)
			continue;
		json_object_set_new(c->places, name, json_integer((json_int_t)c->f->n));
		q = &c->f->queues[c->f->n++];
		*q = (struct top_queue){ .name = name, .listed = row, .facts = facts_unknown() };
		q->facts.n[FACT_RUNNING] = 0;
		facts_read_listed(&q->facts, row);
		q->state = q->facts.n[FACT_PAUSED] > 0 ? holds_table[HOLD_PAUSED].name : NULL;
	}
}

/* The lists of ls are newer than the report. */
static void collect_health(struct collected *c, const json_t *queues)
{
	const json_t *row;
	struct top_queue *q;
	size_t i;

	json_array_foreach(queues, i, row) {
		if ((q = queue_named(c, row, "queue")) == NULL)
			continue;
		q->document = row;
		q->health = json_string_value(json_object_get(row, "status"));
		facts_read(&q->facts, FACT_OF_QUEUE, row, 0);
		facts_read_listed(&q->facts, q->listed);
	}
}

static void collect_samples(const struct collected *c, const json_t *stats, const json_t **rows)
{
	const struct top_queue *q;
	const json_t *row;
	size_t i;

	json_array_foreach(stats, i, row)
		if ((q = queue_named(c, row, "name")) != NULL)
			rows[q - c->f->queues] = row;
}

static void collect_workers(struct top_queue *q, const json_t *row)
{
	const char *state = json_string_value(json_object_get(row, "state"));
	struct facts host = facts_unknown();

	if (place_of_state(state) > place_of_state(q->state))
		q->state = state;
	facts_read(&host, FACT_OF_HOST, row, 0);
	facts_add(&q->facts, &host);
}

static void collect_nodes(struct collected *c, const json_t *nodes)
{
	const json_t *node, *row;
	struct top_queue *q;
	size_t i, j;

	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "queues"), j, row)
			if ((q = queue_named(c, row, "name")) != NULL)
				collect_workers(q, row);
}

void top_figures_make(struct top_figures *f, json_t *overview, const struct top_rates *r)
{
	static const struct { enum counter counter; enum fact a_minute; } rates[TOP_RATES] = {
		[TOP_DONE] = { COUNT_DONE, FACT_RATE_DONE }, [TOP_FAILED] = { COUNT_FAILED, FACT_RATE_FAILED },
		[TOP_ESCAPED] = { COUNT_ESCAPED, FACT_RATE_ESCAPED }
	};
	const json_t *queues = json_object_get(overview, "queues");
	size_t most = json_array_size(queues) + 1;
	struct collected c = { .f = f, .places = json_object(), .before = alloc_zero(most, sizeof(*c.before)),
	    .now = alloc_zero(most, sizeof(*c.now)) };

	*f = (struct top_figures){ .overview = overview, .queues = alloc_zero(most, sizeof(*f->queues)) };
	collect_lists(&c, queues);
	collect_health(&c, json_object_get(json_object_get(overview, "health"), "queues"));
	collect_nodes(&c, json_object_get(overview, "nodes"));
	if (r->n > 0) {
		collect_samples(&c, r->stats[0], c.before);
		collect_samples(&c, r->stats[r->n - 1], c.now);
	}
	for (size_t i = 0; i < f->n; i++) {
		for (int j = 0; j < TOP_RATES; j++)
			f->queues[i].rates[j] = top_rate(r, c.before[i], c.now[i], rates[j].counter,
			    f->queues[i].facts.n[rates[j].a_minute]);
		f->queues[i].sickness = sickness_of(&f->queues[i]);
	}
	json_decref(c.places);
	free(c.before);
	free(c.now);
}

void top_figures_free(struct top_figures *f)
{
	json_decref(f->overview);
	free(f->queues);
	*f = (struct top_figures){0};
}

const struct top_queue *top_figures_find(const struct top_figures *f, const char *name)
{
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->queues[i].name, name) == 0)
			return &f->queues[i];
	return NULL;
}

/* ---- order ---- */

static int64_t figure_of(const struct top_queue *q, enum top_sort sort)
{
	const int64_t *n = q->facts.n, figures[TOP_SORTS] = {
		[TOP_BY_HEALTH] = q->sickness, [TOP_BY_NAME] = 0, [TOP_BY_INGRESS] = n[FACT_INGRESS_SIZE],
		[TOP_BY_OLDEST] = n[FACT_INGRESS_OLDEST], [TOP_BY_TRANSIT] = n[FACT_TRANSIT_SIZE],
		[TOP_BY_DELAYED] = n[FACT_DELAYED_SIZE], [TOP_BY_ESCAPE] = n[FACT_ESCAPE_SIZE],
		[TOP_BY_FAILED] = q->rates[TOP_FAILED],
	};

	return figures[sort];
}

static int by_order(const void *a, const void *b)
{
	const struct top_queue *x = a, *y = b;

	if (x->order != y->order)
		return x->order < y->order ? 1 : -1;
	return strcmp(x->name, y->name);
}

static int by_name_backwards(const void *a, const void *b)
{
	const struct top_queue *x = a, *y = b;

	return strcmp(y->name, x->name);
}

/* A figure that is not known is the last in both directions. */
void top_figures_sort(struct top_figures *f, enum top_sort sort, bool reversed)
{
	if (f->n == 0)
		return;
	for (size_t i = 0; i < f->n; i++) {
		int64_t figure = figure_of(&f->queues[i], sort);

		f->queues[i].order = figure < 0 ? INT64_MIN : reversed ? -figure : figure;
	}
	qsort(f->queues, f->n, sizeof(*f->queues), reversed && sort == TOP_BY_NAME ? by_name_backwards : by_order);
}
