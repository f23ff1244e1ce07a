#ifndef WORKER_ADOPT_H
#define WORKER_ADOPT_H

#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

struct worker;

/* Owner: adopt.c. The server on which the worker read its trays last, and the server on which it reads them now. */
struct adoption {
	struct redis_identity server;
	struct redis_identity server_now;
};

struct adopted {			/* a message that lies in the tray */
	const char *raw;
	size_t len;
};

void adopt_ask_server(struct worker *w, int64_t now_ms);	/* right before a renewal: asks which server this is */
void adopt_lost(struct adoption *a);		/* the connection is lost: the next one may have another server */
void adopt_server_answer(struct worker *w, const struct redis_reply *reply);
void adopt_tray(struct worker *w, int tray, const struct adopted *all, size_t n);	/* all: what the list holds, oldest first */
void adopt_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);

#endif
