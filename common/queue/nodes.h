#ifndef COMMON_QUEUE_NODES_H
#define COMMON_QUEUE_NODES_H

#include <stdint.h>

#include "common/queue/moves.h"

/*
 * The report of a node about itself (docs/design.md): quredis:node:<node>, JSON that its sweeper writes
 * (sweeper/report/node.c) and that expires. There is no list of nodes: the registrations of workers and the leaders of
 * queues contain the names of nodes.
 */
#define QUEUE_NODE_EVERY_MS 10000
#define QUEUE_NODE_RUNNING_MAX_MS (INT64_C(3650) * 24 * 3600 * 1000)	/* a longer run is an error in the report */
#define QUEUE_NODE_KEPT_MS (3 * QUEUE_NODE_EVERY_MS)

void queue_node_write(struct redis *r, const char *node, const char *document);	/* -> STATUS */
void queue_node_drop(struct redis *r, const char *node);			/* -> INTEGER */
void queue_node_read(struct redis *r, const char *node);			/* -> STRING or NIL */

/*
 * The sweeper's knowledge of the server's clock, which it reads again after a restart (common/board/server_clock.h):
 * quredis:node:<node>:clock. The reader decides by its own clock whether the text is too old: Redis expires keys by the
 * very clock that may have been set. So the expiry only removes the key of a node that never comes back.
 */
#define QUEUE_NODE_CLOCK_KEPT_MS (INT64_C(30) * 24 * 60 * 60 * 1000)
void queue_node_clock_write(struct redis *r, const char *node, const char *text);	/* -> STATUS */
void queue_node_clock_read(struct redis *r, const char *node);			/* -> STRING or NIL */

/*
 * Returns for how long this handler of a report has been running, at server_ms by the clock of Redis; -1: the report
 * does not tell. report may be NULL.
 */
struct json_t;
int64_t queue_node_running(const struct json_t *report, const char *incarnation, int64_t server_ms);

/* A new report; NULL: there is none, none that can be read, or one of a time that Redis' clock has not had: its key may
 * never expire. */
struct json_t *queue_node_parse(const struct redis_reply *reply, int64_t server_ms);
/* The row of a queue, also in the status of a supervisor; NULL: it does not have the queue. Lives as long as the
 * report. */
const struct json_t *queue_node_row(const struct json_t *report, const char *queue);
int64_t queue_node_at(const struct json_t *report);	/* when it was written: ms since 1970, by the clock of Redis */
/* How old the report is at server_ms by the clock of Redis; 0: not older. report may be NULL. */
int64_t queue_node_age(const struct json_t *report, int64_t server_ms);

/*
 * Reads the node's knowledge of the server's clock into c. Without that in the report: the clock was never seen to be
 * set. report may be NULL.
 */
struct age_clock;
void queue_node_reported_clock(const struct json_t *report, struct age_clock *c);

/* The leader of a queue -> STRING "<node>.<boot> <lock>" for queue_leader_node(), or NIL */
void queue_leader(struct redis *r, const struct queue_keys *k);
/* -> INTEGER: ms until its lease expires; negative: there is none, or it never does */
void queue_leader_left(struct redis *r, const struct queue_keys *k);
char *queue_leader_node(const struct redis_reply *reply);	/* a new string; NULL: the queue has no leader */

#endif
