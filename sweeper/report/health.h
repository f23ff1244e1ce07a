#ifndef SWEEPER_REPORT_HEALTH_H
#define SWEEPER_REPORT_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/holds/holds.h"
#include "sweeper/report/health_rule.h"
#include "sweeper/core/core.h"

/* The workers of all queues, for the judge of holds: read at the start of this turn, valid until the next. */
const struct hold_slots *health_slots(const struct sweeper *s);

struct health_figure {
	int64_t value;			/* -1: not known */
	struct health_limit limit;
};

/* The figures of a queue that this process has without Redis, and that may change at any moment. Only uint64_t, so that
 * memcmp() compares them. */
struct health_news {
	/* enum hold, and those of lower rank (struct judged): the report says it, too */
	uint64_t state, also;
	uint64_t breaker_shut;		/* no worker tries the handler */
	uint64_t understaffed;		/* the address of the reason */
	uint64_t counting;		/* bits by enum hold: holds that count */
	uint64_t gate, undecided, error, error_text, breaker_cause, archive_fails, bounds_exceeded, leftovers, aside,
	    not_ready, not_ready_why, reload_failed;
};

/* The health of one queue. A new leader continues with the last report; without one it begins at healthy. */
struct health {
	struct health_check checks[HEALTH_CODES];
	struct health_figure figures[HEALTH_CODES];	/* at the last look */
	struct health_holds {
		struct judged now[HOLDS];	/* reason NULL: it does not apply */
		int64_t since_ms[HOLDS];	/* CLOCK_MONOTONIC; 0: it does not apply */
		bool counts[HOLDS];		/* it lasts for longer than it may */
		struct judged worst;		/* HOLD_NONE: none applies */
	} holds;				/* in this turn */
	/* judge_queue() sets it, and resume_from(), by the last report of another sweeper */
	enum queue_health_level status;
	enum queue_health_level notified;	/* the status that health.on_change last succeeded for */
	int64_t since_ms;		/* by the clock of Redis: since when the status is as it is; 0: never judged */
	uint64_t term;			/* of the lead in which the report of another sweeper was read; 0: never */
	int64_t due_ms;			/* CLOCK_MONOTONIC of the next look, at the latest */
	struct health_news seen;	/* at the last look */
	int64_t judged_ms;		/* CLOCK_MONOTONIC of the last look that was judged */
	int64_t looked_ms;		/* taken_ms of the gauge that was judged last */
};

extern const struct task health_task, health_sum_task;

static inline struct health *health_of(const struct sweeper_queue *q)
{
	return task_state(q, &health_task);
}

/* All queues of all hosts, by their last reports. */
struct health_sum {
	int64_t due_ms;			/* CLOCK_MONOTONIC */
	bool known;
	int64_t queues[QUEUE_HEALTH_LEVELS], unknown;	/* unknown: their supervisor does not report any more */
	int64_t stuck;
};

const struct health_sum *health_sum_of(const struct sweeper *s);	/* known: the reports were added up */

/*
 * True: health judges a look that is taken now. Its interval is over, breaker, gate or error of the queue have changed,
 * its messages fail, or its pause is too long.
 */
bool health_is_due(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms);
/* True: health is due, and the last look is old enough for another one. */
bool health_is_outdated(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms);

/* health.on_change has succeeded for this status: Redis knows it from now on. -1: s->connection.error */
int health_notified(struct sweeper *s, struct sweeper_queue *q, enum queue_health_level status);

/* health_document.c: the report as JSON; a new string */
char *health_document(const struct sweeper *s, const struct sweeper_queue *q);

/* health_codes.c */
/* Those that are not healthy, the worst first */
size_t health_codes_list(const struct health *h, enum health_code list[HEALTH_CODES]);
void health_codes_measure(const struct sweeper *s, const struct sweeper_queue *q,
    struct health_figure figures[HEALTH_CODES]);
int64_t health_codes_limit(const struct health *h, enum health_code code);	/* the limit of the present level */
bool health_codes_is_recovering(const struct health *h, enum health_code code);	/* health_rule_is_recovering() */
#define HEALTH_TEXT_SIZE (HOLD_TEXT_SIZE + 100)
const char *health_codes_text(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code,
    char out[HEALTH_TEXT_SIZE]);

#endif
