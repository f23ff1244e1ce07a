#ifndef COMMON_QUEUE_PURGE_WALK_H
#define COMMON_QUEUE_PURGE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue/moves.h"
#include "common/queue/purge_rule.h"
#include "common/redis/redis.h"

/*
 * A walk over the messages that the rules of purge{} may take: through ingress from the pop end, or through delayed in the
 * order of the due times. A page has the beginnings of the entries, which contain their times. The sweeper purges on its way,
 * and `quredis stale` counts. The caller moves the cursor over the entries that stay in the list.
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
int purge_walk_read(const struct redis_reply *reply, struct purge_page *page);	/* takes its answer. -1: unexpected reply type */

/* Parses the i-th entry of the page, counted in the direction of the walk. Returns whether it is too old; *v: by which rule. */
bool purge_walk_judge(const struct purge_walk *w, const struct purge_page *page, size_t i, const struct age_clock *clock, struct message *m,
    struct verdict *verdict);

#endif
