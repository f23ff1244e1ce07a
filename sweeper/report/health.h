#ifndef SWEEPER_REPORT_HEALTH_H
#define SWEEPER_REPORT_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "sweeper/report/health_rule.h"
#include "sweeper/core/core.h"

/* The figures that are judged. health_codes.c has a row for each: its name, its value and limits, its text. */
enum health_code {
	HEALTH_INGRESS, HEALTH_TRANSIT, HEALTH_DEAD_LETTERS, HEALTH_STUCK,	/* messages */
	HEALTH_DELAYED,		/* messages */
	HEALTH_OLDEST_AGE,	/* ms: of the oldest message in ingress */
	HEALTH_GROWTH,		/* ms: for so long more messages have come than left; growth_ms() */
	HEALTH_FAILURES,	/* percent of the attempts that failed, rounded up: health_rule_failure_rate() */
	HEALTH_ORPHANS,		/* registrations without a lease, and messages without a living owner */
	HEALTH_PAUSED,		/* ms */
	HEALTH_BREAKER,		/* 1: it is open */
	HEALTH_ERROR,		/* 1: Redis refuses something of this queue */
	HEALTH_ARCHIVE,		/* 1: dead letters must leave, and the archive accepts none */
	HEALTH_BOUNDS,		/* 1: there are more dead letters than the bounds allow, and nothing can remove them */
	HEALTH_LEFTOVERS,	/* processes of a dead supervisor that did not die */
	HEALTH_ASIDE,		/* messages that Redis refused to move */
	HEALTH_CODES
};
extern const char *const health_code_names[HEALTH_CODES];	/* "ingress", "dead_letters", … */

struct health_figure {
	int64_t value;			/* -1: not known */
	struct health_limit limit;
};

/* The figures of a queue that this process has without Redis, and that may change at any moment. Only uint64_t, so that memcmp() compares them. */
struct health_news {
	uint64_t gate, undecided, error, error_text, breaker_open, breaker_cause, archive_fails, bounds_exceeded, leftovers, aside;
};

/* The health of one queue. A new leader continues with the last report; without one it begins at healthy. */
struct health {
	struct health_check checks[HEALTH_CODES];
	struct health_figure figures[HEALTH_CODES];	/* at the last look */
	enum queue_error error;		/* that counts at the last look */
	int64_t passing_since_ms;	/* CLOCK_MONOTONIC: since when there is an error that may end by itself; 0: there is none */
	uint32_t error_word;		/* errors_shown() at the last look */
	enum queue_health_level status;	/* judge_queue() sets it, and resume_from(), by the last report of another sweeper */
	int64_t since_ms;		/* by the clock of Redis: since when the status is as it is; 0: never judged */
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
	int64_t queues[QUEUE_HEALTH_LEVELS];
	int64_t stuck;
};

const struct health_sum *health_sum_of(const struct sweeper *s);	/* known: the reports were added up */

/*
 * True: health judges a look that is taken now. Its interval is over, breaker, gate or error of the queue have changed, its messages
 * fail, or its pause is too long.
 */
bool health_is_due(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms);
/* True: health is due, and the last look is old enough for another one. */
bool health_is_outdated(const struct sweeper *s, const struct sweeper_queue *q, int64_t now_ms);

/* health_document.c: the report as JSON; a new string */
char *health_document(const struct sweeper *s, const struct sweeper_queue *q);

/* health_codes.c */
void health_codes_measure(const struct sweeper *s, const struct sweeper_queue *q, struct health_figure figures[HEALTH_CODES]);
int64_t health_codes_limit(const struct health *h, enum health_code code);	/* the limit of the present level */
bool health_codes_is_recovering(const struct health *h, enum health_code code);	/* health_rule_is_recovering() */
#define HEALTH_TEXT_SIZE 640
const char *health_codes_text(const struct sweeper *s, const struct sweeper_queue *q, enum health_code code, char out[HEALTH_TEXT_SIZE]);

#endif
