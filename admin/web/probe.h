#ifndef ADMIN_WEB_PROBE_H
#define ADMIN_WEB_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct web_call;

/*
 * GET /readyz: at most one child a second asks Redis, however many probes arrive. A probe that arrives while the child
 * runs, or within a second after its answer, gets that answer. Probes need no token, so the number of those that wait
 * is bounded.
 */
#define WEB_PROBES_WAITING 32

struct web_probe {
	struct web_call *waiting[WEB_PROBES_WAITING];	/* probes without an answer; none, unless a child runs */
	int nwaiting;
	bool asking;
	int code;			/* HTTP status of the last answer */
	const char *text;
	int64_t until_ms;		/* the last answer is good until then (CLOCK_MONOTONIC); 0: there is none */
};

#endif
