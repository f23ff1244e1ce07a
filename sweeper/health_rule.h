#ifndef SWEEPER_HEALTH_RULE_H
#define SWEEPER_HEALTH_RULE_H

#include <stdint.h>

/*
 * When a queue is healthy. Pure: figures and limits come in. Each figure has a level of its own with
 * hysteresis, so that one that moves about its limit does not make the status flap:
 *	worse	as soon as it is above a limit; ORPHANS, which rescue sees to by itself, at the second look in a row
 *	better	at the second look in a row at which it is no more than nine tenths of that limit (rounded up);
 *		then to the worse of what the two allow
 * A figure that is not known leaves its level as it is. The queue's status is the worst level.
 */
enum health_status { HEALTH_HEALTHY, HEALTH_DEGRADED, HEALTH_UNHEALTHY };

enum health_code {
	HEALTH_INGRESS, HEALTH_TRANSIT, HEALTH_DEAD_LETTERS, HEALTH_STUCK,	/* messages */
	HEALTH_ORPHANS,		/* registrations without a lease, and messages nobody owns */
	HEALTH_PAUSED,		/* ms */
	HEALTH_BREAKER,		/* 1: it is open */
	HEALTH_TROUBLE,		/* 1: Redis refuses something of this queue */
	HEALTH_ARCHIVE,		/* 1: dead letters are to leave, and the archive takes none */
	HEALTH_BOUNDS,		/* 1: there are more of them than bounds allow, and nothing that lets them be removed */
	HEALTH_LEFTOVERS,	/* processes of a dead supervisor that could not be ended */
	HEALTH_ASIDE,		/* messages that Redis refused to move */
	HEALTH_CODES
};
extern const char *const health_code_names[HEALTH_CODES];	/* "ingress", "dead_letters", … */

#define HEALTH_NO_LIMIT INT64_MAX
struct health_limit {		/* above: bad; HEALTH_NO_LIMIT: never */
	int64_t degraded, unhealthy;
};

struct health_check {		/* zeroed: healthy */
	enum health_status level;
	int rising, falling;		/* looks in a row that want it worse, better */
	enum health_status allowed;	/* falling: the worst that these allow */
};

/* One look; value -1: not known. */
void health_look(struct health_check *c, enum health_code code, int64_t value, const struct health_limit *limit);

enum health_status health_worst(const struct health_check checks[HEALTH_CODES]);

#endif
