#ifndef COMMON_QUEUE_WATCH_H
#define COMMON_QUEUE_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"

/*
 * Requests of the sweeper besides the moves of common/queue/moves.h. As there, every function that takes a struct redis
 * appends commands and returns at once.
 */
#define QUEUE_OWNERS_MAX 100	/* the most owners of one command */

/*
 * -> INTEGER 0: no message is delayed, by a producer neither, the queue is not paused, no operator has cancelled a
 * message, and the queue has no operations; else use queue_poll(), queue_cancels_count() and queue_operations_exist()
 * to tell them apart
 */
void queue_quiet(struct redis *r, const struct queue_keys *k);

void queue_length(struct redis *r, const char *list);	/* -> INTEGER */

/* -> INTEGER: how many of these n owners have a lease */
void queue_leases(struct redis *r, const struct queue_keys *k, const char *const *incarnations, size_t n);

/* -> INTEGER: how many trays and rescue lists of these n owners are not empty */
void queue_holdings(struct redis *r, const struct queue_keys *k, const char *const *incarnations, size_t n);

/* A rescue list is empty again: deletes its remembered size. incarnation NULL: the bare list. -> INTEGER */
void queue_rescue_over(struct redis *r, const struct queue_keys *k, const char *incarnation);

/* -> INTEGER 1: the registry has an entry of the queue */
void queue_is_registered(struct redis *r, const struct queue_keys *k);
/* -> INTEGER 0: the registry is empty, as on a server that lost its data */
void queue_registry_is_there(struct redis *r);
/* -> ARRAY of STRING: names in the registry and their scores in turn, n names from the first-th on */
void queue_registry_page(struct redis *r, int64_t first, int64_t n);
/* -> STRING: the score of a queue in the registry, as Redis writes it, or NIL */
void queue_registry_score(struct redis *r, const char *name);
/* Sets the scores of these queues to the current time: they are still served, though nothing else in Redis shows it. ->
 * INTEGER */
#define QUEUE_REGISTRY_GROUP 100
#define QUEUE_REGISTRY_SHOWN_MS 10000	/* so often a sweeper does that */
void queue_registry_show(struct redis *r, const char *const *names, size_t n);
/* -> INTEGER: how many things of any kind a queue has: messages, records, workers, a leader, a pause */
void queue_is_used(struct redis *r, const struct queue_keys *k);
/*
 * Removes a queue from the registry, if its score and its entry are still as they were read. entry NULL: there was
 * none. -> INTEGER 1; 0: they have changed
 */
void queue_unregister(struct redis *r, const char *name, const char *score, const char *entry);
void queue_forget_totals(struct redis *r, const struct queue_keys *k);	/* its statistics. -> INTEGER */

/* The registry entry of a queue -> STRING for queue_registered_parse(), or NIL */
void queue_registered(struct redis *r, const char *name);
/* -> ARRAY of STRING or NIL: the same for n queues in one command, which some servers and users do not allow */
void queue_registered_all(struct redis *r, char *const *names, size_t n);

#define QUEUE_IDENTITY_INFOS 2
/* -> two STRINGs for redis_identity_read(), or errors where the server hides them */
void queue_identity(struct redis *r);
/* INTEGER, if the server accepts writes like those that renew leases; ARRAY for queue_time_parse(); then as
 * queue_identity() */
void queue_pulse(struct redis *r, const char *node);
void queue_time(struct redis *r);	/* -> ARRAY for queue_time_parse() */
/* ms since 1970 by the clock of Redis; -1: unexpected reply */
int64_t queue_time_parse(const struct redis_reply *reply);

/*
 * Takes or renews the lead of a queue. -> INTEGER 1: `sweeper` is the leader for lease_ms from now on; 0: another
 * sweeper is. lease_ms 0: gives the lead up.
 */
void queue_lead(struct redis *r, const struct queue_keys *k, const char *sweeper, int64_t lease_ms);

#endif
