#ifndef COMMON_FACTS_EXPOSITION_H
#define COMMON_FACTS_EXPOSITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"

/*
 * Metrics for Prometheus: the only list of them, and its text format 0.0.4. Two programs fill in the values: the
 * sweeper for metrics.textfile (its own supervisor), and the console for /metrics (all hosts). Each row has the name,
 * the type, the unit of the value that a caller passes, the pages that have it, the help text, and the names of the
 * labels. The man page quredis.conf(5) describes every row.
 */
#define METRICS(X) \
	X(BUILD_INFO, "quredis_build_info", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Always 1; the label is the version of quredis.", "version") \
	X(REDIS_UP, "quredis_redis_up", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 while Redis answers.", NULL) \
	X(WRITTEN, "quredis_written_timestamp_seconds", "gauge", UNIT_MS, PAGE_FILE, \
	    "When this file was written.", NULL) \
	X(SWEEPER_LOOKS, "quredis_sweeper_looks_total", "counter", UNIT_ONE, PAGE_FILE, \
	    "Measurements of a queue by this sweeper.", NULL) \
	X(REGISTRATIONS_REMOVED, "quredis_registrations_removed_total", "counter", UNIT_ONE, PAGE_FILE, \
	    "Queues removed from the registry.", NULL) \
	X(QUEUE_MESSAGES, "quredis_queue_messages", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Messages in a list of a queue.", "queue", "list") \
	X(OLDEST_AGE, "quredis_queue_oldest_age_seconds", "gauge", UNIT_MS, PAGE_BOTH, \
	    "Age of the oldest message in a list, if known.", "queue", "list") \
	X(AVERAGE_AGE, "quredis_queue_average_age_seconds", "gauge", UNIT_MS, PAGE_BOTH, \
	    "Average age of the messages in a list, if known.", "queue", "list") \
	X(STUCK, "quredis_queue_stuck_messages", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Messages older than health.thresholds.stuck_age.", "queue", "list") \
	X(PAUSED, "quredis_queue_paused", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 while the queue is paused.", "queue") \
	X(QUEUE_WORKERS, "quredis_queue_workers", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Workers of a queue on all hosts.", "queue", "state") \
	X(SEATS, "quredis_queue_seats", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Seats of a queue with max_in_flight, on all hosts: taken, and the limit.", "queue", "kind") \
	X(ORPHAN_REGISTRATIONS, "quredis_queue_orphan_registrations", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Registered workers without a lease.", "queue") \
	X(ORPHAN_MESSAGES, "quredis_queue_orphan_messages", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Messages owned by no live worker.", "queue") \
	X(DEAD_LETTERS_UNARCHIVED, "quredis_dead_letters_unarchived", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 while the archive refuses expired dead letters.", "queue") \
	X(DEAD_LETTERS_OVER, "quredis_dead_letters_over", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 while dead letters exceed max_entries or max_age and no rule may remove them.", "queue") \
	X(HEALTH_STATUS, "quredis_health_status", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "0 healthy, 1 degraded, 2 unhealthy.", "queue") \
	X(HEALTH_REASON, "quredis_health_reason", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 degraded, 2 unhealthy, for this reason; absent: it does not apply.", "queue", "code") \
	X(HEALTH_RECOVERING, "quredis_health_recovering", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1: the figure of this reason does not exceed its limit any more, and the next looks decide; 0: it does.", \
	    "queue", "code") \
	X(FAILED_ATTEMPTS, "quredis_queue_failed_attempts", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Attempts that failed in failure_window, on all hosts, by class.", "queue", "class") \
	X(MESSAGES, "quredis_messages_total", "counter", UNIT_ONE, PAGE_BOTH, \
	    "Outcomes of messages.", "queue", "event") \
	X(ESCAPED_CLASSES, "quredis_escaped_by_class_total", "counter", UNIT_ONE, PAGE_BOTH, \
	    "Dead letters by the class that their handler named.", "queue", "class") \
	X(HANDLER_DURATION, "quredis_handler_duration_seconds", "histogram", UNIT_MS, PAGE_BOTH, \
	    "Run time of handlers.", "queue") \
	X(SWEEP_LAG, "quredis_sweep_lag_seconds", "histogram", UNIT_MS, PAGE_BOTH, \
	    "Delay between due time and move of a retry or an expired message.", "queue") \
	X(PURGED, "quredis_purged_total", "counter", UNIT_ONE, PAGE_BOTH, \
	    "Messages and records removed by purge; transit: reported only.", "queue", "kind") \
	X(PURGE_DRY_RUN, "quredis_purge_dry_run_total", "counter", UNIT_ONE, PAGE_FILE, \
	    "What purge would remove without dry_run.", "queue") \
	X(WORKERS, "quredis_workers", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Workers of a supervisor by state.", "node", "queue", "state") \
	X(WORKER_RESTARTS, "quredis_worker_restarts_total", "counter", UNIT_ONE, PAGE_BOTH, \
	    "Workers started in place of dead ones.", "node", "queue") \
	X(SEATS_AWAITED, "quredis_workers_awaiting_seat", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Workers with a message that waits for a seat of max_in_flight.", "node", "queue") \
	X(QUEUE_STATE, "quredis_queue_state", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Always 1; the label state says whether a queue fetches, or why not.", "node", "queue", "state") \
	X(BREAKER_OPEN, "quredis_breaker_open", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 while the breaker of a queue is open.", "node", "queue") \
	X(BREAKER_CAUSE, "quredis_breaker_cause", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "Always 1, while the breaker is open; the label cause says why.", "node", "queue", "cause") \
	X(BREAKER_NEXT_ATTEMPT, "quredis_breaker_next_attempt_seconds", "gauge", UNIT_MS, PAGE_BOTH, \
	    "While the breaker is open: time until workers try the handler again; 0: with the next message.", "node", \
	    "queue") \
	X(HANDLER_NOT_READY, "quredis_handler_not_ready", "gauge", UNIT_ONE, PAGE_BOTH, \
	    "1 while the newest handler was not ready: an old one goes on, or none is ready since a failure.", \
	    "node", "queue") \
	X(NODE_UP, "quredis_node_up", "gauge", UNIT_ONE, PAGE_CONSOLE, \
	    "1 while a host reports itself.", "node") \
	X(NODE_REPORTED, "quredis_node_reported_timestamp_seconds", "gauge", UNIT_MS, PAGE_CONSOLE, \
	    "Time of the last report of a host.", "node")

enum metric {
	METRIC_NONE,
#define X(id, ...) METRIC_##id,
	METRICS(X)
#undef X
	METRICS_END
};

/* The console measures all hosts and knows no sweeper by itself. A sweeper knows its own host only. */
enum metric_page { PAGE_FILE = 1, PAGE_CONSOLE = 2, PAGE_BOTH = PAGE_FILE | PAGE_CONSOLE };

#define METRIC_LABELS 3		/* at most */

/* Writes the head of a metric; all its samples must follow. False: the page does not have it, and nothing was
 * written. */
bool exposition_metric(struct buffer *b, enum metric_page page, enum metric m);

/*
 * Writes one sample. values: of the labels, in the order of the table, each any text; NULL leaves that label out.
 * value: in the unit of the table; milliseconds are written as seconds.
 */
void exposition_sample(struct buffer *b, enum metric m, const char *const values[METRIC_LABELS], int64_t value);

/* The samples of a histogram: its buckets, in ascending order, and the sum of all its values, in ms. */
struct exposition_bucket {
	double below_s;			/* the upper bound; INFINITY in the last one */
	int64_t n;			/* values in this bucket alone */
};
void exposition_histogram(struct buffer *b, enum metric m, const char *const values[METRIC_LABELS],
    const struct exposition_bucket *buckets, size_t nbuckets, int64_t sum_ms);

#endif
