/* The rule of health, which the header states. Pure: health.c reads the figures, and reports the levels. */
#include "sweeper/report/health_rule.h"

static enum queue_health_level above(int64_t value, int64_t degraded, int64_t unhealthy)
{
	return value > unhealthy ? QUEUE_UNHEALTHY : value > degraded ? QUEUE_DEGRADED : QUEUE_HEALTHY;
}

/* Nine tenths of the limit, rounded up. The limits 0 and 1 stay as they are, so there only the number of looks
 * counts. */
static int64_t calm_limit(int64_t limit)
{
	return limit == HEALTH_NO_LIMIT ? limit : limit - limit / 10;
}

static void rise(struct health_check *c, int looks, enum queue_health_level to)
{
	c->falling = 0;
	if (++c->rising < looks)
		return;
	c->level = to;
	c->rising = 0;
}

static void fall(struct health_check *c, bool proven, enum queue_health_level to)
{
	c->rising = 0;
	c->allowed = c->falling == 0 || to > c->allowed ? to : c->allowed;
	if (++c->falling < HEALTH_CALM_LOOKS && !proven)
		return;
	c->level = c->allowed;
	c->falling = to < c->level;		/* this look is also the first good one for the next level */
	c->allowed = to;
}

int64_t health_rule_failure_rate(int64_t failed, int64_t attempts, int64_t least)
{
	if (attempts < 0)
		return -1;
	return attempts == 0 || attempts < least ? 0 : (failed * 100 + attempts - 1) / attempts;
}

bool health_rule_is_worse(const struct health_check *c, int64_t value, const struct health_limit *limit)
{
	return value >= 0 && above(value, limit->degraded, limit->unhealthy) > c->level;
}

bool health_rule_is_recovering(const struct health_check *c, int64_t value, const struct health_limit *limit)
{
	return value >= 0 && above(value, limit->degraded, limit->unhealthy) < c->level;
}

void health_rule_look(struct health_check *c, int64_t value, const struct health_limit *limit)
{
	enum queue_health_level wanted, allowed;

	if (value < 0)
		return;
	wanted = above(value, limit->degraded, limit->unhealthy);
	allowed = above(value, calm_limit(limit->degraded), calm_limit(limit->unhealthy));
	if (wanted > c->level)
		rise(c, limit->looks, wanted);
	else if (allowed < c->level)
		fall(c, limit->proven, allowed);
	else
		c->rising = c->falling = 0;
}

enum queue_health_level health_rule_worst(const struct health_check *checks, size_t n)
{
	enum queue_health_level worst = QUEUE_HEALTHY;

	for (size_t i = 0; i < n; i++)
		if (checks[i].level > worst)
			worst = checks[i].level;
	return worst;
}
