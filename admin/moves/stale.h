#ifndef ADMIN_MOVES_STALE_H
#define ADMIN_MOVES_STALE_H

#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"

#include "common/queue/queue.h"

/*
 * Counts the messages and entries that the rules of purge{} would take from a queue. It judges them as the sweeper does
 * (common/queue/purge.h), with the leader's knowledge of the server's clock, and writes nothing. While lists change,
 * the result is an estimate.
 */
enum stale_rule { STALE_INGRESS, STALE_MESSAGE, STALE_DELAYED, STALE_DONE, STALE_RECORDS, STALE_RULES };

struct stale_count {
	int64_t count;
	int64_t oldest_ms;	/* age of the oldest; 0: count is 0 */
};

struct stale {
	struct queue_keys keys;
	const struct conf_queue *conf;
	char *leader;			/* the node whose sweeper applies the rules; NULL: no node leads the queue */
	/* the leader's knowledge of the clock; without a leader, times count as they are */
	struct age_clock clock;
	unsigned looked;		/* 1u << rule: the rule applies to this queue, and was counted */
	struct stale_count counts[STALE_RULES];
	char *error;			/* why the queue cannot be read; NULL: it can */
};

/* Notes that the rule applies to this queue. Call it before counting. */
void stale_begin(struct stale *s, enum stale_rule rule);
/* Counts an entry that the rule would take. */
void stale_add(struct stale *s, enum stale_rule rule, int64_t age_ms);

/* Each returns -1 after admin_fail(), and stops early when it is interrupted. */
int stale_waiting(struct admin *a, struct stale *s);	/* stale_waiting.c: ingress and delayed */
int stale_done(struct admin *a, struct stale *s);	/* stale_records.c */
int stale_records(struct admin *a, struct stale *s);

#endif
