#ifndef ADMIN_STALE_H
#define ADMIN_STALE_H

#include <stddef.h>
#include <stdint.h>

#include "admin/admin.h"

#include "common/purge_rule.h"

/*
 * What the rules of purge{} would take of a queue, as the sweeper who leads it looks at it: by the same judgement
 * (common/purge_rule.h), and with what he knows of the server's clock. Nothing is written. Of lists that change meanwhile it
 * is an estimate.
 */
enum stale_rule { STALE_INGRESS, STALE_MESSAGE, STALE_DELAYED, STALE_DONE, STALE_RECORDS, STALE_RULES };

struct stale_count {
	int64_t count;
	int64_t oldest_ms;	/* age; of none 0 */
};

struct stale {
	struct queue_keys keys;
	const struct conf_queue *conf;
	char *leader;			/* the node whose sweeper applies the rules; NULL: nobody does */
	struct age_clock clock;		/* as the leader says; without a leader times count as they are */
	unsigned looked;		/* 1u << rule: it applies to this queue, and was looked at */
	struct stale_count counts[STALE_RULES];
	char *error;			/* this queue cannot be read; NULL: it can */
};

static inline void stale_add(struct stale_count *to, int64_t count, int64_t oldest_ms)
{
	to->count += count;
	if (count > 0 && oldest_ms > to->oldest_ms)
		to->oldest_ms = oldest_ms;
}

/* Each returns -1 after admin_fail(), and stops where it is when it is interrupted. */
int stale_waiting(struct admin *a, struct stale *s);	/* stale_waiting.c: ingress and delayed */
int stale_done(struct admin *a, struct stale *s);	/* stale_records.c */
int stale_records(struct admin *a, struct stale *s);

#endif
