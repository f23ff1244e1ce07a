#ifndef COMMON_QUEUE_NODES_H
#define COMMON_QUEUE_NODES_H

#include <stdint.h>

#include "common/queue.h"

/*
 * What a node says of itself (docs/design.md): quredis:node:<node>, JSON that its sweeper writes (sweeper/node.c) and that goes
 * away by itself. Nobody keeps a list of nodes: who works on a queue, or leads it, names his.
 */
#define QUEUE_NODE_EVERY_MS 10000
#define QUEUE_NODE_RUNNING_MAX_MS (INT64_C(3650) * 24 * 3600 * 1000)	/* what is longer is not true */
#define QUEUE_NODE_KEPT_MS (3 * QUEUE_NODE_EVERY_MS)

void queue_node_write(struct redis *r, const char *node, const char *document);	/* -> STATUS */
void queue_node_drop(struct redis *r, const char *node);			/* -> INTEGER */
void queue_node_read(struct redis *r, const char *node);			/* -> STRING or NIL */

/*
 * What it knows of the server's clock, for itself after a restart (common/server_clock.h): quredis:node:<node>:clock. Longer than
 * this nobody must have looked: that the clock was set and put back meanwhile would not be seen.
 */
#define QUEUE_NODE_CLOCK_KEPT_MS (10 * 60 * 1000)
void queue_node_clock_write(struct redis *r, const char *node, const char *text);	/* -> STATUS */
void queue_node_clock_read(struct redis *r, const char *node);			/* -> STRING or NIL */

/* How long this handler of a report runs, server_ms by the clock of Redis; -1: the report does not say. report may be NULL. */
struct json_t;
int64_t queue_node_running(const struct json_t *report, const char *incarnation, int64_t server_ms);

/* What it knows of the server's clock, as in struct age_clock; a report without that: nothing, since ever. report may be NULL. */
struct age_clock;
void queue_node_reported_clock(const struct json_t *report, struct age_clock *c);

/* Who leads a queue -> STRING for queue_leader_node(), or NIL */
void queue_leader(struct redis *r, const struct queue_keys *k);
char *queue_leader_node(const struct redis_reply *reply);	/* a new string; NULL: nobody */

#endif
