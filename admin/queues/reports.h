#ifndef ADMIN_QUEUES_REPORTS_H
#define ADMIN_QUEUES_REPORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/cli/cli.h"

#include "common/queue/queue.h"

/*
 * Judges reports of health for every face of the program. A report is valid for minutes, so it alone does not prove
 * that anything works. The supervisor that wrote it also reports its node every 10 s and when a state changes, which is
 * fresher:
 *	that supervisor does not report: the status becomes REPORTS_UNKNOWN unless it was worse, with a reason
 *	"unreported", and without figures of workers it reports without the queue: the report of health is freed and
 *	leaves the array it reports with the queue: the state of that report, and to each reason "breaker"
 *	"next_attempt_ms": when workers try the handler again
 * quredis sends one command for each node, in one round trip. -1: no connection to Redis
 */
#define REPORTS_UNKNOWN QUEUE_HEALTH_LEVELS	/* level: not known */
int reports_confirm(struct admin *a, struct queue_health *reports, size_t *n, int64_t server_ms);
void reports_free(struct queue_health *reports, size_t n);	/* and the array */
/* How bad a level is, for an order: a healthy queue is 0. REPORTS_UNKNOWN is worse than degraded, and better than
 * unhealthy. */
int reports_badness(int level);
/* The report of a queue that nobody reports, or NULL members if its name is not UTF-8. The caller frees it. */
struct queue_health reports_missing(const char *queue, const char *why);
/* A pause or a hold ended after the report: the key of the pause is newer than both reports. */
void reports_end_pause(struct queue_health *h);
/* True: nobody reports the queue, or its supervisor does not report any more. */
bool reports_doubt(const struct queue_health *h);
bool reports_say_paused(const struct queue_health *h);

#endif
