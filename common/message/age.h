#ifndef COMMON_MESSAGE_AGE_H
#define COMMON_MESSAGE_AGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/message/message.h"

/*
 * Computes how long a message has waited, by the clock of Redis (docs/design.md, "Time to live"). Only proven times
 * count, so an age is never too high. Pure: times are parameters.
 */
struct age_clock {
	int64_t now_ms, latest_ms;	/* the server's ms since 1970: its clock is between these */
	/* the clock is known to run evenly since then: earlier times that quredis wrote count from here */
	int64_t since_ms;
	/* the same for times of producers: when the clock was last seen to be set; 0: never */
	int64_t stepped_ms;
};

/* Returns the latest time since which the message waits; 0: not known */
int64_t age_since(const struct wrapper *w, const struct age_clock *c);

/* Returns the latest time since which the message exists, over all its attempts: also by its producer's time and its
 * first failure. 0: not known */
int64_t age_born(const struct message *m, const struct age_clock *c);

struct age_excess {
	int64_t age_ms, limit_ms;
};

/* True: the message has waited longer than its TTL; sets *out. ttl_ms: of the queue; <= 0: none */
bool age_expired(const struct message *m, int64_t ttl_ms, const struct age_clock *c, struct age_excess *out);

#define AGE_TEXT_SIZE 128
const char *age_describe(const struct age_excess *e, char out[AGE_TEXT_SIZE]);	/* the record's error_message */

#endif
