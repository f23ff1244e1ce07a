#ifndef ADMIN_TOP_TOP_H
#define ADMIN_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "admin/cli/cli.h"
#include "common/base/base.h"

struct json_t;

/*
 * quredis top shows the overview of the console: ls, stats, health and nodes in one document.
 *	top/top.c	when the overview is read and drawn
 *	top/look.c	reads it in a child process, so that keys and signals never wait for Redis
 *	top/rates.c	earlier figures, for rates
 *	top/figures.c	the figures of each queue, and their order
 *	top/view.c	what the operator looks at: order, selected queue, page
 *	top/page.c	writes the list of queues		top/detail.c	writes the page of one queue
 *	top/nodes.c	writes what both pages show of nodes
 *	top/keys.c	makes keys of bytes			top/screen.c	draws on the terminal, and restores it
 */

/* ---- top/look.c ---- */

struct top_look {		/* zeroed: no look is under way */
	pid_t pid;
	int answer, said;	/* read ends; -1: at its end. Valid while pid is set */
	struct buffer document, words;
	int64_t begun_ms;
};
/* queue: also reads the last dead letters of this one; NULL: of none. -1: errno */
int top_look_begin(struct top_look *l, const struct admin *a, const char *queue, int64_t now_ms);
/* Takes the output so far. True: the look has ended; *document is its result, or NULL, and *words is the error. */
bool top_look_take(struct top_look *l, struct json_t **document, char **words);
void top_look_end(struct top_look *l);		/* ends the look, in any state; does nothing if none is under way */

/* ---- top/rates.c ---- */

#define TOP_SAMPLES 16
struct top_rates {		/* figures of the queues at earlier looks; zeroed: none */
	struct json_t *stats[TOP_SAMPLES];	/* oldest first; owned */
	int64_t at_ms[TOP_SAMPLES];		/* CLOCK_MONOTONIC */
	int n;
};
void top_rates_add(struct top_rates *r, struct json_t *overview, int64_t now_ms);
void top_rates_free(struct top_rates *r);
/*
 * The rate of a counter in hundredths of a message a second; -1: not known. before, now: the rows of the queue in the
 * oldest and the newest sample. a_minute: its rate in the report of health; -1: not known
 */
int64_t top_rate(const struct top_rates *r, const struct json_t *before, const struct json_t *now,
    enum counter counter, int64_t a_minute);
char *top_rate_text(int64_t hundredths);

/* ---- top/figures.c ---- */

enum top_rate_of { TOP_DONE, TOP_FAILED, TOP_ESCAPED, TOP_RATES };

/* strings and documents are borrowed from the overview; a figure is -1 if it is not known */
struct top_queue {
	const char *name;
	const char *state;	/* the worst that a node reports; NULL: none reports the queue */
	const char *health;	/* NULL: no supervisor judges it */
	const struct json_t *listed, *document;	/* its rows of ls and health; document NULL: there is none */
	struct facts facts;			/* those of hosts are added up */
	int64_t rates[TOP_RATES];		/* hundredths a second */
	int64_t sickness;	/* the larger, the more urgent */
	int64_t order;		/* the sort value; larger ones are first */
};

struct top_figures {		/* zeroed: there was no look yet */
	struct json_t *overview;		/* owned */
	struct top_queue *queues;		/* owned */
	size_t n;
};
/* takes the overview; the order is that of ls */
void top_figures_make(struct top_figures *f, struct json_t *overview, const struct top_rates *r);
void top_figures_free(struct top_figures *f);
/* NULL: there is no such queue */
const struct top_queue *top_figures_find(const struct top_figures *f, const char *name);

enum top_sort { TOP_BY_HEALTH, TOP_BY_NAME, TOP_BY_INGRESS, TOP_BY_OLDEST, TOP_BY_TRANSIT, TOP_BY_DELAYED,
    TOP_BY_ESCAPE, TOP_BY_FAILED, TOP_SORTS };
struct top_sort_key {
	const char *name;		/* of --sort, and in the headline */
	char letter;			/* the key that chooses it */
	const char *summary;
};
extern const struct top_sort_key top_sort_keys[TOP_SORTS];
void top_figures_sort(struct top_figures *f, enum top_sort sort, bool reversed);

/* ---- top/keys.c ---- */

/* A key is its ASCII character, or one of these. */
enum { TOP_KEY_NONE = -1, TOP_KEY_ENTER = 256, TOP_KEY_ESCAPE, TOP_KEY_UP, TOP_KEY_DOWN, TOP_KEY_PAGE_UP,
    TOP_KEY_PAGE_DOWN, TOP_KEY_HOME, TOP_KEY_END };

struct top_keys { struct buffer bytes; };	/* zeroed: no key was pressed */
void top_keys_add(struct top_keys *k, const char *bytes, size_t n);
/*
 * Takes the next key. A sequence may arrive in pieces: TOP_KEY_NONE while it is incomplete. late: nothing more came for
 * a while, so that ESC is the key Escape, and not the beginning of a sequence.
 */
int top_keys_next(struct top_keys *k, bool late);
bool top_keys_is_incomplete(const struct top_keys *k);
void top_keys_free(struct top_keys *k);

/* ---- top/view.c ---- */

struct top_view {		/* zeroed: the list by health, its first row selected */
	enum top_sort sort;
	bool reversed;
	enum top_view_page { TOP_LIST, TOP_QUEUE, TOP_HELP } page, before_help;
	char *selected;		/* the name of a queue; owned. NULL: the first row, whichever queue it is */
	size_t at;		/* the selected row at the last placement, for a selected queue that has vanished */
	size_t first, lines;	/* the first row that is shown, and how many are */
	size_t scrolled;	/* the first line of the page of a queue that is shown */
	size_t scroll_most, scroll_lines;
};
/* LOOK: the page needs another document */
enum top_answer { TOP_ANSWER_NOTHING, TOP_ANSWER_DRAW, TOP_ANSWER_LOOK, TOP_ANSWER_QUIT };
enum top_answer top_view_key(struct top_view *v, int key, const struct top_figures *f);
/* Makes room for this many rows of the list. Returns the selected row; v->first is the first that is shown. */
size_t top_view_place(struct top_view *v, const struct top_figures *f, size_t lines);
/* The same for the page of a queue, which has n lines. Returns the first that is shown. */
size_t top_view_scroll(struct top_view *v, size_t n, size_t lines);
/* whose page is shown; NULL: the list */
const char *top_view_queue(const struct top_view *v, const struct top_figures *f);
void top_view_free(struct top_view *v);

/* ---- top/nodes.c: nodes are the reports of an overview ---- */

size_t top_nodes_count(const struct json_t *nodes);
/* Handlers that run, the longest first, at most `most`: of one queue, or of all (NULL). */
void top_nodes_runners(struct output *o, const struct json_t *nodes, const char *queue, size_t most);
size_t top_nodes_count_runners(const struct json_t *nodes, const char *queue);
/* Open breakers and errors of all queues. */
void top_nodes_causes(struct output *o, const struct json_t *nodes, int64_t now_ms);
size_t top_nodes_count_causes(const struct json_t *nodes);
/* How long the next attempt of an open breaker is away; "-": not known. */
struct cell top_nodes_attempt(const struct json_t *node, const struct json_t *queue, int64_t now_ms);

/* ---- top/page.c, top/detail.c ---- */

struct top_size { size_t rows, columns; };

/* Writes all lines of the list. */
void top_page(FILE *out, const struct top_figures *f, const struct top_view *v, size_t width, bool colour);
/* Writes the page that v shows, as far as there is room; the last row of the screen is left for a note. Returns a
 * default note, a new string. */
char *top_page_fitted(FILE *out, const struct top_figures *f, struct top_view *v, struct top_size size, bool colour);

void top_detail(FILE *out, const struct top_figures *f, const struct top_queue *q, size_t width, bool colour);

/* ---- top/screen.c: there is one terminal, that of standard output ---- */

void top_screen_enter(void);
void top_screen_leave(void);		/* restores the terminal; exit(3) and signals that end the process do it, too */
/* Draws as many lines of text as fit, each cut to the width; the rest of the screen is empty. note: the last line,
 * NULL: none */
void top_screen_draw(const char *text, const char *note);
struct top_size top_screen_size(void);

enum top_event { TOP_NOTHING, TOP_QUIT, TOP_REDRAW, TOP_READABLE, TOP_PRESSED };
/* Waits for keys, a signal, or input on one of fds (-1: none). After Ctrl-Z it gives the terminal to the shell, until
 * the process continues. */
enum top_event top_screen_wait(const int fds[2], int64_t timeout_ms);
int top_screen_key(void);		/* the next key that was pressed; TOP_KEY_NONE: none */
void top_screen_die(void);		/* ends the process by the signal that ended the loop, if there was one */

int cmd_top(struct admin *a);

#endif
