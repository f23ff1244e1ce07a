#ifndef COMMON_PURGE_RULE_H
#define COMMON_PURGE_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/age.h"
#include "common/conf.h"

/*
 * Which messages the rules of purge{} take (docs/design.md, "Purge"): for the sweeper, who applies them, and for quredis
 * stale, which tells what they would take. Pure.
 */
#define PURGE_DEEPEST 100000	/* entries: behind so many that stay nobody is taken out, since a server looks for him one by one */

/* Why an entry is purged. */
struct verdict {
	const char *class, *rule;	/* of the record; the limit's name */
	struct age_excess excess;
};

/* waits: in ingress. */
bool purge_judge(const struct conf_purge *limits, bool waits, const struct message *m, const struct age_clock *c, struct verdict *out);

/* The history of what is done: purge takes what the queue's own done.max_age leaves. */
bool purge_takes_done(const struct conf_queue *q);

/* What was written at this ms of the server or before is older than max_age_ms. false: its clock was set since, so that nothing is known to be */
bool purge_oldest(int64_t max_age_ms, const struct age_clock *c, int64_t *oldest_ms);

/* Records without a dead letter: where there is an archive they leave by that. */
static inline bool purge_takes_orphans(const struct conf_queue *q)
{
	return q->dead_letter.archive == NULL;
}

/* Nothing may be written before a message that others fetch, too, so nothing tells how long it waits: what is shared is not looked at. */
static inline bool purge_takes_messages(const struct conf_queue *q)
{
	return !q->shared;
}

#endif
