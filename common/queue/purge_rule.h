#ifndef COMMON_QUEUE_PURGE_RULE_H
#define COMMON_QUEUE_PURGE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/message/message.h"

/*
 * Which messages the rules of purge{} take (docs/design.md, "Purge"). The sweeper applies the rules, and quredis stale counts
 * what they would take. Pure.
 */
#define PURGE_DEEPEST 100000	/* a walk ends after so many entries that stay: the server reaches deeper ones entry by entry */

/* Why an entry is purged. */
struct verdict {
	const char *class, *rule;	/* the class of the record, and the name of the limit */
	struct age_excess excess;
};

/* waits: the message lies in ingress. */
bool purge_judge(const struct conf_purge *limits, bool waits, const struct message *m, const struct age_clock *c, struct verdict *out);

/* For the history: purge takes what the queue's own done.max_age would keep longer, or what is left where no history is kept now. */
bool purge_takes_done(const struct conf_queue *q);

/*
 * Entries written at *oldest_ms, by the clock of Redis, or before are older than max_age_ms. false: the clock was set since
 * then, so no age is certain
 */
bool purge_oldest(int64_t max_age_ms, const struct age_clock *c, int64_t *oldest_ms);

/* Records without a dead letter. Where there is an archive, bounds remove them instead, after writing them to it. */
static inline bool purge_takes_orphans(const struct conf_queue *q)
{
	return q->dead_letter.archive == NULL;
}

/*
 * Other programs also fetch from a shared queue, so quredis writes nothing before its messages, and nothing says how long they
 * wait. Purge does not look at such a queue.
 */
static inline bool purge_takes_messages(const struct conf_queue *q)
{
	return !q->shared;
}

#endif
