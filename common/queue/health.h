#ifndef COMMON_QUEUE_HEALTH_H
#define COMMON_QUEUE_HEALTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

/*
 * The last health reports (docs/design.md): the hash quredis:health, with one field for each queue. The value is a JSON
 * document; sweeper/report/health_document.c describes it. The leader of a queue writes its field. A report that is not
 * renewed becomes stale, by the time and the interval that it contains.
 */
#define QUEUE_HEALTH_KEPT 3	/* a report is valid for this many of its intervals */

/* The levels, also as numbers of the metrics. The later, the worse. */
enum queue_health_level { QUEUE_HEALTHY, QUEUE_DEGRADED, QUEUE_UNHEALTHY, QUEUE_HEALTH_LEVELS };
extern const char *const queue_health_names[QUEUE_HEALTH_LEVELS];	/* "healthy", "degraded", "unhealthy" */
int queue_health_level_of(const char *status);		/* -1: NULL, or no level has this name */

/* Two answers: INTEGER each. The hash does not expire before this report is stale. */
void queue_health_write(struct redis *r, const char *queue, const char *document, int64_t interval_ms);
void queue_health_read(struct redis *r);	/* -> ARRAY: queue, document, queue, document ... */
void queue_health_read_one(struct redis *r, const char *queue);	/* -> STRING, or NIL */
void queue_health_drop(struct redis *r, const char *queue);	/* -> INTEGER */

/* The status that health.on_change last succeeded for. It stands beside the totals of the queue, which stay as long as
 * the queue is used: no report does. -> INTEGER; -> STRING, or NIL: it succeeded for none */
struct queue_keys;
void queue_health_note_told(struct redis *r, const struct queue_keys *k, enum queue_health_level status);
void queue_health_told(struct redis *r, const struct queue_keys *k);

/* The contents of a document. queue_health_parse() returns -1 if it is no report. */
struct queue_health {
	struct json_t *document;	/* owned */
	const char *queue, *status;	/* point into document */
	int level;			/* enum queue_health_level */
	/* when the queue was judged, and will be at the latest: ms since 1970, by the clock of Redis */
	int64_t at_ms, next_ms;
	int64_t interval_ms;
};
int queue_health_parse(struct queue_health *h, const char *text, size_t len);
void queue_health_free(struct queue_health *h);
/*
 * Parses the answer of queue_health_read(). Returns the reports of `queue` (NULL: of all queues) that are not stale: *n
 * of them, in an array with room for `more` further ones. *stale: how many others are stale. An entry that is no
 * report, or one of another queue than its field says, is left out. The caller frees each report, and the array.
 */
struct queue_health *queue_health_parse_all(const struct redis_reply *reply, const char *queue, size_t more,
    int64_t server_ms, size_t *n, size_t *stale);

/*
 * A report is valid for minutes, so it alone does not prove that anything works. The supervisor that wrote it also
 * reports its node, which is fresher:
 *	it does not report any more: the report is doubtful
 *	it reports without the queue: the queue has left it
 */
enum queue_health_worth { QUEUE_HEALTH_CONFIRMED, QUEUE_HEALTH_DOUBTFUL, QUEUE_HEALTH_LEFT };
/* Asks for the report of each node that wrote one of these: a new object, whose members are the names of nodes in the
 * order of the requests. */
struct json_t *queue_health_ask_nodes(struct redis *r, const struct queue_health *reports, size_t n);
/* The report of the node of h among nodes, where queue_node_parse() has set the members; NULL: there is none that
 * counts. */
const struct json_t *queue_health_node(const struct queue_health *h, const struct json_t *nodes);
enum queue_health_worth queue_health_worth(const struct queue_health *h, const struct json_t *node, int64_t server_ms);
/* True: the report is older than QUEUE_HEALTH_KEPT intervals, or is so far ahead: the clock of Redis was set back, so
 * its age is not known. */
bool queue_health_is_stale(const struct queue_health *h, int64_t server_ms);

#endif
