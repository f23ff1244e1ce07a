#ifndef SWEEPER_REPORT_HEALTH_RULE_H
#define SWEEPER_REPORT_HEALTH_RULE_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The rule that decides whether a queue is healthy. Pure: figures and limits are parameters. Each figure has a level of its own
 * with hysteresis, so that a figure close to its limit does not make the status flap:
 *	worse	as soon as it exceeds a limit; ORPHANS, which a rescue usually clears by itself, at the second look in a row
 *	better	at the second look in a row at which it is no more than nine tenths of that limit (rounded up);
 *		then the new level is the worse of those that the two looks allow
 * An unknown figure leaves its level unchanged. The status of the queue is the worst level.
 */
enum health_status { HEALTH_HEALTHY, HEALTH_DEGRADED, HEALTH_UNHEALTHY };

enum health_code {
	HEALTH_INGRESS, HEALTH_TRANSIT, HEALTH_DEAD_LETTERS, HEALTH_STUCK,	/* messages */
	HEALTH_DELAYED,		/* messages */
	HEALTH_OLDEST_AGE,	/* ms: of the oldest message in ingress */
	HEALTH_GROWTH,		/* ms: for so long more messages have come than left; growth_ms() */
	HEALTH_FAILURES,	/* percent of the attempts that failed, rounded up: health_rule_failure_rate() */
	HEALTH_ORPHANS,		/* registrations without a lease, and messages without a living owner */
	HEALTH_PAUSED,		/* ms */
	HEALTH_BREAKER,		/* 1: it is open */
	HEALTH_ERROR,		/* 1: Redis refuses something of this queue */
	HEALTH_ARCHIVE,		/* 1: dead letters must leave, and the archive accepts none */
	HEALTH_BOUNDS,		/* 1: there are more dead letters than the bounds allow, and nothing can remove them */
	HEALTH_LEFTOVERS,	/* processes of a dead supervisor that did not die */
	HEALTH_ASIDE,		/* messages that Redis refused to move */
	HEALTH_CODES
};
extern const char *const health_code_names[HEALTH_CODES];	/* "ingress", "dead_letters", … */

#define HEALTH_NO_LIMIT INT64_MAX
struct health_limit {		/* a figure above it is bad; HEALTH_NO_LIMIT: no limit */
	int64_t degraded, unhealthy;
};

struct health_check {		/* zeroed: healthy */
	enum health_status level;
	int rising, falling;		/* looks in a row that ask for a worse, a better level */
	enum health_status allowed;	/* while falling: the worst level that these looks allow */
};

/* Percent, rounded up, so that it exceeds a limit if the rate does. 0: fewer attempts than `least`, which prove nothing; -1: attempts are not known (-1). */
int64_t health_rule_failure_rate(int64_t failed, int64_t attempts, int64_t least);

/* True: a look with this value would ask for a worse level than the present one. */
bool health_rule_is_worse(const struct health_check *c, int64_t value, const struct health_limit *limit);

/* One look; value -1: not known. */
void health_look(struct health_check *c, enum health_code code, int64_t value, const struct health_limit *limit);

enum health_status health_worst(const struct health_check checks[HEALTH_CODES]);

#endif
