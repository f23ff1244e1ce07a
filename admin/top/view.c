/*
 * The view of the operator: the order of the list, the selected queue, and the page. A selected queue stays selected
 * wherever its figures move it; the first row, which is selected at the start, stays the first row, so that the sickest
 * queue is always there.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/top/top.h"

#include "common/base/base.h"

void top_view_free(struct top_view *v)
{
	free(v->selected);
	*v = (struct top_view){0};
}

static size_t selected_row(const struct top_view *v, const struct top_figures *f)
{
	for (size_t i = 0; v->selected != NULL && i < f->n; i++)
		if (strcmp(f->queues[i].name, v->selected) == 0)
			return i;
	if (v->selected == NULL || f->n == 0)
		return 0;
	return v->at < f->n ? v->at : f->n - 1;
}

size_t top_view_place(struct top_view *v, const struct top_figures *f, size_t lines)
{
	size_t most = f->n > lines ? f->n - lines : 0;

	v->at = selected_row(v, f);
	v->lines = lines;
	if (v->at < v->first)
		v->first = v->at;
	if (lines > 0 && v->at >= v->first + lines)
		v->first = v->at - lines + 1;
	if (v->first > most)
		v->first = most;
	return v->at;
}

size_t top_view_scroll(struct top_view *v, size_t n, size_t lines)
{
	v->scroll_lines = lines;
	v->scroll_most = n > lines ? n - lines : 0;
	if (v->scrolled > v->scroll_most)
		v->scrolled = v->scroll_most;
	return v->scrolled;
}

const char *top_view_queue(const struct top_view *v, const struct top_figures *f)
{
	if (v->page != TOP_QUEUE)
		return NULL;
	if (v->selected != NULL)
		return v->selected;
	return f->n == 0 ? NULL : f->queues[0].name;
}

/* ---- keys ---- */

/* Returns where a key of motion leads from `at`; the last place is `last`, a page has `page` lines. False: it is no
 * such key. */
static bool move(int key, size_t at, size_t last, size_t page, size_t *to)
{
	if (page == 0)
		page = 1;
	switch (key) {
	case TOP_KEY_UP:
	case 'k':
		*to = at > 0 ? at - 1 : 0;
		return true;
	case TOP_KEY_DOWN:
	case 'j':
		*to = at < last ? at + 1 : last;
		return true;
	case TOP_KEY_PAGE_UP:
	case 'b':
		*to = at > page ? at - page : 0;
		return true;
	case TOP_KEY_PAGE_DOWN:
	case ' ':
		*to = last - at > page ? at + page : last;
		return true;
	case TOP_KEY_HOME:
	case 'g':
		*to = 0;
		return true;
	case TOP_KEY_END:
	case 'G':
		*to = last;
		return true;
	}
	return false;
}

static void select_row(struct top_view *v, const struct top_figures *f, size_t row)
{
	free(v->selected);
	v->selected = row == 0 ? NULL : alloc_string(f->queues[row].name);
}

/* The sort keys, s and r. False: another key. The selection returns to the first row, which is what the operator wants
 * to see in the new order. */
static bool choose_order(struct top_view *v, int key)
{
	enum top_sort sort = TOP_SORTS;

	for (int i = 0; i < TOP_SORTS; i++)
		if (top_sort_keys[i].letter == key)
			sort = (enum top_sort)i;
	if (key == 's')
		sort = (enum top_sort)((v->sort + 1) % TOP_SORTS);
	if (sort == TOP_SORTS && key != 'r')
		return false;
	v->reversed = key == 'r' && !v->reversed;
	if (sort != TOP_SORTS)
		v->sort = sort;
	free(v->selected);
	v->selected = NULL;
	v->first = 0;
	return true;
}

static enum top_answer key_of_list(struct top_view *v, int key, const struct top_figures *f)
{
	size_t row;

	if (key == 'q' || key == 'Q')
		return TOP_ANSWER_QUIT;
	if (key == TOP_KEY_ENTER && f->n > 0) {
		v->at = selected_row(v, f);
		free(v->selected);
		v->selected = alloc_string(f->queues[v->at].name);	/* the page stays with this queue */
		v->page = TOP_QUEUE;
		v->scrolled = 0;
		return TOP_ANSWER_LOOK;
	}
	if (f->n > 0 && move(key, selected_row(v, f), f->n - 1, v->lines, &row)) {
		select_row(v, f, row);
		return TOP_ANSWER_DRAW;
	}
	return choose_order(v, key) || key == 'L' ? TOP_ANSWER_DRAW : TOP_ANSWER_NOTHING;
}

static enum top_answer key_of_queue(struct top_view *v, int key, const struct top_figures *f)
{
	if (key == 'q' || key == 'Q' || key == TOP_KEY_ESCAPE) {
		v->page = TOP_LIST;
		if (selected_row(v, f) == 0)
			select_row(v, f, 0);
		return TOP_ANSWER_DRAW;
	}
	return move(key, v->scrolled, v->scroll_most, v->scroll_lines, &v->scrolled) || key == 'L' ? TOP_ANSWER_DRAW
	    : TOP_ANSWER_NOTHING;
}

enum top_answer top_view_key(struct top_view *v, int key, const struct top_figures *f)
{
	if (v->page == TOP_HELP) {
		v->page = v->before_help;
		return TOP_ANSWER_DRAW;
	}
	if (key == '?') {
		v->before_help = v->page;
		v->page = TOP_HELP;
		return TOP_ANSWER_DRAW;
	}
	return v->page == TOP_LIST ? key_of_list(v, key, f) : key_of_queue(v, key, f);
}
