#ifndef COMMON_BOARD_SWEEPER_WORDS_H
#define COMMON_BOARD_SWEEPER_WORDS_H

#include <stdatomic.h>
#include <stdint.h>

#include "common/facts/facts.h"
#include "common/board/slot_text.h"
#include "common/board/worker_words.h"

/*
 * The words of the sweeper. After a reload the previous sweeper lives on for a while, so two sweepers write them: where
 * that matters, the word changes by atomic add, or by compare and swap. A stored word has the same meaning from either
 * of them, and the last one counts.
 */

/* The gate of a queue. Its workers may fetch in QUEUE_OPEN only. */
enum queue_gate { QUEUE_RECOVERING, QUEUE_OPEN, QUEUE_PAUSED, QUEUE_REFUSED };

/* The progress of recovery. BARE: the bare list is returned, and recovery does not touch it again. It only rises. */
enum queue_recovered { RECOVERED_NOTHING, RECOVERED_BARE, RECOVERED_ALL };

/*
 * The clock of Redis, in ms, as far as the sweeper knows it (server_clock.h has the meaning of each word).
 * server_clock_publish() writes, server_clock_read() reads; they go in opposite orders, so that a reader that sees a
 * new offset also sees the epoch in which it holds. Readers: workers, the next sweeper.
 */
struct board_clock {
	_Alignas(64) _Atomic int64_t since_ms;
	_Atomic int64_t stepped_ms, low_ms, high_ms, checked_ms;
};

/*
 * Entries of the registry that left it, or would in a dry run, over all queues that are not configured here. They only
 * grow (atomic add). The part that was sent to statsd only grows, too, and is at most the whole (compare and swap,
 * tally_claim()). Reader: the sweeper.
 */
struct board_registry {
	_Alignas(64) _Atomic uint64_t left, would_leave;
	_Atomic uint64_t left_sent, would_leave_sent;
};

/*
 * The master that most Sentinels name, if the sweeper is connected to it: a state, so a worker that missed each event
 * learns it. marks: redis_target_mark() of the sweeper's target alone, and with the run_id of the server. at_ms:
 * CLOCK_MONOTONIC of the last confirmation; 0: it is not known. A reader that mixes two masters reconnects once without
 * need. scoreboard_confirm_master() and scoreboard_doubt_master() write them. Readers: the workers.
 */
struct board_majority {
	_Atomic uint64_t target_mark, server_mark;
	_Atomic int64_t at_ms;
	_Atomic uint32_t sentinel;	/* the index in redis.sentinels of one that names it */
};
#define BOARD_MAJORITY_MS 30000		/* an older confirmation says nothing */

/* For all queues. */
struct board_sweeper {
	struct board_clock clock;
	struct board_registry registry;
	/*
	 * Masters that a Sentinel named while a connection to another one was open: how many << 8 | the Sentinel that
	 * named the last one, as its index in redis.sentinels. Written by scoreboard_announce_master(). Readers: the
	 * workers, which then ask that Sentinel and reconnect. The sweeper also announces the same master again if the
	 * layout of the keys changed while connections were open.
	 */
	_Atomic uint32_t announced_master;
	struct board_majority majority;
	/*
	 * The server of the sweeper's connection: struct redis_endpoint in words; port 0: a unix socket. sentinel: 1 +
	 * the index in redis.sentinels of the Sentinel that named it; 0: none did. They count only while the sweeper is
	 * connected (its slot). Reader: the master, which shows them.
	 */
	_Atomic uint64_t peer_high, peer_low;
	_Atomic uint32_t peer_port, peer_sentinel;
	/* processes of dead supervisors that live although they were killed. Reader: the master */
	_Atomic uint64_t leftovers;
};

/* For one queue. All of it is zeroed when the queue gives up its place (scoreboard_clear_queue()); no sweeper knows the
 * queue any more by then. */
struct queue_sweeper {
	_Alignas(64) _Atomic uint32_t gate;	/* enum queue_gate. Readers: the workers, the master */
	/*
	 * Raised by one after each change of the gate to OPEN, and when the first orders to cancel messages appear
	 * (atomic add). It may wrap: it is only compared for equality. Reader: the master, which then wakes the
	 * workers.
	 */
	_Atomic uint32_t openings;
	/* 1: orders to cancel messages exist (queue/cancels.h); else 0. Readers: the workers */
	_Atomic uint32_t cancels;
	/* queue_error_word(): what failed for the sweeper. Readers: queue_error.h */
	_Atomic uint32_t error;
	/* More of one error of the queue, whose enum queue_error is the number: the text of Redis, or the key with the
	 * wrong type. Readers: queue_error.h */
	struct slot_text why;
	/* of a hold that a handler asked for: its end and the reason. It counts only while held_until_ms is not 0 */
	struct slot_text held;
	/* 1 + enum doubt: why a silent owner cannot be proven dead; 0: there is no such owner. Reader: the master */
	_Atomic uint32_t undecided;
	/* messages that Redis refused to move, so that they are set aside. Reader: the master */
	_Atomic uint64_t aside;
	/* bytes of the newest of them; -1: not known. It counts only while aside > 0 */
	_Atomic int64_t aside_size;
	/* queue_error_word(): why Redis refused. It counts only while aside > 0 */
	_Atomic uint32_t aside_error;
	/* enum queue_recovered; it only rises. Reader: the next sweeper, which need not do that again */
	_Atomic uint32_t recovered;
	/* 1: a sweeper has logged what waits in a queue that left; never 0 again. Compare and swap */
	_Atomic uint32_t left_logged;
	/*
	 * The sweeper that has the archive, and the one that sends a batch of failed attempts: generation << 16 | slot
	 * + 1; 0: none. core_hold() takes them by compare and swap, from 0 or from a sweeper that has ended.
	 */
	_Atomic int64_t archiver, failed_sender;
	/* By enum counter: what sweepers counted. Each only grows (atomic add). Readers: the sweeper, for metrics; the
	 * master, for an heir */
	_Atomic uint64_t swept[COUNTERS];
	/* FIGURE_LAGS and their sum in ms, in the same way; board_observe_lag() */
	_Atomic uint64_t lags[SCOREBOARD_BUCKETS], lag_ms;
	_Atomic uint64_t lag_max_ms;		/* the largest since the last datagram to statsd, which sets it to 0 */
};

/*
 * By enum figure: the part of a queue's counts that sweepers have passed on. A sweeper claims growth by compare and
 * swap before it writes it, so two sweepers never write the same growth; it may give back only what it claimed. The
 * master adds the words of a queue to those of its heir, before it adds the counts. Reader: the sweeper.
 */
struct queue_reported {
	_Alignas(64) _Atomic uint64_t tallied[SCOREBOARD_FIGURES];	/* written to Redis, or being written */
	_Atomic uint64_t sent[SCOREBOARD_FIGURES];	/* sent to statsd; it only grows */
	/* The same of the classes that handlers named, by their index (classes.h); the last one is for all further
	 * names */
	_Atomic uint64_t classes_tallied[CLASS_NAMES + 1], classes_sent[CLASS_NAMES + 1];
};

#endif
