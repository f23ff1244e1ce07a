/* Writes what nodes report, for both pages of quredis top: the handlers that have been running for longest, and why
 * queues do not work. */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"

#include "common/base/base.h"
#include "common/holds/holds.h"

size_t top_nodes_count(const json_t *nodes)
{
	const json_t *node;
	size_t n = 0, i;

	json_array_foreach(nodes, i, node)
		n += json_is_integer(json_object_get(node, "pid"));
	return n;
}

/* ---- the longest runs ---- */

struct running {
	const char *node, *queue, *incarnation;
	const json_t *progress;
	int64_t ms;
};

static int longest_first(const void *a, const void *b)
{
	const struct running *x = a, *y = b;

	return x->ms < y->ms ? 1 : x->ms > y->ms ? -1 : 0;
}

static bool is_of(const json_t *run, const char *queue)
{
	const char *of = json_string_value(json_object_get(run, "queue"));

	return queue == NULL || (of != NULL && strcmp(of, queue) == 0);
}

static size_t take_running(const json_t *nodes, const char *queue, struct running *all, size_t room)
{
	const json_t *node, *r;
	size_t n = 0, i, j;

	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "running"), j, r) {
			struct running one =
			    { json_string_value(json_object_get(node, "node")),
			    json_string_value(json_object_get(r, "queue")),
				json_string_value(json_object_get(r, "incarnation")), json_object_get(r, "progress"),
				    admin_count_in(r, "running_ms") };

			if (one.ms >= 0 && n < room && is_of(r, queue))
				all[n++] = one;
		}
	return n;
}

size_t top_nodes_count_runners(const json_t *nodes, const char *queue)
{
	const json_t *node, *r;
	size_t n = 0, i, j;

	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "running"), j, r)
			n += is_of(r, queue);
	return n;
}

/* "45% page 3 of 7"; NULL: the handler reports none. A new string. */
static char *progress_text(const json_t *progress)
{
	const char *text = json_string_value(json_object_get(progress, "text"));
	int64_t percent = admin_count_in(progress, "percent");

	return percent < 0 ? NULL : alloc_format("%lld%%%s%s", (long long)percent,
	    text == NULL || text[0] == '\0' ? "" : " ", text == NULL ? "" : text);
}

void top_nodes_runners(struct output *o, const json_t *nodes, const char *queue, size_t most)
{
	size_t n = top_nodes_count_runners(nodes, queue);
	struct running *all = alloc_zero(n + 1, sizeof(*all));
	struct column columns[] = {
		{ NULL, "Runs for", COLUMN_NUMBER }, { NULL, queue == NULL ? "Queue" : NULL, COLUMN_NAME },
		{ NULL, "Node", COLUMN_NAME },
		{ NULL, "Worker", COLUMN_NAME }, { NULL, NULL, COLUMN_NAME },
	};

	n = take_running(nodes, queue, all, n);
	qsort(all, n, sizeof(*all), longest_first);
	for (size_t i = 0; i < n && i < most; i++)
		if (all[i].progress != NULL)
			columns[4].title = "Progress";
	output_begin(o, columns, nitems(columns));
	for (size_t i = 0; i < n && i < most; i++) {
		char *progress = progress_text(all[i].progress);

		output_row(o, (struct cell[]){ cell_elapsed(all[i].ms), cell_str(all[i].queue), cell_str(all[i].node),
		    cell_str(all[i].incarnation), cell_str(progress) });
		free(progress);
	}
	output_end(o, true);
	free(all);
}

/* ---- open breakers, and errors ---- */

struct cell top_nodes_attempt(const json_t *node, const json_t *queue, int64_t now_ms)
{
	const char *state = json_string_value(json_object_get(queue, "state"));
	enum hold hold = state == NULL ? HOLD_BREAKER : holds_by_name(state);
	bool connects = hold == HOLD_REFUSED || hold == HOLD_NO_REDIS, tries = hold == HOLD_BREAKER || connects;
	struct facts f = facts_unknown();
	int64_t left;

	facts_read(&f, FACT_OF_HOST, queue, queue_node_age(node, now_ms));
	left = f.n[connects ? FACT_NEXT_CONNECT : FACT_NEXT_ATTEMPT];
	return !tries || left < 0 ? cell_none() : cell_elapsed(left);
}

/* The few words for an open breaker; or the whole reason of another hold that no operator ordered, which names further
 * ones. NULL: the node reports none. */
static const char *cause_of(const json_t *queue)
{
	const char *state = json_string_value(json_object_get(queue, "state")),
	    *cause = json_string_value(json_object_get(queue, "cause"));
	bool breaker = state == NULL || strcmp(state, holds_table[HOLD_BREAKER].name) == 0;
	enum hold hold = holds_by_name(state);

	if (state != NULL && hold != HOLDS && holds_table[hold].level <= HOLD_ORDERED)
		return NULL;
	return breaker && cause != NULL ? cause : json_string_value(json_object_get(queue, "reason"));
}

size_t top_nodes_count_causes(const json_t *nodes)
{
	const json_t *node, *queue;
	size_t n = 0, i, j;

	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "queues"), j, queue)
			n += cause_of(queue) != NULL;
	return n;
}

/* A new string. */
static char *cause_text(const json_t *queue)
{
	const json_t *also = json_object_get(queue, "also"), *name;
	bool whole = cause_of(queue) == json_string_value(json_object_get(queue, "reason"));
	struct buffer text = {0};
	size_t i;

	buffer_format(&text, "%s", cause_of(queue));
	json_array_foreach(also, i, name)
		if (!whole && json_is_string(name))
			buffer_format(&text, "; also %s", json_string_value(name));
	return text.data;
}

void top_nodes_causes(struct output *o, const json_t *nodes, int64_t now_ms)
{
	const struct column columns[] = {
		{ NULL, "Queue", COLUMN_NAME }, { NULL, "Node", COLUMN_NAME },
		{ NULL, facts_table[FACT_NEXT_ATTEMPT].title, COLUMN_NUMBER },
		{ NULL, "Cause", COLUMN_NAME },
	};
	const json_t *node, *queue;
	size_t i, j;

	output_begin(o, columns, nitems(columns));
	json_array_foreach(nodes, i, node)
		json_array_foreach(json_object_get(node, "queues"), j, queue)
			if (cause_of(queue) != NULL) {
				char *text = cause_text(queue);

				output_row(o,
				    (struct cell[]){ cell_str(json_string_value(json_object_get(queue, "name"))),
				    cell_str(json_string_value(json_object_get(node, "node"))),
				    top_nodes_attempt(node, queue, now_ms), cell_str(text) });
				free(text);
			}
	output_end(o, true);
}
