/* When silence is death. Pure: looks, clocks and pulses come in; nothing is asked here. */
#include <string.h>

#include <bsd/string.h>

#include "common/dead.h"

void calm_broken(struct calm *c)
{
	*c = (struct calm){0};
}

static int64_t distance(int64_t a, int64_t b)
{
	return a > b ? a - b : b - a;
}

/* Between two pulses all owners could renew, if neither we nor the server stood still and no clock was set. */
static bool goes_on(const struct calm *c, const struct pulse *p, int64_t lease_ms)
{
	int64_t ours = p->boottime_ms - c->since_boottime_ms, theirs = p->server_ms - c->since_server_ms;
	int64_t step = p->boottime_ms - c->last_boottime_ms, their_step = p->server_ms - c->last_server_ms;

	return c->since_boottime_ms != 0 && c->connection == p->connection && strcmp(c->run_id, p->run_id) == 0 &&
	       step <= lease_ms / 2 && distance(step, their_step) <= lease_ms / 8 && distance(ours, theirs) <= lease_ms / 8;
}

void calm_pulse(struct calm *c, const struct pulse *p, int64_t lease_ms)
{
	if (p->run_id[0] == '\0') {
		calm_broken(c);
		return;
	}
	if (!goes_on(c, p, lease_ms)) {
		c->since_boottime_ms = p->boottime_ms;
		c->since_server_ms = p->server_ms;
		c->connection = p->connection;
		strlcpy(c->run_id, p->run_id, sizeof(c->run_id));
	}
	c->last_boottime_ms = p->boottime_ms;
	c->last_server_ms = p->server_ms;
}

/* A look from before the calm counts for nothing: this one is the first then. */
bool dead_missed(struct absence *a, int64_t asked_ms, int64_t answered_ms, int64_t patience_ms)
{
	if (a->calm.since_boottime_ms == 0 || a->since_ms < a->calm.since_boottime_ms) {
		a->since_ms = answered_ms;
		return false;
	}
	return asked_ms - a->since_ms >= patience_ms;
}
