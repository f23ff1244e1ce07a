/*
 * Writes a page of quredis top: a summary line, the queues, and the handlers that have been running for longest. The figures
 * come from ls, stats, health and nodes. A rate is the growth of a counter of stats since an earlier page, or else the rate of
 * the last minute from health.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"

#include "common/base/base.h"

#define RATE_MS 10000		/* sweepers write every five seconds: over a shorter time the rate would jump */
#define RUNNING_MAX 20

/* ---- reading the document ---- */

static const json_t *row_named(const json_t *rows, const char *key, const char *name)
{
	const json_t *row;
	size_t i;

	json_array_foreach(rows, i, row) {
		const char *of = json_string_value(json_object_get(row, key));

		if (of != NULL && strcmp(of, name) == 0)
			return row;
	}
	return NULL;
}

/* -1: missing, or not a valid number */
static int64_t number_of(const json_t *object, const char *key)
{
	const json_t *n = json_object_get(object, key);

	return json_is_integer(n) && json_integer_value(n) >= 0 && json_integer_value(n) <= ADMIN_COUNT_MAX ? json_integer_value(n) : -1;
}

static struct cell count_cell(int64_t n)
{
	return n < 0 ? cell_none() : cell_int(n);
}

/* ---- rates ---- */

void top_rates_free(struct top_rates *r)
{
	while (r->n > 0)
		json_decref(r->stats[--r->n]);
}

/* Drops the oldest sample as soon as the next one is old enough to compare with. */
void top_rates_add(struct top_rates *r, json_t *overview, int64_t now_ms)
{
	while (r->n == TOP_SAMPLES || (r->n > 1 && now_ms - r->at_ms[1] >= RATE_MS)) {
		json_decref(r->stats[0]);
		memmove(r->stats, r->stats + 1, (size_t)(r->n - 1) * sizeof(*r->stats));
		memmove(r->at_ms, r->at_ms + 1, (size_t)(r->n - 1) * sizeof(*r->at_ms));
		r->n--;
	}
	r->stats[r->n] = json_incref(json_object_get(overview, "stats"));
	r->at_ms[r->n++] = now_ms;
}

/* In hundredths of a message a second; -1: not known. */
static int64_t rate_of(const struct top_rates *r, const json_t *health, const char *queue, const char *counter)
{
	int last = r->n - 1;
	int64_t before, now;

	if (last > 0 && r->at_ms[last] - r->at_ms[0] >= RATE_MS / 2) {
		before = number_of(json_object_get(row_named(r->stats[0], "name", queue), "counters"), counter);
		now = number_of(json_object_get(row_named(r->stats[last], "name", queue), "counters"), counter);
		if (before >= 0 && now >= before)
			return (now - before) * 100000 / (r->at_ms[last] - r->at_ms[0]);
	}
	now = number_of(json_object_get(health, "rates"), counter);
	return now < 0 ? -1 : now * 100 / 60;
}

static char *rate_text(int64_t hundredths)
{
	if (hundredths < 0)
		return alloc_string("-");
	if (hundredths >= 10000 || hundredths % 100 == 0)
		return alloc_format("%lld", (long long)hundredths / 100);
	return alloc_format("%lld.%02d", (long long)hundredths / 100, (int)(hundredths % 100));
}

/* ---- the nodes of a queue ---- */

struct crew {
	const char *state;		/* the worst state; NULL: no node serves the queue */
	int64_t workers, running;
};

static int badness(const char *state)
{
	static const char *const from_good[] = { "running", "paused", "recovering", "error", "breaker", "no redis" };

	for (size_t i = 0; i < nitems(from_good); i++)
		if (strcmp(from_good[i], state) == 0)
			return (int)i;
	return (int)nitems(from_good);
}

static void add_node(struct crew *c, const json_t *queue)
{
	const char *state = json_string_value(json_object_get(queue, "state")), *of;
	const json_t *workers = json_object_get(queue, "workers");
	json_t *n;

	if (state != NULL && (c->state == NULL || badness(state) > badness(c->state)))
		c->state = state;
	json_object_foreach((json_t *)(uintptr_t)workers, of, n)
		c->workers += number_of(workers, of) > 0 ? number_of(workers, of) : 0;
	c->running += number_of(workers, "running") > 0 ? number_of(workers, "running") : 0;
}

static struct crew crew_of(const json_t *nodes, const char *name)
{
	struct crew c = {0};
	const json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node) {
		const json_t *queue = row_named(json_object_get(node, "queues"), "name", name);

		if (queue != NULL)
			add_node(&c, queue);
	}
	return c;
}

/* ---- queues ---- */

static struct cell oldest_cell(const json_t *health)
{
	const json_t *n = json_object_get(json_object_get(health, "ingress"), "oldest_age");

	return json_is_number(n) ? cell_elapsed(clock_ms_of(json_number_value(n) * 1000)) : cell_none();
}

static void queue_row(struct output *o, const json_t *overview, const json_t *queue, const struct top_rates *r)
{
	const char *name = json_string_value(json_object_get(queue, "name"));
	const json_t *health = row_named(json_object_get(json_object_get(overview, "health"), "queues"), "queue", name == NULL ? "" : name);
	struct crew c = crew_of(json_object_get(overview, "nodes"), name == NULL ? "" : name);
	static const char *const counters[] = { "done", "failed", "escaped" };
	char *texts[nitems(counters)];

	for (size_t i = 0; i < nitems(counters); i++)
		texts[i] = rate_text(rate_of(r, health, name == NULL ? "" : name, counters[i]));
	if (json_is_true(json_object_get(queue, "paused")) && (c.state == NULL || badness(c.state) < badness("paused")))
		c.state = "paused";
	output_row(o, (struct cell[]){ cell_str(name), cell_str(c.state), cell_str(json_string_value(json_object_get(health, "status"))),
	    count_cell(number_of(queue, "ingress_size")), oldest_cell(health), count_cell(number_of(queue, "transit_size")),
	    count_cell(number_of(queue, "delayed_size")), count_cell(number_of(queue, "escape_size")), cell_str(texts[0]), cell_str(texts[1]),
	    cell_str(texts[2]), cell_int(c.running), cell_int(c.workers) });
	for (size_t i = 0; i < nitems(counters); i++)
		free(texts[i]);
}

static void queues(struct output *o, const json_t *overview, const struct top_rates *r)
{
	enum { QUEUE, STATE, HEALTH, INGRESS, OLDEST, TRANSIT, DELAYED, ESCAPE, DONE, FAILED, ESCAPED, RUNNING, WORKERS };
	static const struct column columns[] = {
		[QUEUE] = { NULL, "Queue", false }, [STATE] = { NULL, "State", false }, [HEALTH] = { NULL, "Health", false },
		[INGRESS] = { NULL, "Ingress", true }, [OLDEST] = { NULL, "Oldest", true }, [TRANSIT] = { NULL, "Transit", true },
		[DELAYED] = { NULL, "Delayed", true }, [ESCAPE] = { NULL, "Escape", true }, [DONE] = { NULL, "Done/s", true },
		[FAILED] = { NULL, "Failed/s", true }, [ESCAPED] = { NULL, "Escaped/s", true }, [RUNNING] = { NULL, "Running", true },
		[WORKERS] = { NULL, "Workers", true },
	};
	/*
	 * columns to leave out, in this order. First those whose figures other columns show in part: Escape shows escaped
	 * messages, Running shows workers, Transit shows running ones
	 */
	static const int give_way[] = { ESCAPED, WORKERS, OLDEST, RUNNING, DELAYED, FAILED, HEALTH, DONE, -1 };
	const json_t *queue;
	size_t i;

	o->give_way = give_way;
	output_begin(o, columns, nitems(columns));
	json_array_foreach(json_object_get(overview, "queues"), i, queue)
		queue_row(o, overview, queue, r);
	output_end(o, true);
	o->give_way = NULL;
}

/* ---- the longest runs ---- */

struct running {
	const char *node, *queue, *incarnation;
	int64_t ms;
};

static int longest_first(const void *a, const void *b)
{
	const struct running *x = a, *y = b;

	return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : 0;
}

static size_t take_running(const json_t *nodes, struct running *all, size_t room)
{
	const json_t *node, *r;
	size_t n = 0, i, j;

	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "running"), j, r) {
			struct running one = { json_string_value(json_object_get(node, "node")), json_string_value(json_object_get(r, "queue")),
				json_string_value(json_object_get(r, "incarnation")), number_of(r, "running_ms") };

			if (one.ms >= 0 && n < room)
				all[n++] = one;
		}
	return n;
}

static size_t count_running(const json_t *nodes)
{
	const json_t *node;
	size_t n = 0, i;

	json_array_foreach(nodes, i, node)
		n += json_array_size(json_object_get(node, "running"));
	return n;
}

static void runners(struct output *o, const json_t *nodes)
{
	static const struct column columns[] = {
		{ NULL, "Runs for", true }, { NULL, "Queue", false }, { NULL, "Node", false }, { NULL, "Worker", false },
	};
	size_t n = count_running(nodes);
	struct running *all = alloc_zero(n + 1, sizeof(*all));

	n = take_running(nodes, all, n);
	qsort(all, n, sizeof(*all), longest_first);
	output_begin(o, columns, nitems(columns));
	for (size_t i = 0; i < n && i < RUNNING_MAX; i++)
		output_row(o, (struct cell[]){ cell_elapsed(all[i].ms), cell_str(all[i].queue), cell_str(all[i].node), cell_str(all[i].incarnation) });
	output_end(o, true);
	free(all);
}

/* ---- open breakers ---- */

/* The supervisor counts next_attempt_ms from the time of its report. Returns the rest of it now. */
static struct cell attempt_cell(const json_t *node, const json_t *queue, int64_t now_ms)
{
	int64_t left = number_of(queue, "next_attempt_ms"), at = number_of(node, "at_ms");

	if (left < 0 || at < 0 || now_ms - at > left)
		return cell_str(NULL);
	return cell_elapsed(left - (now_ms - at));
}

static size_t count_causes(const json_t *nodes)
{
	const json_t *node, *queue;
	size_t n = 0, i, j;

	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "queues"), j, queue)
			n += json_is_string(json_object_get(queue, "cause"));
	return n;
}

static void causes(struct output *o, const json_t *nodes, int64_t now_ms)
{
	static const struct column columns[] = {
		{ NULL, "Breaker of", false }, { NULL, "Node", false }, { NULL, "Next attempt", true }, { NULL, "Cause", false },
	};
	const json_t *node, *queue;
	size_t i, j;

	output_begin(o, columns, nitems(columns));
	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "queues"), j, queue)
			if (json_is_string(json_object_get(queue, "cause")))
				output_row(o, (struct cell[]){ cell_str(json_string_value(json_object_get(queue, "name"))),
				    cell_str(json_string_value(json_object_get(node, "node"))), attempt_cell(node, queue, now_ms),
				    cell_str(json_string_value(json_object_get(queue, "cause"))) });
	output_end(o, true);
}

/* ---- the page ---- */

static size_t count_nodes(const json_t *nodes)
{
	const json_t *node;
	size_t n = 0, i;

	json_array_foreach(nodes, i, node)
		n += json_is_integer(json_object_get(node, "pid"));
	return n;
}

static void headline(FILE *out, const json_t *overview)
{
	const json_t *health = json_object_get(overview, "health");
	const char *status = json_string_value(json_object_get(health, "status"));
	size_t nodes = count_nodes(json_object_get(overview, "nodes")), nqueues = json_array_size(json_object_get(overview, "queues"));
	char at[CLOCK_RFC3339_SIZE];

	fprintf(out, "  %.19s UTC   %zu node%s   %zu queue%s   health: %s\n\n",
	    clock_rfc3339(json_integer_value(json_object_get(overview, "time")), at), nodes, nodes == 1 ? "" : "s", nqueues,
	    nqueues == 1 ? "" : "s", status == NULL ? "unknown" : status);
}

void top_page(FILE *out, const json_t *overview, const struct top_rates *r, size_t width, bool colour)
{
	struct output o = { .format = &output_table, .file = out, .width = width, .colour = colour };

	headline(out, overview);
	queues(&o, overview, r);
	if (count_causes(json_object_get(overview, "nodes")) > 0) {
		fputc('\n', out);
		causes(&o, json_object_get(overview, "nodes"), json_integer_value(json_object_get(overview, "time")));
	}
	if (count_running(json_object_get(overview, "nodes")) > 0) {
		fputc('\n', out);
		runners(&o, json_object_get(overview, "nodes"));
	}
}
