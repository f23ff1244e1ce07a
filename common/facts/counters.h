#ifndef COMMON_FACTS_COUNTERS_H
#define COMMON_FACTS_COUNTERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/facts/exposition.h"

/*
 * The counters of each queue, and the only list of them. Workers and the sweeper count on the scoreboard; the sweeper
 * writes the sums to Redis. A row has
 *	its name in Redis and in every document, metric and table
 *	the kind of quredis_purged_total and of statsd's quredis.purge that it also counts; NULL: none
 *	its meaning, for operators
 *	at_0: `quredis stats QUEUE` shows it also while it is 0
 *	routine: most messages count here; the page of a queue lists the other counters below its charts
 *	title, in, yields: of its column, as in facts.h
 * The order is that of the words on the scoreboard, and of all tables.
 */
#define COUNTERS_TABLE(X) \
	X(FETCHED, "fetched", NULL, "messages that workers fetched", \
	    .at_0 = true, .routine = true, .title = "Fetched", .in = IN_STATS, .yields = 7) \
	X(DONE, "done", NULL, "messages that were done", \
	    .at_0 = true, .routine = true, .title = "Done", .in = IN_STATUS_END | IN_STATS, .yields = 10) \
	X(FAILED, "failed", NULL, "failed attempts", \
	    .at_0 = true, .routine = true, .title = "Failed", .in = IN_STATUS_END | IN_STATS, .yields = 12) \
	X(RETRIED, "retried", NULL, "messages that were delayed for a retry", \
	    .at_0 = true, .routine = true, .title = "Retried", .in = IN_STATS, .yields = 6) \
	X(ESCAPED, "escaped", NULL, "messages that became dead letters", \
	    .at_0 = true, .routine = true, .title = "Escaped", .in = IN_STATUS_END | IN_STATS, .yields = 13) \
	X(TIMED_OUT, "timed_out", NULL, "failed attempts that ran too long") \
	X(HANDED_BACK, "handed_back", NULL, "messages moved back to ingress: no attempt was counted", \
	    .title = "Handed back", .in = IN_STATS, .yields = 2) \
	X(HELD, "held", NULL, "messages whose handler held the queue: no attempt was counted") \
	X(REDELIVERED, "redelivered", NULL, "fetched messages that may have run before", \
	    .title = "Redelivered", .in = IN_STATS, .yields = 1) \
	X(CLAIM_LOST, "claim_lost", NULL, "messages that another process took in flight") \
	X(UNRUNNABLE, "unrunnable", NULL, "handlers that could not be executed") \
	X(RECONNECTED, "reconnected", NULL, "connections of workers to Redis") \
	X(STRAY_ANSWERS, "stray_answers", NULL, "lines like answers of handlers, to no job") \
	X(EXPIRED, "expired", NULL, "escaped: waited longer than their ttl", \
	    .title = "Expired", .in = IN_STATS, .yields = 4) \
	X(EXPIRED_WAITING, "expired_waiting", NULL, "of the expired: no worker had fetched them") \
	X(PURGED, "purged", "ingress", "escaped: too old for purge") \
	X(PURGED_DELAYED, "purged_delayed", "delayed", "of the purged: they were delayed") \
	X(DEADLINE_EXCEEDED, "deadline_exceeded", NULL, "of the purged: older than max_message_age") \
	X(HANDLER_EXIT, "handler_exit", NULL, "escaped: HandlerExit") \
	X(HANDLER_FAIL, "handler_fail", NULL, "escaped: HandlerFail") \
	X(HANDLER_SIGNAL, "handler_signal", NULL, "escaped: HandlerSignal") \
	X(HANDLER_TIMEOUT, "handler_timeout", NULL, "escaped: HandlerTimeout") \
	X(REJECTED, "rejected", NULL, "escaped: Rejected") \
	X(UNREPRESENTABLE, "unrepresentable", NULL, "escaped: Unrepresentable") \
	X(UNKNOWN_VERSION, "unknown_version", NULL, "escaped: UnknownVersion") \
	X(UNKNOWN_SEAL, "unknown_seal", NULL, "escaped: UnknownSeal") \
	X(TOO_LARGE, "too_large", NULL, "escaped: TooLarge") \
	X(CANCELLED, "cancelled", NULL, "escaped: Cancelled") \
	X(WORKER_LOST, "worker_lost", NULL, "escaped: WorkerLost") \
	X(PURGED_DONE, "purged_done", "done", "entries of the history that purge removed") \
	X(TRANSIT_OLD, "transit_old", "transit", "messages in flight for too long; they stayed") \
	X(WOULD_PURGE, "would_purge", "dry_run", "what purge would remove without dry_run") \
	X(RESCUED, "rescued", NULL, "messages of dead workers that were returned", \
	    .title = "Rescued", .in = IN_STATS, .yields = 3) \
	X(DUE, "due", NULL, "delayed messages that were moved to ingress", \
	    .routine = true) \
	X(ARCHIVED, "archived", NULL, "dead letters removed after they were archived") \
	X(DISCARDED, "discarded", NULL, "dead letters removed without an archive") \
	X(ORPHANED, "orphaned", "orphaned", "orphaned records that were removed") \
	X(FORWARDED, "forwarded", NULL, "copies of records pushed to another queue") \
	X(EMITTED, "emitted", NULL, "messages of handlers that were pushed to other queues") \
	X(TICKS_PUSHED, "ticks_pushed", NULL, "ticks of schedules whose message was pushed") \
	X(TICKS_MISSED, "ticks_missed", NULL, "ticks of schedules that passed without their message") \
	X(TICKS_SKIPPED, "ticks_skipped", NULL, "ticks of schedules without overlap that were skipped")

enum counter {
#define X(id, ...) COUNT_##id,
	COUNTERS_TABLE(X)
#undef X
	COUNTERS
};

struct counter_words {
	const char *name, *purged, *text;
	bool at_0, routine;
	const char *title;		/* NULL: no table has a column of it */
	unsigned in;
	int yields;
};
extern const struct counter_words counters_table[COUNTERS];

/* Redis has no counter of a dry run, which changes nothing. */
static inline bool counters_are_in_redis(int counter)
{
	return counter != COUNT_WOULD_PURGE;
}

/* A histogram: bucket i counts durations < 2^i ms, the last bucket all longer ones. */
#define SCOREBOARD_BUCKETS 24

/* Counters, then these. */
enum figure {
	FIGURE_DURATIONS = COUNTERS,				/* of handlers: a histogram */
	FIGURE_DURATION_MS = FIGURE_DURATIONS + SCOREBOARD_BUCKETS,	/* and their sum */
	FIGURE_LAGS,			/* how late the sweeper moved what was due or expired: a histogram */
	FIGURE_LAG_MS = FIGURE_LAGS + SCOREBOARD_BUCKETS,	/* and their sum */
	SCOREBOARD_FIGURES
};

struct queue_figures {		/* indexed by enum counter and enum figure */
	uint64_t n[SCOREBOARD_FIGURES];
};
#define COUNTERS_UNKNOWN UINT64_MAX	/* in place of a figure that a document does not have */

int counters_bucket(int64_t ms);	/* of a duration: 0..SCOREBOARD_BUCKETS - 1; a negative one counts as 0 */

/* A counter adds this to its kind of purge. Another sweeper may count at a time, so a part may be newer than the
 * whole. */
uint64_t counters_purged(const struct queue_figures *f, enum counter counter);

/* ---- documents: status, stats ---- */

enum counters_shown { COUNTERS_ALL, COUNTERS_OF_REDIS, COUNTERS_ABOVE_0 /* of these */ };
struct json_t;
struct json_t *counters_json(const uint64_t n[COUNTERS], enum counters_shown shown);	/* new: name -> number */
struct json_t *counters_histogram_json(const uint64_t n[SCOREBOARD_BUCKETS]);	/* new */

/* Sets "counters", "durations", "duration_ms", and the last two of "lag". */
void counters_write(struct json_t *document, const struct queue_figures *f);
/* Reads all of them. COUNTERS_UNKNOWN: the document does not have it. */
void counters_read(struct queue_figures *f, const struct json_t *document);

/* ---- metrics ---- */

/* The samples of one queue for a metric that its figures have; for another one nothing. */
void counters_expose(struct buffer *page, enum metric m, const char *queue, const struct queue_figures *f);

#endif
