#ifndef WORKER_ADOPT_H
#define WORKER_ADOPT_H

#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: adopt.c. The server on which the worker read its trays last. */
struct adoption {
	struct redis_identity server;
};

struct adopted {			/* a message that lies in the tray */
	const char *raw;
	size_t len;
};

void adopt_read_trays(struct worker *w);	/* requests all lists at once */
/* all: what the list holds, oldest first */
void adopt_tray(struct worker *w, int tray, const struct adopted *all, size_t n);
void adopt_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);

#endif
