#ifndef SWEEPER_REPORT_GROWTH_H
#define SWEEPER_REPORT_GROWTH_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Arrivals against completions of a queue. Producers do not count, so arrivals are estimated: the growth of ingress,
 * plus what quredis took out of it. The counters are some seconds late, so only looks that are a minute apart are
 * compared. Pure: the caller gives the figures and the time.
 */
#define GROWTH_SPAN_MS 60000

struct growth_figures {
	int64_t at_ms;			/* ms since 1970, by the clock of Redis */
	int64_t size;			/* messages in ingress */
	int64_t taken;			/* messages ever taken out of ingress, less those that went back; all hosts */
	/* messages that ever left the queue: done, or dead letters; all hosts. It only grows */
	int64_t finished;
};

/* Zeroed: no look yet. */
struct growth {
	struct growth_figures last;	/* at the last look that was compared; last.at_ms 0: none */
	/* between that look and the one before: messages pushed and finished; span_ms 0: not known */
	int64_t span_ms, came, left;
	/* from one look to the next the backlog grows, and more messages come than leave, since then; 0: no */
	int64_t since_ms;
};

/*
 * One look; it changes nothing if the last one is less than a span ago. If Redis went back in time, by its clock or by
 * its totals, the estimate begins anew: then nothing is known until the next look.
 */
void growth_look(struct growth *g, const struct growth_figures *now);

double growth_a_minute(const struct growth *g, int64_t n);	/* n: came or left; -1: not known */
/*
 * For how long the backlog has grown; 0: it does not, or its work takes less than a minute at the rate of the
 * completions; -1: not known. bad: the level says so already, so a backlog that still grows stays bad, also if a new
 * sweeper has not seen all of its growth.
 */
int64_t growth_ms(const struct growth *g, bool bad, int64_t limit_ms);

#endif
