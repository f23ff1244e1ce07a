/*
 * Waiting for Redis, for callers that may wait: the sweeper and the command line.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

#include "common/redis/redis.h"

#include "common/base/base.h"

#define RESOLVE_LOOK_MS 500		/* the longest wait for a resolver at a time */

/* How long to wait: the limit begins anew with each sign of life. */
struct limit {
	int64_t timeout_ms, until_ms;
	uint64_t progress;
};

static struct limit limit_from_now(const struct redis *r, int64_t timeout_ms)
{
	return (struct limit){ timeout_ms, clock_monotonic_ms() + timeout_ms, r->progress };
}

/* To resolve a name has a limit of its own, and the caller hears of orders and writes its heartbeat meanwhile. */
static int64_t left_ms(const struct redis *r, const struct limit *limit, int64_t now_ms)
{
	int64_t left = limit->until_ms - now_ms;

	if (!redis_resolves(r))
		return left;
	if (left > RESOLVE_LOOK_MS)
		left = RESOLVE_LOOK_MS;
	return r->deadline_ms - now_ms < left ? r->deadline_ms - now_ms : left;
}

/* Waits for one event. -1: closed or interrupted. */
static int wait_turn(struct redis *r, struct limit *limit, bool (*interrupted)(void))
{
	int64_t now = clock_monotonic_ms();
	int64_t left = left_ms(r, limit, now);
	struct timespec ts = { .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	bool resolved = redis_resolves(r);
	struct pollfd p;

	if (left <= 0 && !resolved)
		return redis_fail_late(r);
	if (left <= 0)
		ts = (struct timespec){0};
	if (!redis_pollfd(r, &p))
		return -1;
	if (ppoll(&p, 1, &ts, r->poll_mask) == -1 && errno != EINTR)
		return redis_fail(r, strerror(errno), REDIS_ERROR_LOST);
	if (interrupted != NULL && interrupted())
		return redis_fail(r, "interrupted", REDIS_ERROR_NONE);
	now = clock_monotonic_ms();
	if (redis_pump(r, now) == -1)
		return -1;
	if (resolved || r->progress != limit->progress)
		*limit = (struct limit){ limit->timeout_ms, now + limit->timeout_ms, r->progress };
	return 0;
}

static int wait_until_open(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void))
{
	struct limit limit = limit_from_now(r, timeout_ms);

	while (r->state == REDIS_OPENING)
		if (wait_turn(r, &limit, interrupted) == -1)
			return -1;
	return 0;
}

static int connect_once(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void))
{
	if (r->state == REDIS_CLOSED && redis_open(r, clock_monotonic_ms()) == -1)
		return -1;
	return wait_until_open(r, timeout_ms, interrupted);
}

int redis_connect_beside(struct redis *r, const struct redis *other, int64_t timeout_ms, bool (*interrupted)(void))
{
	return redis_open_beside(r, other, clock_monotonic_ms()) == -1 ? -1
	    : wait_until_open(r, timeout_ms, interrupted);
}

/* Another server of the list may be healthy. Users, passwords and keys are the same there. */
static bool may_pass_elsewhere(enum redis_error_class class)
{
	return class == REDIS_ERROR_LOST || class == REDIS_ERROR_TRANSIENT || class == REDIS_ERROR_UNKNOWN;
}

int redis_connect(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void))
{
	int64_t until_ms = clock_monotonic_ms() + timeout_ms;
	size_t addresses = r->target->naddresses;

	while (connect_once(r, timeout_ms, interrupted) == -1)
		if (addresses-- <= 1 || !may_pass_elsewhere(r->error_class) || clock_monotonic_ms() >= until_ms)
			return -1;
	return 0;
}

int redis_find_master(struct redis *r, int64_t timeout_ms, bool (*interrupted)(void))
{
	int rc;

	r->finds_master = true;
	rc = connect_once(r, timeout_ms, interrupted);
	redis_close(r, NULL);
	return rc;
}

int redis_connect_sentinel(struct redis *r, size_t sentinel, int64_t timeout_ms, bool (*interrupted)(void))
{
	route_prefer(&r->route, r->target, sentinel);
	r->stays = true;
	return connect_once(r, timeout_ms, interrupted);
}

int64_t redis_wait_begin(struct redis *r, size_t wanted, const char **begin, int64_t timeout_ms,
    bool (*interrupted)(void))
{
	struct limit limit = limit_from_now(r, timeout_ms);
	struct redis_reply whole;
	size_t arrived;
	int64_t len;

	if (redis_pump(r, clock_monotonic_ms()) == -1)
		return -1;
	while (redis_take(r, &whole) == 0) {
		len = redis_arriving(r, begin, &arrived);
		if (len != -1 && arrived >= wanted)
			return len;
		if (wait_turn(r, &limit, interrupted) == -1)
			return -1;
	}
	return -1;
}

int redis_wait(struct redis *r, struct redis_reply *reply, int64_t timeout_ms, bool (*interrupted)(void))
{
	struct limit limit = limit_from_now(r, timeout_ms);
	int rc;

	if (redis_pump(r, clock_monotonic_ms()) == -1)
		return -1;
	while ((rc = redis_take(r, reply)) == 0)
		if (wait_turn(r, &limit, interrupted) == -1)
			return -1;
	return rc == 1 ? 0 : -1;
}
