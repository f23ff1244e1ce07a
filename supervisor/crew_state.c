/*
 * One state and one reason for each queue, out of what policy, scoreboard and operator say: of several
 * the one that a person must know first.
 */
#include <stddef.h>

#include "common/dead.h"
#include "supervisor/crew.h"
#include "supervisor/master.h"

const char *const crew_state_names[] = {
	[CREW_RUNNING] = "running",
	[CREW_PAUSED] = "paused",
	[CREW_QUIET] = "quiet",
	[CREW_BACKOFF] = "backoff",
	[CREW_QUARANTINE] = "quarantine",
	[CREW_BREAKER] = "breaker",
	[CREW_RECOVERING] = "recovering",
	[CREW_NO_REDIS] = "no redis",
	[CREW_ERROR] = "error",
};

/* The state and the reason that status shows for each kind of error. "no redis": nothing of the queue works; "error": a part of it fails. */
static const struct {
	enum crew_state state;
	const char *reason;
} troubles[] = {
	[TROUBLE_NO_REDIS] = { CREW_NO_REDIS, "no connection to Redis" },
	[TROUBLE_WRONG_TYPE] = { CREW_ERROR, "one of its keys has the wrong type" },
	[TROUBLE_NO_PERMISSION] = { CREW_ERROR, "Redis refuses password or permission" },
	[TROUBLE_EVICTION] = { CREW_NO_REDIS, "maxmemory-policy may evict queues" },
	[TROUBLE_STORM] = { CREW_NO_REDIS, "Redis refuses commands for now" },
	[TROUBLE_ARCHIVE] = { CREW_ERROR, "the archive of its dead letters cannot be read or written" },
	[TROUBLE_OTHER] = { CREW_ERROR, "Redis answers with an error" },
};

const char *crew_undecided(const struct master *m, const struct crew *c)
{
	uint32_t word = atomic_load(&m->board->queues[c - m->crews].undecided);

	return word == 0 ? NULL : doubt_text((enum doubt)(word - 1));
}

const char *crew_aside(const struct master *m, const struct crew *c)
{
	const struct board_queue *q = &m->board->queues[c - m->crews];

	if (atomic_load(&q->aside) == 0)
		return NULL;
	switch ((enum queue_trouble)atomic_load(&q->aside_why)) {
	case TROUBLE_WRONG_TYPE:
		return "messages are set aside: a key they go to has the wrong type";
	case TROUBLE_NO_PERMISSION:
		return "messages are set aside: Redis refuses the permission to move them";
	default:
		return "messages are set aside: Redis refuses to move them";
	}
}

/* Every worker of it lost its connection. */
static bool is_cut_off(const struct master *m, const struct crew *c)
{
	bool any = false;

	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid == 0 || p->kind != PROC_WORKER || &m->crews[p->crew] != c || p->leaving)
			continue;
		if (!atomic_load(&m->board->slots[slot].redis_down))
			return false;
		any = true;
	}
	return any;
}

static enum crew_state judge_trouble(const struct master *m, const struct crew *c, const char **reason)
{
	const struct board_queue *q = &m->board->queues[c - m->crews];
	enum queue_trouble trouble = board_trouble(q);
	bool known = trouble > TROUBLE_NONE && trouble < TROUBLE_LEFTOVERS;

	if (is_cut_off(m, c) || atomic_load(&q->gate) == QUEUE_REFUSED) {
		*reason = troubles[known ? trouble : is_cut_off(m, c) ? TROUBLE_NO_REDIS : TROUBLE_OTHER].reason;
		return CREW_NO_REDIS;
	}
	if (!known)
		return CREW_RUNNING;
	*reason = troubles[trouble].reason;
	return troubles[trouble].state;
}

static enum crew_state judge_gate(const struct master *m, const struct crew *c, const char **reason)
{
	const struct board_queue *q = &m->board->queues[c - m->crews];

	switch (atomic_load(&q->gate)) {
	case QUEUE_RECOVERING:
		*reason = atomic_load(&q->trouble) == TROUBLE_LEFTOVERS ? "processes of a dead supervisor are being killed" :
		    "messages of dead workers are being returned";
		return CREW_RECOVERING;
	case QUEUE_PAUSED:
		*reason = "paused in Redis";
		return CREW_PAUSED;
	default:
		return CREW_RUNNING;
	}
}

/* The queue runs, but an operator should know about this. NULL: nothing. */
static const char *reason_to_warn(const struct master *m, const struct crew *c)
{
	const char *undecided = crew_undecided(m, c);

	if (undecided != NULL)
		return undecided;
	if (crew_aside(m, c) != NULL)
		return crew_aside(m, c);
	if (crew_wanted(c) == 0)
		return c->scaled == 0 ? "scaled to no workers, until a reload" : "no workers are configured";
	return atomic_load(&m->board->leftovers) > 0 ? "processes of a dead supervisor could not be killed: its messages may run twice" : NULL;
}

enum crew_state crew_judge(const struct master *m, const struct crew *c, const char **reason)
{
	enum crew_state state;

	if (c->policy.state == POLICY_QUARANTINE) {
		*reason = "its workers died ten times in five minutes, no message done; one is tried each minute";
		return CREW_QUARANTINE;
	}
	if (c->policy.state == POLICY_BACKOFF) {
		*reason = "its workers died five times in thirty seconds";
		return CREW_BACKOFF;
	}
	state = judge_trouble(m, c, reason);
	if (state != CREW_RUNNING)
		return state;
	if (atomic_load(&m->board->queues[c - m->crews].breaker_step) > 0) {
		*reason = "its handler cannot be executed, or failed too often in a row";
		return CREW_BREAKER;
	}
	state = judge_gate(m, c, reason);
	if (state != CREW_RUNNING)
		return state;
	if (m->quiet || c->quiet || c->conf == NULL) {
		*reason = c->conf == NULL ? "left the configuration" : "told to fetch nothing";
		return CREW_QUIET;
	}
	*reason = reason_to_warn(m, c);
	return CREW_RUNNING;
}
