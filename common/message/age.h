#ifndef COMMON_MESSAGE_AGE_H
#define COMMON_MESSAGE_AGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/message.h"

/*
 * How long a message has waited, by the clock of Redis (docs/design.md, "Time to live"). Only what is
 * proven counts, so an age is never too high. Pure: times come in.
 */
struct age_clock {
	int64_t now_ms, latest_ms;	/* the server's ms since 1970: its clock is between these */
	int64_t since_ms;		/* since when that clock was seen to run evenly: what was noted before counts from here */
	int64_t stepped_ms;		/* the same for what producers write: when it was seen to be set; 0: never */
};

/* Since when it waits at the latest; 0: not known */
int64_t age_since(const struct wrapper *w, const struct age_clock *c);

/* Since when it exists at the latest, over all its attempts: also by what its producer wrote and when it failed first. 0: not known */
int64_t age_born(const struct message *m, const struct age_clock *c);

struct age_excess {
	int64_t age_ms, limit_ms;
};

/* Whether it waits for longer than it may, and how long. ttl_ms: of the queue; <= 0: none */
bool age_expired(const struct message *m, int64_t ttl_ms, const struct age_clock *c, struct age_excess *out);

#define AGE_TEXT_SIZE 128
const char *age_describe(const struct age_excess *e, char out[AGE_TEXT_SIZE]);	/* the record's error_message */

#endif
