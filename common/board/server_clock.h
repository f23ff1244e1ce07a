#ifndef COMMON_BOARD_SERVER_CLOCK_H
#define COMMON_BOARD_SERVER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/scoreboard.h"
#include "common/message/message.h"

/*
 * The clock of Redis, held against CLOCK_BOOTTIME of this machine: how far it is ahead of it, between two
 * bounds, and since when it runs evenly. Zeroed: nothing is known. The sweeper keeps it and shows it on the
 * scoreboard, for workers and its successors.
 */
struct server_clock {
	int64_t low_ms, high_ms;	/* the server's ms since 1970 less CLOCK_BOOTTIME */
	int64_t checked_ms;		/* CLOCK_BOOTTIME of the last answer; 0: none yet */
	int64_t since_ms;		/* the server's: it runs evenly since then */
	int64_t stepped_ms;		/* the server's, after it was seen to be set; 0: never */
};

/* The server said server_ms, asked at sent_ms and answered at answered_ms of CLOCK_BOOTTIME. */
struct server_time {
	int64_t server_ms, sent_ms, answered_ms;
};

bool server_clock_agrees(const struct server_clock *c, const struct server_time *t);	/* it goes on as it did */
/* Learns from an answer. How far the clock was set (0: it was not, or nothing was known before). */
int64_t server_clock_take(struct server_clock *c, const struct server_time *t);
/* For common/message/age.h; false: too little is known of it. */
bool server_clock_age(const struct server_clock *c, int64_t boottime_ms, struct age_clock *out);

/*
 * Over a restart: as a line of text, for who keeps it elsewhere. What another machine wrote, this one before it was started
 * anew, or anybody but us, is not recalled (false). What is recalled holds only if the next answer agrees with it.
 */
#define SERVER_CLOCK_TEXT_SIZE 192
/* A text whose last answer is older, by CLOCK_BOOTTIME, is not recalled: a clock that was set and put back meanwhile would agree with it. */
#define SERVER_CLOCK_RECALLED_MS (10 * 60 * 1000)
void server_clock_text(const struct server_clock *c, const char *boot_id, char out[SERVER_CLOCK_TEXT_SIZE]);
bool server_clock_recall(struct server_clock *c, const char *boot_id, const char *text, int64_t boottime_ms);

/* Torn between two writers or by a step it shows clocks that agree with nothing, or too little age. */
void server_clock_publish(const struct server_clock *c, struct board_clock *b);
void server_clock_read(struct server_clock *c, const struct board_clock *b);

#endif
