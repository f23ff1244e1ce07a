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
 *	top/page.c	writes it as a page
 *	top/screen.c	draws on the terminal, and restores it
 */

/* ---- top/look.c ---- */

struct top_look {		/* zeroed: no look is under way */
	pid_t pid;
	int answer, said;	/* read ends; -1: at its end. Valid while pid is set */
	struct buffer document, words;
	int64_t begun_ms;
};
int top_look_begin(struct top_look *l, const struct admin *a, int64_t now_ms);	/* -1: errno */
/* Takes the output so far. True: the look has ended; *document is its result, or NULL, and *words is the error. */
bool top_look_take(struct top_look *l, struct json_t **document, char **words);
void top_look_end(struct top_look *l);		/* ends the look, in any state; does nothing if none is under way */

/* ---- top/page.c ---- */

#define TOP_SAMPLES 16
struct top_rates {		/* figures of the queues at earlier pages; zeroed: none */
	struct json_t *stats[TOP_SAMPLES];	/* oldest first; owned */
	int64_t at_ms[TOP_SAMPLES];		/* CLOCK_MONOTONIC */
	int n;
};
void top_rates_add(struct top_rates *r, struct json_t *overview, int64_t now_ms);
void top_rates_free(struct top_rates *r);
/* Writes the lines of a page. width SIZE_MAX: no line is cut */
void top_page(FILE *out, const struct json_t *overview, const struct top_rates *r, size_t width, bool colour);

/* ---- top/screen.c: there is one terminal, that of standard output ---- */

void top_screen_enter(void);
void top_screen_leave(void);		/* restores the terminal; exit(3) and signals that end the process do it, too */
/* Draws as many lines of text as fit; the rest of the screen is empty. note: a line below them, NULL: none */
void top_screen_draw(const char *text, const char *note);
size_t top_screen_width(void);

enum top_event { TOP_NOTHING, TOP_QUIT, TOP_REDRAW, TOP_READABLE };
/* Waits for a key, a signal, or input on one of fds (-1: none). After Ctrl-Z it gives the terminal to the shell, until the process continues. */
enum top_event top_screen_wait(const int fds[2], int64_t timeout_ms);
void top_screen_die(void);		/* ends the process by the signal that ended the loop, if there was one */

int cmd_top(struct admin *a);

#endif
