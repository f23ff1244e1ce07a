/*
 * The figures of each queue, from the answers of ls, stats, health and nodes, and their order. They are made once for each look:
 * a key only sorts them and draws again, however many queues there are.
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

enum { WELL, DOUBTFUL, DEGRADED, SICK };

static const int badness_of_level[] = {
	[HOLD_WELL] = WELL, [HOLD_ORDERED] = DOUBTFUL, [HOLD_PASSING] = DOUBTFUL, [HOLD_WARNING] = DEGRADED, [HOLD_BAD] = SICK
};

static const struct { const char *health; int badness; } healths[] = {
	{ "healthy", WELL }, { "unknown", DOUBTFUL }, { "degraded", DEGRADED }, { "unhealthy", SICK },
};

/* The rank of a state; a state that this version does not know is the worst. -1: none. */
static int place_of_state(const char *state)
{
	return state == NULL ? -1 : (int)holds_by_name(state);
}

static int badness_of_health(const char *health)
{
	for (size_t i = 0; health != NULL && i < nitems(healths); i++)
		if (strcmp(healths[i].health, health) == 0)
			return healths[i].badness;
	return WELL;
}

/* The worse of state and health decides: health is some seconds old, or absent. Of equally bad queues, the one with worse health is first. */
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
	const json_t *row;
	size_t i;

	json_array_foreach(queues, i, row) {
		const char *name = json_string_value(json_object_get(row, "name"));

		if (name == NULL)
			continue;
		json_object_set_new(c->places, name, json_integer((json_int_t)c->f->n));
		c->f->queues[c->f->n++] = (struct top_queue){ .name = name,
			.state = json_is_true(json_object_get(row, "paused")) ? holds_table[HOLD_PAUSED].name : NULL,
			.ingress = admin_count_in(row, "ingress_size"), .transit = admin_count_in(row, "transit_size"),
			.delayed = admin_count_in(row, "delayed_size"), .escape = admin_count_in(row, "escape_size"), .oldest_ms = -1 };
	}
}

static void collect_health(struct collected *c, const json_t *queues)
{
	const json_t *row, *oldest;
	struct top_queue *q;
	size_t i;

	json_array_foreach(queues, i, row) {
		if ((q = queue_named(c, row, "queue")) == NULL)
			continue;
		oldest = json_object_get(json_object_get(row, "ingress"), "oldest_age");
		q->document = row;
		q->health = json_string_value(json_object_get(row, "status"));
		q->oldest_ms = json_is_number(oldest) ? clock_ms_of(json_number_value(oldest) * 1000) : -1;
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
	const char *state = json_string_value(json_object_get(row, "state")), *of;
	const json_t *workers = json_object_get(row, "workers");
	json_t *n;

	if (place_of_state(state) > place_of_state(q->state))
		q->state = state;
	json_object_foreach((json_t *)(uintptr_t)workers, of, n)
		q->workers += admin_count_in(workers, of) > 0 ? admin_count_in(workers, of) : 0;
	q->running += admin_count_in(workers, "running") > 0 ? admin_count_in(workers, "running") : 0;
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
	static const char *const counters[TOP_RATES] = { [TOP_DONE] = "done", [TOP_FAILED] = "failed", [TOP_ESCAPED] = "escaped" };
	const json_t *queues = json_object_get(overview, "queues");
	size_t most = json_array_size(queues) + 1;
	struct collected c = { .f = f, .places = json_object(), .before = alloc_zero(most, sizeof(*c.before)), .now = alloc_zero(most, sizeof(*c.now)) };

	*f = (struct top_figures){ .overview = overview, .queues = alloc_zero(most, sizeof(*f->queues)) };
	collect_lists(&c, queues);
	collect_health(&c, json_object_get(json_object_get(overview, "health"), "queues"));
	collect_nodes(&c, json_object_get(overview, "nodes"));
	if (r->n > 0) {
		collect_samples(&c, r->stats[0], c.before);
		collect_samples(&c, r->stats[r->n - 1], c.now);
	}
	for (size_t i = 0; i < f->n; i++) {
		for (int counter = 0; counter < TOP_RATES; counter++)
			f->queues[i].rates[counter] = top_rate(r, c.before[i], c.now[i], f->queues[i].document, counters[counter]);
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
	const int64_t figures[TOP_SORTS] = {
		[TOP_BY_HEALTH] = q->sickness, [TOP_BY_NAME] = 0, [TOP_BY_INGRESS] = q->ingress, [TOP_BY_OLDEST] = q->oldest_ms, [TOP_BY_TRANSIT] = q->transit,
		[TOP_BY_DELAYED] = q->delayed, [TOP_BY_ESCAPE] = q->escape, [TOP_BY_FAILED] = q->rates[TOP_FAILED],
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
