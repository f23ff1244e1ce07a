/*
 * quredis top: shows queues and workers, redrawn every second and after each key; q ends it. Without a terminal, or
 * with --once or --json, it prints one page.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/cli/cli.h"
#include "admin/top/top.h"
#include "admin/web/web.h"

#include "common/base/base.h"

#define EVERY_MS 1000

struct top {
	const struct admin *a;
	struct top_look look;
	struct top_rates rates;
	struct top_figures figures;	/* of the last look; zeroed: none yet */
	struct top_view view;
	int64_t taken_ms;		/* CLOCK_MONOTONIC when they arrived */
	int64_t due_ms;			/* CLOCK_MONOTONIC of the next look */
	char *error;			/* error of a later look; NULL: no error */
};

/* ---- one page ---- */

static int show_once(struct admin *a, const struct top_view *v)
{
	struct top_rates none = {0};
	struct top_figures figures;
	int status = 0;
	json_t *all = web_overview(a, &status);

	if (all == NULL) {
		a->status = status == 0 ? EX_SOFTWARE : status;
		return -1;
	}
	if (a->options.json) {
		output_json_document(&a->output, all);
		json_decref(all);
		return 0;
	}
	top_figures_make(&figures, all, &none);
	top_figures_sort(&figures, v->sort, v->reversed);
	top_page(stdout, &figures, v, a->output.width, a->output.colour);
	top_figures_free(&figures);
	return 0;
}

/* ---- the loop ---- */

/* The last line: an error, or what the page says by itself. A new string; NULL: nothing. */
static char *note_of(const struct top *t, char *of_page, int64_t now_ms)
{
	char *said, *note;

	if (t->error == NULL)
		return of_page != NULL ? of_page : alloc_string("asking Redis ...");
	free(of_page);
	said = t->figures.overview == NULL ? alloc_string(t->error)
	    : alloc_format("%s (showing data of %lld s ago)", t->error, (long long)(now_ms - t->taken_ms) / 1000);
	note = visible(said, strlen(said), top_screen_size().columns);
	free(said);
	return note;
}

static void draw_page(struct top *t, int64_t now_ms)
{
	char *text = NULL, *note = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return;
	if (t->figures.overview != NULL || t->view.page == TOP_HELP)
		note = top_page_fitted(out, &t->figures, &t->view, top_screen_size(), t->a->output.colour);
	fclose(out);
	note = note_of(t, note, now_ms);
	top_screen_draw(text, note);
	free(note);
	free(text);
}

static void note_error(struct top *t, char *words)
{
	free(t->error);
	t->error = words;
}

static void take_look(struct top *t, int64_t now_ms)
{
	json_t *document;
	char *words;

	if (!top_look_take(&t->look, &document, &words))
		return;
	note_error(t, words);
	if (document != NULL) {
		top_rates_add(&t->rates, document, now_ms);
		top_figures_free(&t->figures);
		top_figures_make(&t->figures, document, &t->rates);
		top_figures_sort(&t->figures, t->view.sort, t->view.reversed);
		t->taken_ms = now_ms;
	}
	draw_page(t, now_ms);
}

static void begin_look(struct top *t, int64_t now_ms)
{
	t->due_ms = now_ms + EVERY_MS;
	if (t->look.pid == 0 && top_look_begin(&t->look, t->a, top_view_queue(&t->view, &t->figures), now_ms) == -1)
		note_error(t, alloc_format("fork failed: %s", strerror(errno)));
	if (t->look.pid != 0 && now_ms - t->look.begun_ms >= 2 * EVERY_MS) {
		note_error(t, alloc_string("waiting for Redis"));
		draw_page(t, now_ms);
	}
}

/* Answers all keys that were pressed, and draws once. */
static enum top_event take_keys(struct top *t)
{
	bool changed = false;
	int key;

	while ((key = top_screen_key()) != TOP_KEY_NONE) {
		enum top_answer answer = top_view_key(&t->view, key, &t->figures);

		if (answer == TOP_ANSWER_QUIT)
			return TOP_QUIT;
		if (answer == TOP_ANSWER_LOOK)
			t->due_ms = 0;
		changed = changed || answer != TOP_ANSWER_NOTHING;
		top_figures_sort(&t->figures, t->view.sort, t->view.reversed);	/* the next key moves in this order */
	}
	return changed ? TOP_REDRAW : TOP_NOTHING;
}

static void run_loop(struct top *t)
{
	enum top_event event = TOP_REDRAW;

	while (event != TOP_QUIT) {
		int64_t now_ms = clock_monotonic_ms();
		const int fds[2] = { t->look.pid != 0 ? t->look.answer : -1, t->look.pid != 0 ? t->look.said : -1 };

		if (event == TOP_REDRAW)
			draw_page(t, now_ms);
		if (now_ms >= t->due_ms) {
			begin_look(t, now_ms);
			event = TOP_NOTHING;
			continue;
		}
		event = top_screen_wait(fds, t->due_ms - now_ms);
		if (event == TOP_PRESSED)
			event = take_keys(t);
		if (event == TOP_READABLE)
			take_look(t, clock_monotonic_ms());
	}
}

static bool is_live(const struct admin *a)
{
	return !a->options.once && !a->options.json && isatty(STDOUT_FILENO) == 1 && colour_terminal_obeys();
}

/* Sets the order that --sort names. -1: there is none of this name. */
static int choose_sort(struct admin *a, enum top_sort *sort)
{
	const char *names[TOP_SORTS], *word = a->options.sort, *near;
	struct buffer all = {0};
	char *shown;

	*sort = TOP_BY_HEALTH;
	for (int i = 0; i < TOP_SORTS; i++) {
		names[i] = top_sort_keys[i].name;
		buffer_format(&all, "%s%s", i == 0 ? "" : i + 1 == TOP_SORTS ? " or " : ", ", names[i]);
		if (word != NULL && strcmp(word, names[i]) == 0) {
			*sort = (enum top_sort)i;
			word = NULL;
		}
	}
	if (word != NULL) {
		near = nearest(word, names, TOP_SORTS);
		shown = visible(word, strlen(word), 100);
		admin_fail(a, EX_USAGE, "--sort: expected %.*s, not %s%s%s%s", (int)all.len, all.data,
		    shown[0] == '\0' ? "an empty word" : shown,
		    near != NULL ? " (did you mean " : "", near != NULL ? near : "", near != NULL ? "?)" : "");
		free(shown);
	}
	buffer_free(&all);
	return word == NULL ? 0 : -1;
}

int cmd_top(struct admin *a)
{
	struct top t = { .a = a };

	if (choose_sort(a, &t.view.sort) == -1)
		return -1;
	if (!is_live(a))
		return show_once(a, &t.view);
	top_screen_enter();
	run_loop(&t);
	top_screen_leave();
	top_look_end(&t.look);
	top_rates_free(&t.rates);
	top_figures_free(&t.figures);
	top_view_free(&t.view);
	free(t.error);
	top_screen_die();
	return 0;
}
