#ifndef COMMON_QUEUE_HEALTH_H
#define COMMON_QUEUE_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis.h"

/*
 * The last health report (docs/design.md): the hash quredis:health, a field for each queue whose value is a JSON
 * document; who leads a queue writes its field. What it says is sweeper/health_document.c's. Fields of
 * queues nobody reports any more are stale by what they say of themselves.
 */
#define QUEUE_HEALTH_KEPT 3	/* a report holds for so many of its intervals */

/* Two answers: INTEGER each. The hash is kept for that long from now on, at least. */
void queue_health_write(struct redis *r, const char *queue, const char *document, int64_t interval_ms);
void queue_health_read(struct redis *r);	/* -> ARRAY: queue, document, queue, document ... */
void queue_health_read_one(struct redis *r, const char *queue);	/* -> STRING, or NIL */
void queue_health_drop(struct redis *r, const char *queue);	/* -> INTEGER */

/* What a document says of itself; -1: it is none. */
struct queue_health {
	struct json_t *document;	/* owned */
	const char *queue, *status;	/* in document */
	int level;			/* 0 healthy, 1 degraded, 2 unhealthy */
	int64_t at_ms, interval_ms;	/* the server's ms since 1970 */
};
int queue_health_parse(struct queue_health *h, const char *text, size_t len);
void queue_health_free(struct queue_health *h);
/* Older than it may be. */
bool queue_health_is_stale(const struct queue_health *h, int64_t server_ms);

extern const char *const queue_health_names[3];		/* "healthy", "degraded", "unhealthy" */

#endif
