/*
 * Decides whether the clock of Redis runs evenly. Each answer to TIME gives two bounds of the offset between that clock
 * and our own. The clock runs evenly as long as one offset that drifts slowly fits all bounds. If none fits, the clock
 * was set or this is another server, and a new epoch begins. All functions are pure, except the last two, which write
 * and read the words on the scoreboard.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/board/server_clock.h"

#define DRIFT 100		/* 1 ms in so many ms: chrony and ntpd slew more slowly than that, and step beyond it */
#define DRIFT_MAX_MS 1000	/* however old the last answer is */
#define WIDEST_MS 1000		/* bounds that are further apart tell too little about an age */

static int64_t drift_ms(const struct server_clock *c, int64_t boottime_ms)
{
	int64_t ms = (boottime_ms - c->checked_ms) / DRIFT + 1;

	return ms < 1 ? 1 : ms > DRIFT_MAX_MS ? DRIFT_MAX_MS : ms;
}

/* The bounds from this answer alone. Each clock was read in whole milliseconds, hence the 1. */
static int64_t low_of(const struct server_time *t)
{
	return t->server_ms - t->answered_ms - 1;
}

static int64_t high_of(const struct server_time *t)
{
	return t->server_ms - t->sent_ms + 1;
}

bool server_clock_agrees(const struct server_clock *c, const struct server_time *t)
{
	int64_t drift = drift_ms(c, t->answered_ms);

	return c->checked_ms != 0 && low_of(t) <= c->high_ms + drift && high_of(t) >= c->low_ms - drift;
}

static int64_t begin_epoch(struct server_clock *c, const struct server_time *t)
{
	int64_t step = c->checked_ms == 0 ? 0 : low_of(t) > c->high_ms ? low_of(t) - c->high_ms
	    : high_of(t) - c->low_ms;

	c->low_ms = low_of(t);
	c->high_ms = high_of(t);
	c->since_ms = t->server_ms;
	if (step != 0)
		c->stepped_ms = t->server_ms;
	return step;
}

int64_t server_clock_take(struct server_clock *c, const struct server_time *t)
{
	int64_t drift = drift_ms(c, t->answered_ms), step = 0;

	if (!server_clock_agrees(c, t)) {
		step = begin_epoch(c, t);
	} else {
		c->low_ms = low_of(t) > c->low_ms - drift ? low_of(t) : c->low_ms - drift;
		c->high_ms = high_of(t) < c->high_ms + drift ? high_of(t) : c->high_ms + drift;
	}
	c->checked_ms = t->answered_ms;
	return step;
}

bool server_clock_age(const struct server_clock *c, int64_t boottime_ms, struct age_clock *out)
{
	if (c->checked_ms == 0 || c->since_ms == 0 || c->high_ms < c->low_ms || c->high_ms - c->low_ms > WIDEST_MS)
		return false;
	*out = (struct age_clock){
		.now_ms = boottime_ms + c->low_ms - drift_ms(c, boottime_ms),
		.latest_ms = boottime_ms + c->high_ms + drift_ms(c, boottime_ms),
		.since_ms = c->since_ms,
		.stepped_ms = c->stepped_ms,
	};
	return true;
}

void server_clock_text(const struct server_clock *c, const char *boot_id, char out[SERVER_CLOCK_TEXT_SIZE])
{
	snprintf(out, SERVER_CLOCK_TEXT_SIZE, "1 %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64, boot_id,
	    c->low_ms, c->high_ms, c->checked_ms, c->since_ms, c->stepped_ms);
}

static bool is_sound(const struct server_clock *c, int64_t boottime_ms)
{
	int64_t most = INT64_C(1) << 52;	/* so that no sum overflows */

	return c->checked_ms > 0 && c->checked_ms <= boottime_ms &&
	    boottime_ms - c->checked_ms <= SERVER_CLOCK_RECALLED_MS &&
	    c->low_ms > -most && c->high_ms < most && c->low_ms <= c->high_ms &&
	    c->since_ms > 0 && c->since_ms <= c->checked_ms + c->high_ms && c->stepped_ms >= 0 &&
	    c->stepped_ms <= c->since_ms;
}

bool server_clock_recall(struct server_clock *c, const char *boot_id, const char *text, int64_t boottime_ms)
{
	struct server_clock parsed;
	char boot[64];
	int end = 0;

	if (sscanf(text, "1 %63s %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 "%n", boot, &parsed.low_ms,
	    &parsed.high_ms,
		&parsed.checked_ms, &parsed.since_ms, &parsed.stepped_ms, &end) != 6 || text[end] != '\0' ||
		    strcmp(boot, boot_id) != 0 ||
	    !is_sound(&parsed, boottime_ms))
		return false;
	*c = parsed;
	return true;
}

/* Writes the epoch first: a reader that sees the new offset must also see since when it holds. */
void server_clock_publish(const struct server_clock *c, struct board_clock *b)
{
	atomic_store(&b->since_ms, c->since_ms);
	atomic_store(&b->stepped_ms, c->stepped_ms);
	atomic_store(&b->low_ms, c->low_ms);
	atomic_store(&b->high_ms, c->high_ms);
	atomic_store(&b->checked_ms, c->checked_ms);
}

void server_clock_read(struct server_clock *c, const struct board_clock *b)
{
	c->checked_ms = atomic_load(&b->checked_ms);
	c->high_ms = atomic_load(&b->high_ms);
	c->low_ms = atomic_load(&b->low_ms);
	c->stepped_ms = atomic_load(&b->stepped_ms);
	c->since_ms = atomic_load(&b->since_ms);
}
