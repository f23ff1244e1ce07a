/*
 * What time it is on the server, and since when its clock can be believed: for what waits too long, here
 * and in the workers. The rule is common/server_clock.c's.
 */
#include "sweeper/sweeper.h"

#include "common/clock.h"

#define LOGGED_EVERY_MS 60000	/* a clock that is pulled along would be told of at every look */

/* A predecessor's knowledge goes on: its clock is ours. */
void clock_init(struct sweeper *s)
{
	server_clock_read(&s->clock, &s->child->board->clock);
}

static void log_step(struct sweeper *s, int64_t step_ms)
{
	int64_t now_ms = clock_monotonic_ms();

	if (s->clock_logged_ms != 0 && now_ms - s->clock_logged_ms < LOGGED_EVERY_MS)
		return;
	s->clock_logged_ms = now_ms;
	log_warning("server_clock_set", log_int("step_ms", step_ms),
	    log_str("advice", "the clock of Redis was set, or this is another server: what waits counts from now"));
}

void clock_learn(struct sweeper *s, int64_t server_ms, int64_t sent_ms)
{
	struct server_time t = { .server_ms = server_ms, .sent_ms = sent_ms, .answered_ms = clock_boottime_ms() };
	int64_t step_ms = server_clock_take(&s->clock, &t);

	if (step_ms != 0)
		log_step(s, step_ms);
	server_clock_publish(&s->clock, &s->child->board->clock);
}
