#ifndef SWEEPER_HEALTH_H
#define SWEEPER_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

#include "sweeper/health_rule.h"
#include "sweeper/task.h"

/* What is known of one queue's health. A new leader knows nothing of before: it begins at healthy. */
struct health {
	struct health_check checks[HEALTH_CODES];
	int64_t value[HEALTH_CODES];	/* at the last look; -1: not known */
	enum health_status status;
	int64_t since_ms;		/* the server's: it is so since then; 0: never looked */
	int64_t due_ms;			/* CLOCK_MONOTONIC: the next look */
	uint32_t seen;			/* health_is_outdated(): state at the last look */
	int64_t looked_ms;		/* taken_ms of the gauge that was judged last */
};

static inline struct health *health_of(const struct swept *q)
{
	return task_state(q, TASK_health);
}

/* All queues of all hosts, as their last reports have them. */
struct health_sum {
	int64_t due_ms;			/* CLOCK_MONOTONIC */
	bool known;
	int64_t queues[HEALTH_UNHEALTHY + 1];
	int64_t stuck;
};

/* Its breaker opened or closed, its gate or trouble changed since the last look: the next one is now. */
bool health_is_outdated(const struct sweeper *s, const struct swept *q, int64_t now_ms);

/* health_document.c: the report, as JSON; a new string */
char *health_document(const struct sweeper *s, const struct swept *q);
struct health_limit health_limit(const struct sweeper *s, enum health_code code);
#define HEALTH_TEXT_SIZE 320
const char *health_text(const struct sweeper *s, const struct swept *q, enum health_code code, char out[HEALTH_TEXT_SIZE]);

#endif
