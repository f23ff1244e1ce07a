#ifndef SUPERVISOR_CREW_H
#define SUPERVISOR_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "common/conf.h"
#include "common/scoreboard.h"
#include "supervisor/policy.h"

struct master;

/* The one state a queue has, and why (crew_state.c). */
enum crew_state {
	CREW_RUNNING, CREW_PAUSED, CREW_QUIET, CREW_BACKOFF, CREW_QUARANTINE, CREW_BREAKER, CREW_RECOVERING, CREW_NO_REDIS, CREW_ERROR
};
extern const char *const crew_state_names[];	/* "running", "paused", … */

/*
 * The workers of one queue: how many there are to be, and what the dead ones left. A queue that comes back, or gets
 * other keys, is a new crew with a place of its own on the scoreboard: a sweeper of before may still write on the old one.
 */
struct crew {
	char name[65];
	const struct conf_queue *conf;	/* NULL: left the configuration, its last workers finish */
	int heir;			/* the crew that goes on with the queue's totals; -1: none */
	unsigned left_epoch;		/* sweepers up to this one know it */
	int staff;			/* workers alive that are not leaving; <= SCOREBOARD_SLOTS */
	int leaving;			/* those that are */
	bool quiet;			/* told so on the control socket */
	int scaled;			/* told there how many there are to be, until a reload; -1: as configured */
	struct policy policy;
	uint32_t handler_generation;	/* as in board_queue; raised each time the workers are replaced */
	uint64_t done_seen;		/* workers_done at the last look */
	uint64_t restarts;		/* workers spawned in place of dead ones */
	int owed;			/* dead ones not replaced yet */
	enum crew_state state;
	const char *reason;		/* static; NULL: none */
};

struct crew *crew_find(struct master *m, const char *name);	/* NULL: none, or left the configuration */

/* The queue enters the configuration, again or for the first time. NULL: there are too many. */
struct crew *crew_enter(struct master *m, const struct conf_queue *conf);

/* It leaves: its workers finish; those that did so already hand back. */
void crew_leave(struct master *m, struct crew *c, int64_t now_ms);

/* All its workers are replaced: new ones first, then the old ones finish. Those still finishing from
 * the time before hand back: at most one draining generation. */
void crew_recycle(struct master *m, struct crew *c, int64_t now_ms);

void crew_dismiss(struct master *m, int slot, int64_t now_ms);	/* one worker leaves (staff.c gives the order) */

/* Time passes: successes are seen, states change and are logged. */
void crews_look(struct master *m, int64_t now_ms);

void crew_see_success(struct master *m, struct crew *c);	/* before its policy is asked or told */
void crew_order_all(struct master *m, struct crew *c, int64_t now_ms);	/* RUN or QUIET, as it stands */

int crew_wanted(const struct crew *c);
int crew_wanted_by_others(const struct master *m, const struct crew *c);	/* in all other queues together */
int crew_root(const struct master *m, int crew);		/* itself, or the heir of its heirs */
enum crew_state crew_judge(const struct master *m, const struct crew *c, const char **reason);
const char *crew_aside(const struct master *m, const struct crew *c);	/* why messages were set aside; NULL: none is */
const char *crew_undecided(const struct master *m, const struct crew *c);	/* why a silent worker cannot be proven dead; static; NULL: there is no such worker */

#endif
