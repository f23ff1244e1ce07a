#ifndef COMMON_BOARD_SERVER_CLOCK_H
#define COMMON_BOARD_SERVER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/scoreboard.h"
#include "common/message/message.h"

/*
 * The clock of Redis against CLOCK_BOOTTIME of this host: two bounds of its offset, and since when it runs evenly.
 * Zeroed: nothing is known. The sweeper owns it, and publishes it on the scoreboard for the workers and the next
 * sweeper.
 */
struct server_clock {
	/* bounds of: the server's ms since 1970, minus CLOCK_BOOTTIME. low_ms > high_ms: torn, so nothing is known */
	int64_t low_ms, high_ms;
	int64_t checked_ms;		/* CLOCK_BOOTTIME of the last answer; 0: none yet */
	int64_t since_ms;		/* by the server's clock: it runs evenly since then */
	/* by the server's clock: when the sweeper last saw that it was set; 0: never. At most since_ms */
	int64_t stepped_ms;
};

/* One answer to TIME: server_ms is the server's time; the request was sent and answered at these times of
 * CLOCK_BOOTTIME. */
struct server_time {
	int64_t server_ms, sent_ms, answered_ms;
};

/* one slowly drifting offset fits this answer and the earlier ones */
bool server_clock_agrees(const struct server_clock *c, const struct server_time *t);
/* Learns from an answer. Returns by how many ms the clock was set; 0: it was not, or nothing was known before. */
int64_t server_clock_take(struct server_clock *c, const struct server_time *t);
/* Fills in the clock for common/message/age.h. false: too little is known. */
bool server_clock_age(const struct server_clock *c, int64_t boottime_ms, struct age_clock *out);

/*
 * A line of text, which the sweeper keeps in Redis so that ages survive a restart of the supervisor.
 * server_clock_recall() returns false for a text that another host wrote, or this host before its kernel was booted, or
 * that no version of this code wrote. A recalled clock holds only if the next answer agrees with it.
 */
#define SERVER_CLOCK_TEXT_SIZE 192
/* A text whose last answer is older, by CLOCK_BOOTTIME, is not recalled: the clock may have been set and set back
 * meanwhile, and would still agree. */
#define SERVER_CLOCK_RECALLED_MS (10 * 60 * 1000)
void server_clock_text(const struct server_clock *c, const char *boot_id, char out[SERVER_CLOCK_TEXT_SIZE]);
bool server_clock_recall(struct server_clock *c, const char *boot_id, const char *text, int64_t boottime_ms);

/* A read between two writes mixes two clocks. The mixture agrees with no answer, or makes messages younger than they
 * are: it harms nothing. */
void server_clock_publish(const struct server_clock *c, struct board_clock *b);
void server_clock_read(struct server_clock *c, const struct board_clock *b);

#endif
