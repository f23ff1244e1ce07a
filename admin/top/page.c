/*
 * Writes the list of quredis top: a headline, the queues, open breakers, and the handlers that have been running for
 * longest. On a screen the queues have the room that they need, and scroll if it is too small; what stands below them
 * is then cut to a third of the lines.
 */
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/top/top.h"

#include "common/base/base.h"

#define RUNNING_MAX 20
#define HEADLINE_COLUMNS 90	/* a narrower headline has the most important words first */
#define ROWS_WITH_BLANKS 12	/* a smaller screen has no blank line below the headline, and only queues */

/* ---- queues ---- */

static void queue_row(struct output *o, const struct top_queue *q)
{
	char *rates[TOP_RATES];

	for (int i = 0; i < TOP_RATES; i++)
		rates[i] = top_rate_text(q->rates[i]);
	output_row(o, (struct cell[]){ cell_str(q->name), cell_str(q->state), cell_str(q->health),
	    cell_facts(&q->facts), cell_str(rates[TOP_DONE]), cell_str(rates[TOP_FAILED]), cell_str(rates[TOP_ESCAPED]),
	    cell_int(facts_workers(&q->facts)) });
	for (int i = 0; i < TOP_RATES; i++)
		free(rates[i]);
}

static void queues(struct output *o, const struct top_figures *f)
{
	/*
	 * The first to be left out are those whose figures other columns show in part: Escape shows escaped messages,
	 * Running shows workers and messages in flight.
	 */
	static const struct column columns[] = {
		{ NULL, "Queue", COLUMN_NAME }, { NULL, "State", COLUMN_STATE },
		{ NULL, "Health", COLUMN_STATE | YIELDS(11) },
		{ NULL, NULL, FIGURES_OF(IN_TOP) },
		{ NULL, "Done/s", COLUMN_NUMBER | YIELDS(12) }, { NULL, "Failed/s", COLUMN_NUMBER | YIELDS(10) },
		{ NULL, "Escaped/s", COLUMN_NUMBER | YIELDS(1) },
		{ NULL, "Workers", COLUMN_NUMBER | YIELDS(2) },
	};

	output_begin(o, columns, nitems(columns));
	for (size_t i = 0; i < f->n; i++)
		queue_row(o, &f->queues[i]);
	output_end(o, true);
}

/* ---- the page ---- */

static void headline(FILE *out, const struct top_figures *f, const struct top_view *v, size_t width, bool colour)
{
	const char *status = json_string_value(json_object_get(json_object_get(f->overview, "health"), "status"));
	const char *order = top_sort_keys[v->sort].name, *reversed = v->reversed ? ", reversed" : "",
	    *plural = f->n == 1 ? "" : "s";
	size_t nodes = top_nodes_count(json_object_get(f->overview, "nodes"));
	char at[CLOCK_RFC3339_SIZE], *health;
	enum colour_meaning meaning;

	clock_rfc3339(json_integer_value(json_object_get(f->overview, "time")), at);
	if (status == NULL)
		status = "unknown";
	meaning = colour_meaning_of(status);
	health = alloc_format("%s%s%s", colour_begin(colour, meaning), status, colour_end(colour, meaning));
	if (width < HEADLINE_COLUMNS)
		fprintf(out, "  health: %s  by %s%s  %zu queue%s  %.8s UTC\n", health, order, reversed, f->n, plural,
		    at + strlen("2026-11-20T"));
	else
		fprintf(out, "  %.19s UTC   %zu node%s   %zu queue%s   health: %s   by %s%s\n", at, nodes,
		    nodes == 1 ? "" : "s", f->n, plural, health, order, reversed);
	free(health);
}

static void below_queues(struct output *o, const struct top_figures *f)
{
	const json_t *nodes = json_object_get(f->overview, "nodes");

	if (top_nodes_count_causes(nodes) > 0) {
		fputc('\n', o->file);
		top_nodes_causes(o, nodes, json_integer_value(json_object_get(f->overview, "time")));
	}
	if (top_nodes_count_runners(nodes, NULL) > 0) {
		fputc('\n', o->file);
		top_nodes_runners(o, nodes, NULL, RUNNING_MAX);
	}
}

void top_page(FILE *out, const struct top_figures *f, const struct top_view *v, size_t width, bool colour)
{
	struct output o = { .format = &output_table, .file = out, .width = width, .colour = colour };

	headline(out, f, v, width, colour);
	fputc('\n', out);
	queues(&o, f);
	below_queues(&o, f);
}

/* ---- the page on a screen ---- */

struct text {			/* lines in memory */
	FILE *out;
	char *data;
	size_t len, lines;
};

static void text_begin(struct text *t)
{
	*t = (struct text){0};
	t->out = open_memstream(&t->data, &t->len);
	if (t->out == NULL)
		alloc_failed();
}

static void text_end(struct text *t)
{
	fclose(t->out);
	for (const char *p = t->data; (p = strchr(p, '\n')) != NULL; p++)
		t->lines++;
}

/* Writes the lines from `first` on, at most n. The line `marked` begins with ">"; SIZE_MAX: none. */
static void text_write(FILE *out, const struct text *t, size_t first, size_t n, size_t marked)
{
	const char *line = t->data, *end;

	for (size_t i = 0; i < first + n && (end = strchr(line, '\n')) != NULL; i++, line = end + 1) {
		bool mark = i == marked && *line == ' ';

		if (i >= first)
			fprintf(out, "%s%.*s", mark ? ">" : "", (int)(end + 1 - line - mark), line + mark);
	}
}

static char *list_note(const struct top_figures *f, const struct top_view *v, size_t shown)
{
	if (shown == f->n)
		return alloc_string("  ? help   Enter: the queue");
	return alloc_format("  %zu-%zu of %zu queues   ? help   Enter: the queue", v->first + 1, v->first + shown,
	    f->n);
}

static char *fit_list(FILE *out, const struct top_figures *f, struct top_view *v, struct top_size size, bool colour)
{
	size_t blank = size.rows >= ROWS_WITH_BLANKS, above = 2 + blank,
	    room = size.rows > above + 2 ? size.rows - above - 1 : 1, shown, rest, selected;
	struct text table, below;
	struct output o = { .format = &output_table, .width = size.columns, .colour = colour };

	text_begin(&table);
	o.file = table.out;
	queues(&o, f);
	text_end(&table);
	text_begin(&below);
	o.file = below.out;
	if (blank)
		below_queues(&o, f);
	text_end(&below);
	rest = f->n + below.lines <= room || below.lines < room / 3 ? below.lines : room / 3;
	shown = f->n < room - rest ? f->n : room - rest;
	selected = top_view_place(v, f, shown);
	headline(out, f, v, size.columns, colour);
	fputs(blank ? "\n" : "", out);
	text_write(out, &table, 0, 1, SIZE_MAX);
	text_write(out, &table, 1 + v->first, shown, 1 + selected);
	text_write(out, &below, 0, room - shown, SIZE_MAX);
	free(table.data);
	free(below.data);
	return list_note(f, v, shown);
}

static char *fit_queue(FILE *out, const struct top_figures *f, struct top_view *v, struct top_size size, bool colour)
{
	const char *name = top_view_queue(v, f);
	const struct top_queue *q = name == NULL ? NULL : top_figures_find(f, name);
	size_t room = size.rows > 2 ? size.rows - 1 : 1, first;
	struct text page;

	text_begin(&page);
	if (q == NULL)
		fputs("  There is no such queue any more.\n", page.out);
	else
		top_detail(page.out, f, q, size.columns, colour);
	text_end(&page);
	first = top_view_scroll(v, page.lines, room);
	text_write(out, &page, first, room, SIZE_MAX);
	free(page.data);
	if (page.lines <= room)
		return alloc_string("  Esc: back   ? help");
	return alloc_format("  lines %zu-%zu of %zu   Esc: back   ? help", first + 1,
	    first + room < page.lines ? first + room : page.lines, page.lines);
}

static char *write_help(FILE *out)
{
	fputs("  Keys of quredis top\n\n"
	    "  Up Down PgUp PgDn Home End   move (also k j b Space g G)\n"
	    "  Enter     show the queue: health, breaker, workers, dead letters\n"
	    "  Esc       back to the list\n"
	    "  q         back to the list; in the list: quit\n"
	    "  s         next order   r  reverse it\n", out);
	for (int i = 0; i < TOP_SORTS; i++)
		fprintf(out, "  %c         %s: %s\n", top_sort_keys[i].letter, top_sort_keys[i].name,
		    top_sort_keys[i].summary);
	return alloc_string("  any key: back");
}

char *top_page_fitted(FILE *out, const struct top_figures *f, struct top_view *v, struct top_size size, bool colour)
{
	switch (v->page) {
	case TOP_HELP:
		return write_help(out);
	case TOP_QUEUE:
		return fit_queue(out, f, v, size, colour);
	case TOP_LIST:
		break;
	}
	return fit_list(out, f, v, size, colour);
}
