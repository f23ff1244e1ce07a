/*
 * quredis top: shows queues and workers, redrawn every second; q ends it. Without a terminal, or with --once or --json, it
 * prints one page. top/look.c reads the overview, the same as the console's, top/page.c writes the page, and top/screen.c owns
 * the terminal.
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
	json_t *overview;		/* the last overview; NULL: none yet */
	int64_t taken_ms;		/* CLOCK_MONOTONIC when it arrived */
	int64_t due_ms;			/* CLOCK_MONOTONIC of the next look */
	char *trouble;			/* error of a later look; NULL: no error */
};

/* ---- one page ---- */

static int show_once(struct admin *a)
{
	struct top_rates none = {0};
	int status = 0;
	json_t *all = web_overview(a, &status);

	if (all == NULL) {
		a->status = status == 0 ? EX_SOFTWARE : status;
		return -1;
	}
	if (a->options.json) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		top_page(stdout, all, &none, a->output.width, a->output.colour);
	}
	json_decref(all);
	return 0;
}

/* ---- the loop ---- */

static void draw_page(const struct top *t, int64_t now_ms)
{
	char *text = NULL, *note = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (out == NULL)
		return;
	if (t->overview != NULL)
		top_page(out, t->overview, &t->rates, top_screen_width(), t->a->output.colour);
	fclose(out);
	if (t->trouble != NULL) {
		char *said = t->overview == NULL ? alloc_string(t->trouble)
		    : alloc_format("%s (showing data of %lld s ago)", t->trouble, (long long)(now_ms - t->taken_ms) / 1000);

		note = visible(said, strlen(said), top_screen_width());
		free(said);
	}
	top_screen_draw(text, note != NULL || t->overview != NULL ? note : "asking Redis ...");
	free(note);
	free(text);
}

static void note_trouble(struct top *t, char *words)
{
	free(t->trouble);
	t->trouble = words;
}

static void take_look(struct top *t, int64_t now_ms)
{
	json_t *document;
	char *words;

	if (!top_look_take(&t->look, &document, &words))
		return;
	note_trouble(t, words);
	if (document != NULL) {
		json_decref(t->overview);
		t->overview = document;
		t->taken_ms = now_ms;
		top_rates_add(&t->rates, document, now_ms);
	}
	draw_page(t, now_ms);
}

static void begin_look(struct top *t, int64_t now_ms)
{
	t->due_ms = now_ms + EVERY_MS;
	if (t->look.pid == 0 && top_look_begin(&t->look, t->a, now_ms) == -1)
		note_trouble(t, alloc_format("fork failed: %s", strerror(errno)));
	if (t->look.pid != 0 && now_ms - t->look.begun_ms >= 2 * EVERY_MS) {
		note_trouble(t, alloc_string("waiting for Redis"));
		draw_page(t, now_ms);
	}
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
		if (event == TOP_READABLE)
			take_look(t, clock_monotonic_ms());
	}
}

static bool is_live(const struct admin *a)
{
	const char *term = getenv("TERM");

	return !a->options.once && !a->options.json && isatty(STDOUT_FILENO) == 1 && term != NULL && term[0] != '\0' && strcmp(term, "dumb") != 0;
}

int cmd_top(struct admin *a)
{
	struct top t = { .a = a };

	if (!is_live(a))
		return show_once(a);
	top_screen_enter();
	run_loop(&t);
	top_screen_leave();
	top_look_end(&t.look);
	top_rates_free(&t.rates);
	json_decref(t.overview);
	free(t.trouble);
	top_screen_die();
	return 0;
}
