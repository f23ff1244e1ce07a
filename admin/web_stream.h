#ifndef ADMIN_WEB_STREAM_H
#define ADMIN_WEB_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "common/buffer.h"

struct event;
struct web;
struct web_call;
struct web_job;

/*
 * GET /api/v1/events: who looks on. While there is anybody, one child a second makes the overview, and all are sent it if
 * it is another one than before.
 */
#define WEB_VIEWERS_MAX 64
#define WEB_VIEWERS_ADDRESS_MAX 16	/* streams to one client address */

struct web_viewer;
struct web_stream {
	TAILQ_HEAD(, web_viewer) viewers;
	int nviewers;
	struct event *clock;		/* each second, while there are viewers */
	bool asking;			/* a child is under way */
	struct buffer last;		/* the document that was sent last; empty: none */
	int64_t sent_ms;		/* when anything was sent last (CLOCK_MONOTONIC) */
};

int web_stream_init(struct web *w);	/* -1: libevent would not */
void web_stream_free(struct web *w);

/* web_overview.c: in a child, {"time": ..., "queues": ..., ...} on standard output, one line. Returns an exit status. */
int web_overview_print(struct web *w);

#endif
