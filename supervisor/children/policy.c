/*
 * The crash policy: how long to wait before a dead child is replaced, and when a queue gets no more than one worker a
 * minute as a probe. No state is permanent. The caller forks and counts the children.
 */
#include <assert.h>
#include <stdbool.h>

#include "supervisor/children/policy.h"

#define EVENT_MS 1000			/* deaths this close together have one cause */
#define DELAY_MS 500
#define DELAY_MAX_MS 60000
#define BACKOFF_EVENTS 5
#define BACKOFF_WINDOW_MS 30000
#define BACKOFF_DELAY_MS 8000		/* the shortest delay in backoff, also after a success */
#define QUARANTINE_WINDOW_MS 300000
#define PROBE_MS 60000
#define TRICKLE_MS 1000			/* between spawns when the last ones died in a row */

int64_t policy_delay_ms(int n, double chance)
{
	int64_t delay = DELAY_MS;

	while (n-- > 1 && delay < DELAY_MAX_MS)
		delay *= 2;
	if (delay > DELAY_MAX_MS)
		delay = DELAY_MAX_MS;
	return delay - (int64_t)(chance * (double)delay / 2);
}

/* When the nth last event began; 1 is the last. */
static int64_t nth_last(const struct policy *p, uint64_t n)
{
	return p->event_ms[(p->events - n) % POLICY_EVENTS];
}

static bool crowded(const struct policy *p, uint64_t n, int64_t window_ms, int64_t now_ms)
{
	return p->events >= n && now_ms - nth_last(p, n) <= window_ms;
}

/* The one place where the state changes. policy.h draws the transitions. */
static void set_state(struct policy *p, enum policy_state to)
{
	static const bool legal[][3] = {
		[POLICY_NORMAL] = { [POLICY_BACKOFF] = true, [POLICY_QUARANTINE] = true },
		[POLICY_BACKOFF] = { [POLICY_NORMAL] = true, [POLICY_QUARANTINE] = true },
		[POLICY_QUARANTINE] = { [POLICY_NORMAL] = true },
	};

	if (to == p->state)
		return;
	assert(legal[p->state][to]);
	p->state = to;
}

static void judge_state(struct policy *p, int64_t now_ms)
{
	if (p->failures >= POLICY_EVENTS && crowded(p, POLICY_EVENTS, QUARANTINE_WINDOW_MS, now_ms))
		set_state(p, POLICY_QUARANTINE);
	else if (p->state == POLICY_NORMAL && crowded(p, BACKOFF_EVENTS, BACKOFF_WINDOW_MS, now_ms))
		set_state(p, POLICY_BACKOFF);
}

void policy_death(struct policy *p, int64_t spawned_ms, int64_t now_ms, double chance)
{
	int64_t delay;

	if (p->events > 0 && now_ms - nth_last(p, 1) < EVENT_MS && spawned_ms < nth_last(p, 1))
		return;			/* the same event */
	p->event_ms[p->events++ % POLICY_EVENTS] = now_ms;
	p->streak++;
	if (p->failures < POLICY_EVENTS)
		p->failures++;
	assert(p->failures == (p->streak < POLICY_EVENTS ? p->streak : POLICY_EVENTS) &&
	    (uint64_t)p->streak <= p->events);
	judge_state(p, now_ms);
	delay = policy_delay_ms(p->streak, chance);
	if (p->state == POLICY_QUARANTINE)
		delay = PROBE_MS;
	else if (p->state == POLICY_BACKOFF && delay < BACKOFF_DELAY_MS)
		delay = BACKOFF_DELAY_MS;
	p->next_spawn_ms = now_ms + delay;
}

void policy_reset(struct policy *p)
{
	*p = (struct policy){0};
}

void policy_success(struct policy *p)
{
	p->streak = 0;
	p->failures = 0;
	if (p->state != POLICY_QUARANTINE)
		return;
	set_state(p, POLICY_NORMAL);
	p->next_spawn_ms = 0;
}

void policy_tick(struct policy *p, size_t alive, int64_t now_ms)
{
	int64_t since = p->last_spawn_ms;

	if (p->events == 0)
		return;
	if (since < nth_last(p, 1))
		since = nth_last(p, 1);
	if (p->state == POLICY_BACKOFF && now_ms - nth_last(p, 1) >= BACKOFF_WINDOW_MS)
		set_state(p, POLICY_NORMAL);
	if (alive > 0 && p->failures > 0 && now_ms - since >= POLICY_ALIVE_MS)
		policy_success(p);
}

size_t policy_allowed(const struct policy *p, size_t alive, size_t wanted, int64_t now_ms)
{
	if (alive >= wanted || now_ms < p->next_spawn_ms)
		return 0;
	if (p->state == POLICY_QUARANTINE)
		return alive == 0 ? 1 : 0;
	return p->streak >= 2 ? 1 : wanted - alive;
}

void policy_spawned(struct policy *p, int64_t now_ms)
{
	p->last_spawn_ms = now_ms;
	if (p->state == POLICY_QUARANTINE)
		p->next_spawn_ms = now_ms + PROBE_MS;
	else if (p->streak >= 2)
		p->next_spawn_ms = now_ms + TRICKLE_MS;
}
