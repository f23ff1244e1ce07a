#ifndef WORKER_ERRORS_H
#define WORKER_ERRORS_H

#include "common/redis/redis.h"

struct worker;

/* The errors of Redis that a worker logs and shows: each kind of error once, until errors_clear(). */
struct errors {
	struct redis_outage outage;
	/* what an operator should know of the last lost connection; constant; NULL: no more than Redis says */
	const char *of_connection;
};

void errors_report(struct worker *w, const char *what, const struct redis_reply *error);
/* the connection is lost, or could not be opened; the reason is in session.redis */
void errors_report_connection(struct worker *w, int64_t now_ms);
void errors_of_connection(struct errors *e, const char *what);	/* keeps what */
void errors_clear(struct worker *w);

#endif
