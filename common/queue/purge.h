#ifndef COMMON_QUEUE_PURGE_H
#define COMMON_QUEUE_PURGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/message/message.h"
#include "common/queue/moves.h"
#include "common/redis/redis.h"

/*
 * The rules of purge{}, which decide the messages to take (docs/design.md, "Purge"). The sweeper applies them, and
 * quredis stale counts the messages that they would take.
 */
/* a walk ends after so many entries that stay: the server reaches deeper ones entry by entry */
#define PURGE_DEEPEST 100000

/* The reason why an entry is purged. */
struct verdict {
	const char *class, *rule;	/* the class of the record, and the name of the limit */
	struct age_excess excess;
};

/* waits: the message lies in ingress. */
bool purge_judge(const struct conf_purge *limits, bool waits, const struct message *m, const struct age_clock *c,
    struct verdict *out);

/*
 * True: purge takes entries of the history, because done.max_age of the queue would keep them longer, or because the
 * queue keeps no history any more.
 */
bool purge_takes_done(const struct conf_queue *q);

/*
 * Entries written at *oldest_ms, by the clock of Redis, or before are older than max_age_ms. false: the clock was set
 * since then, so no age is certain
 */
bool purge_oldest(int64_t max_age_ms, const struct age_clock *c, int64_t *oldest_ms);

/* True: purge takes records without a dead letter. If there is an archive, bounds remove them instead, after writing
 * them to it. */
bool purge_takes_orphans(const struct conf_queue *q);

/*
 * True: purge takes messages. False for a shared queue: other programs fetch from it, too, so quredis writes no time
 * before its messages, and does not know how long they wait.
 */
bool purge_takes_messages(const struct conf_queue *q);

/*
 * A walk over the messages that the rules of purge{} may take: through ingress from the pop end, or through delayed in
 * the order of the due times. A page has the beginnings of the entries, which contain their times. The sweeper purges
 * on its way, and `quredis stale` counts. The caller moves the cursor over the entries that stay in the list.
 */
#define PURGE_PAGE 100		/* entries in a page; fewer if they are large */

struct purge_walk {
	const struct queue_keys *keys;
	const struct conf_purge *limits;
	bool delayed;
	int64_t cursor;		/* entries that the walk has passed */
};

struct purge_page {
	struct redis_reply entries;
	size_t n;
	bool last;		/* no entry follows it */
	int64_t server_ms;	/* when Redis read it */
};

void purge_walk_ask(struct redis *r, const struct purge_walk *w);		/* requests the page at the cursor */
/* takes its answer. -1: unexpected reply type */
int purge_walk_read(const struct redis_reply *reply, struct purge_page *page);

/* Parses the i-th entry of the page, counted in the direction of the walk. True: it is too old; *verdict has the
 * rule. */
bool purge_walk_judge(const struct purge_walk *w, const struct purge_page *page, size_t i,
    const struct age_clock *clock, struct message *m, struct verdict *verdict);

#endif
