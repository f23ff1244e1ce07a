#ifndef SWEEPER_REPORT_HEALTH_RULE_H
#define SWEEPER_REPORT_HEALTH_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/queue/queue.h"

/*
 * The rule that decides whether a queue is healthy. Pure: figures and limits are parameters. Each figure has a level of
 * its own with hysteresis, so that a figure close to its limit does not make the status flap:
 *	worse	as soon as it exceeds a limit, or has exceeded it at so many looks in a row
 *	better	at the second look in a row at which it is no more than nine tenths of that limit (rounded up);
 *		then the new level is the worse of those that the two looks allow. Until then a figure that does not
 *		exceed the limit recovers. What an event ends for certain needs one look (`proven`)
 * An unknown figure leaves its level unchanged. The status of the queue is the worst level.
 */
#define HEALTH_CALM_LOOKS 2	/* looks in a row before a level becomes better */
#define HEALTH_NO_LIMIT INT64_MAX
struct health_limit {		/* a figure above it is bad; HEALTH_NO_LIMIT: no limit */
	int64_t degraded, unhealthy;
	int looks;			/* in a row, until it counts: 2 for what usually ends by itself */
	bool proven;			/* its end is: the first better look counts */
};

struct health_check {		/* zeroed: healthy */
	enum queue_health_level level;
	int rising, falling;		/* looks in a row that ask for a worse, a better level */
	enum queue_health_level allowed;	/* while falling: the worst level that these looks allow */
};

/* Percent, rounded up, so that it exceeds a limit if the rate does. 0: fewer attempts than `least`, which prove
 * nothing; -1: attempts are not known (-1). */
int64_t health_rule_failure_rate(int64_t failed, int64_t attempts, int64_t least);

/* True: a look with this value would ask for a worse level than the present one. */
bool health_rule_is_worse(const struct health_check *c, int64_t value, const struct health_limit *limit);

/* True: the figure does not exceed the limit of its level any more, and only the memory of the rule keeps the level. */
bool health_rule_is_recovering(const struct health_check *c, int64_t value, const struct health_limit *limit);

/* One look; value -1: not known. */
void health_rule_look(struct health_check *c, int64_t value, const struct health_limit *limit);

enum queue_health_level health_rule_worst(const struct health_check *checks, size_t n);

#endif
