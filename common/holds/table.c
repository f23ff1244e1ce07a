/* The words of each hold. Every list of states in the program is made from this one. */
#include <string.h>

#include "common/holds/holds.h"

const struct hold_words holds_table[HOLDS] = {
	[HOLD_NONE] = { "running", HOLD_WELL, "nobody", "never", "its workers fetch", NULL, NULL },
	[HOLD_QUIET] = { "quiet", HOLD_ORDERED, "an operator of this host", "with quredis quiet --off, or with the last worker of a queue that left",
	    "an operator stopped fetching on this host", "quredis quiet --off", NULL },
	[HOLD_PAUSED] = { "paused", HOLD_ORDERED, "an operator, in Redis", "with quredis resume",
	    "no worker fetches from it until it is resumed", NULL, NULL },
	[HOLD_RECOVERING] = { "recovering", HOLD_PASSING, "the sweeper", "when the messages of dead workers are back in ingress",
	    "the sweeper returns messages of dead workers", "wait; if it lasts, the supervisor's log says why", NULL },
	[HOLD_BREAKER] = { "breaker", HOLD_BAD, "its workers", "when its handler answers",
	    "its handler cannot be executed, or failed too often in a row; workers try one message at a time",
	    "try the handler on a message: quredis run ", " --from ingress; workers also keep trying it" },
	[HOLD_NO_WORKER] = { "no worker", HOLD_BAD, "the master", "when the master starts the next worker",
	    "no worker lives; the supervisor starts the next one", "the supervisor's log, events worker_died and worker_exited, says why workers end", NULL },
	[HOLD_ERROR] = { "error", HOLD_BAD, "its workers and the sweeper", "when Redis accepts the command",
	    "a part of its work fails: a key of the wrong type, a missing right, or an archive that cannot be written",
	    "the supervisor's log says what failed and what to do: events queue_error, redis_error, redis_down, schema_refused", NULL },
	[HOLD_NO_REDIS] = { "no redis", HOLD_BAD, "its workers and the sweeper", "when Redis answers",
	    "its workers cannot reach Redis, or Redis refuses their commands",
	    "see the other findings, and the events redis_error and queue_error in the supervisor's log", NULL },
	[HOLD_BACKOFF] = { "backoff", HOLD_WARNING, "the master", "after 30 seconds without a death",
	    "its workers die; the supervisor waits longer before each start",
	    "the supervisor's log, event worker_died, says why workers die", NULL },
	[HOLD_QUARANTINE] = { "quarantine", HOLD_BAD, "the master", "when a worker finishes a message, or lives for 30 seconds",
	    "its workers keep dying; the supervisor starts one each minute",
	    "the supervisor's log, event worker_died, says why workers die; correct that, then quredis restart ", "" },
};

enum hold holds_by_name(const char *name)
{
	int hold = HOLD_NONE;

	while (hold < HOLDS && (name == NULL || strcmp(holds_table[hold].name, name) != 0))
		hold++;
	return (enum hold)hold;
}
