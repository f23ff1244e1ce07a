#ifndef ADMIN_WEB_STREAM_H
#define ADMIN_WEB_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include <bsd/sys/queue.h>

#include "common/base/base.h"

struct event;
struct web;
struct web_call;
struct web_job;

/*
 * GET /api/v1/events. While there are viewers, a child makes the overview once a second, and the server sends it to all
 * viewers if it changed.
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
	int64_t sent_ms;		/* time of the last event or heartbeat (CLOCK_MONOTONIC) */
};

int web_stream_init(struct web *w);	/* -1: libevent failed */
void web_stream_free(struct web *w);

/* web/overview.c: in a child, {"time": ..., "queues": ..., ...} on standard output, one line. Returns an exit
 * status. */
int web_overview_print(void *web);

#endif
