/* The words of each hold. Every list of states in the program is made from this one. */
#include <string.h>

#include "common/holds/holds.h"

const char *const hold_level_names[HOLD_LEVELS] =
    { [HOLD_WELL] = "well", [HOLD_ORDERED] = "ordered", [HOLD_PASSING] = "passing",
    [HOLD_WARNING] = "warning", [HOLD_BAD] = "bad" };

const struct hold_words holds_table[HOLDS] = {
	[HOLD_NONE] = { .name = "running", .level = HOLD_WELL, .setter = "no process", .end = "a hold is set",
	    .text = "its workers fetch" },
	[HOLD_THROTTLED] = { .name = "throttled", .level = HOLD_ORDERED, .setter = "its limits",
	    .end = "they allow the next start",
	    .text = "messages wait until its limits allow the next start",
	    .advice = "wait, or raise rate, burst or max_in_flight of the queue or of its throttle" },
	[HOLD_QUIET] = { .name = "quiet", .level = HOLD_ORDERED,
	    .setter = "an operator of this host", .end = "quredis quiet --off", .shut = true,
	    .text = "an operator stopped fetching on this host",
	    .code = "quiet", .patience = PATIENCE_OF_A_PAUSE, .over = "the queue is not quiet",
	    .advice = "quredis quiet ", .after = " --off; if all queues are quiet: quredis quiet --off" },
	[HOLD_DRAINING] = { .name = "draining", .level = HOLD_ORDERED, .setter = "the master",
	    .end = "its workers have finished", .shut = true,
	    .text = "its workers finish what they run, and fetch nothing more",
	    .code = "draining", .patience = PATIENCE_OF_A_PAUSE, .over = "the queue does not drain",
	    .advice = "wait; supervisor.drain_timeout limits it" },
	[HOLD_PAUSED] = { .name = "paused", .level = HOLD_ORDERED, .setter = "an operator", .end = "quredis resume",
	    .shut = true, .text = "no worker fetches from it until it is resumed",
	/* the row HEALTH_PAUSED judges its time; patience only decides when a look is due */
	    .code = "paused", .patience = PATIENCE_OF_A_PAUSE },
	[HOLD_HELD] = { .name = "held", .level = HOLD_PASSING, .setter = "its handler",
	    .end = "the time that the handler named, or quredis resume", .shut = true,
	    .text = "its handler asked that no message starts for a while",
	    .code = "paused", .patience = PATIENCE_OF_A_PAUSE,
	    .advice = "wait; quredis resume ", .after = " ends it" },
	[HOLD_RECOVERING] = { .name = "recovering", .level = HOLD_PASSING,
	    .setter = "the sweeper", .end = "the messages of dead workers are back in ingress", .shut = true,
	    .text = "the sweeper returns messages of dead workers",
	    .code = "recovering", .patience = PATIENCE_OF_A_PAUSE, .over = "the messages of dead workers are back",
	    .advice = "wait; if it lasts, the supervisor's log says why" },
	[HOLD_LOADING] = { .name = "loading", .level = HOLD_PASSING, .setter = "its workers",
	    .end = "a handler says READY", .shut = true, .text = "its handler loads, and is not ready yet",
	    .code = "loading", .patience = PATIENCE_OF_A_PAUSE, .over = "its handler is ready",
	    .advice = "wait; start_timeout limits it" },
	[HOLD_BREAKER] = { .name = "breaker", .level = HOLD_BAD, .setter = "its workers", .end = "its handler answers",
	    .text = "its handler cannot be executed, or failed too often in a row; workers try one message at a time",
	    .code = "breaker", .over = "the breaker is closed",
	    .advice = "try the handler on a message: quredis run ",
	    .after = " --from ingress; workers also keep trying it" },
	[HOLD_NO_PROCESS] = { .name = "no process", .level = HOLD_BAD, .setter = "its workers",
	    .end = "a worker can start its handler",
	    .text = "the host has no process, descriptor or memory to start its handler; workers keep trying",
	    .code = "no_process", .unhealthy = true, .over = "its handler can be started",
	    .advice = "raise the limit that the reason names, or lower workers; quredis then goes on by itself" },
	[HOLD_NO_WORKER] = { .name = "no worker", .level = HOLD_BAD,
	    .setter = "the master", .end = "the master starts the next worker", .shut = true,
	    .text = "no worker lives; the supervisor starts the next one",
	    .code = "no_worker", .unhealthy = true, .patience = PATIENCE_SHORT, .over = "a worker lives",
	    .advice = "the supervisor's log, events worker_died and worker_exited, says why workers end" },
	[HOLD_ERROR] = { .name = "error", .level = HOLD_BAD, .setter = "its workers and the sweeper",
	    .end = "Redis accepts the command",
	    .text =
	    "a part of its work fails: a key of the wrong type, a missing right, or an archive that cannot be written",
	    .code = "error", .check = "types", .unhealthy = true, .over = "Redis refuses nothing of this queue",
	    .advice = "the supervisor's log says what failed and what to do: events queue_error, redis_error, "
	    "redis_down, schema_refused" },
	[HOLD_REFUSED] = { .name = "refused", .level = HOLD_BAD, .setter = "Redis",
	    .end = "Redis accepts the commands of quredis", .shut = true,
	    .text = "Redis answers, and refuses what the queue needs",
	    .code = "error", .unhealthy = true,
	    .advice =
	    "see the other findings, and the events redis_error, redis_down and queue_error in the supervisor's log" },
	[HOLD_NO_REDIS] = { .name = "no redis", .level = HOLD_BAD, .setter = "its workers and the sweeper",
	    .end = "Redis answers", .shut = true, .text = "its workers cannot reach Redis",
	    .code = "error", .unhealthy = true,
	    .advice = "see the other findings, and the event redis_down in the supervisor's log" },
	[HOLD_BACKOFF] = { .name = "backoff", .level = HOLD_WARNING, .setter = "the master",
	    .end = "30 seconds pass without a death",
	    .text = "its workers die; the supervisor waits longer before each start",
	    .code = "backoff", .over = "its workers live",
	    .advice = "the supervisor's log, event worker_died, says why workers die" },
	[HOLD_QUARANTINE] = { .name = "quarantine", .level = HOLD_BAD, .setter = "the master",
	    .end = "a worker finishes a message, or lives for 30 seconds",
	    .text = "its workers keep dying; the supervisor starts one each minute",
	    .code = "quarantine", .unhealthy = true, .over = "its workers live",
	    .advice =
	    "the supervisor's log, event worker_died, says why workers die; correct that, then quredis restart ",
	    .after = "" },
};

bool holds_end_by_themselves(enum hold hold)
{
	return holds_table[hold].level == HOLD_PASSING || holds_table[hold].patience == PATIENCE_SHORT;
}

enum hold holds_by_name(const char *name)
{
	int hold = HOLD_NONE;

	while (hold < HOLDS && (name == NULL || strcmp(holds_table[hold].name, name) != 0))
		hold++;
	return (enum hold)hold;
}
