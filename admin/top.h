#ifndef ADMIN_TOP_H
#define ADMIN_TOP_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "admin/admin.h"
#include "common/buffer.h"

struct json_t;

/*
 * quredis top. What there is to see is the overview that the console has, too: ls, stats, health and nodes in one document.
 *	cmd_top.c	when it is asked for and drawn
 *	top_look.c	asking, in a child, so that keys and signals never wait for Redis
 *	top_page.c	a page of it
 *	top_screen.c	the terminal, and that it is as it was afterwards
 */

/* ---- top_look.c ---- */

struct top_look {		/* zeroed: none is under way */
	pid_t pid;
	int answer, said;	/* read ends; -1: at its end. Only while pid is set */
	struct buffer document, words;
	int64_t begun_ms;
};
int top_look_begin(struct top_look *l, const struct admin *a, int64_t now_ms);	/* -1: errno */
/* Takes what has come. True: it is over; *document is what it was, NULL: why not is in words. */
bool top_look_take(struct top_look *l, struct json_t **document, char **words);
void top_look_end(struct top_look *l);		/* whatever it is at */

/* ---- top_page.c ---- */

#define TOP_SAMPLES 16
struct top_rates {		/* what queues had done, over the last while; zeroed: nothing is known */
	struct json_t *stats[TOP_SAMPLES];	/* oldest first; owned */
	int64_t at_ms[TOP_SAMPLES];		/* CLOCK_MONOTONIC */
	int n;
};
void top_rates_add(struct top_rates *r, struct json_t *overview, int64_t now_ms);
void top_rates_free(struct top_rates *r);
/* The lines of a page. width: SIZE_MAX: as wide as they are */
void top_page(FILE *out, const struct json_t *overview, const struct top_rates *r, size_t width, bool colour);

/* ---- top_screen.c: one terminal, the one of standard output ---- */

void top_screen_enter(void);
void top_screen_leave(void);		/* as it was before; also by itself at exit(3) and when a signal ends us */
/* text's lines, as many as fit; the rest of the screen is empty. note: below them, NULL: none */
void top_screen_draw(const char *text, const char *note);
size_t top_screen_width(void);

enum top_event { TOP_NOTHING, TOP_QUIT, TOP_REDRAW, TOP_READABLE };
/* Waits for a key, a signal, or one of fds (-1: none). A stop (Ctrl-Z) gives the terminal back for as long as it lasts. */
enum top_event top_screen_wait(const int fds[2], int64_t timeout_ms);
void top_screen_die(void);		/* ends by the signal that asked us to, if one did */

#endif
