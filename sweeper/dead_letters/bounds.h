#ifndef SWEEPER_DEAD_LETTERS_BOUNDS_H
#define SWEEPER_DEAD_LETTERS_BOUNDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"
#include "sweeper/dead_letters/dead_letters.h"
#include "sweeper/dead_letters/page.h"

#define DEAD_LETTERS_BATCH 50	/* the most dead letters of one write to the archive */

/* The archive of a queue, as archiver.c runs it. */
struct archiver {
	struct subprocess subprocess;		/* reads or writes the archive */
	bool settling;			/* the subprocess reads the last batch */
	bool settled;			/* the last batch was read since this sweeper holds the archive */
	bool holds;			/* this sweeper holds the archive of this queue and node */
	/* the records of the last batch; while a subprocess writes, those that it writes */
	struct dead_letter_name *named;
	size_t nnamed;
	/* error is about a batch that could not be written: reading the file does not clear it */
	bool unwritten;
	struct task_error error;
};

/* The state of the task for the dead letters of a queue; zeroed at first. */
struct bounds {
	/* CLOCK_MONOTONIC: when to look next for a page where the numbers of records and dead letters differ */
	int64_t odd_at_ms;
	/* there are more dead letters than the bounds allow, and no archive or discard to remove them */
	bool over;
	int64_t over_logged_ms;		/* CLOCK_MONOTONIC */
	struct dead_letters_stuck stuck;	/* page.c */
	struct archiver archiver;
};

extern const struct task bounds_task;

static inline struct bounds *bounds_of(const struct sweeper_queue *q)
{
	return task_state(q, &bounds_task);
}

/* bounds.c. Copies the id of the record that was forwarded last. -1: error */
int forward_last_id(struct sweeper *s, const struct sweeper_queue *q, char forwarded[QUEUE_RECORD_ID_SIZE]);

/*
 * claim.c. Claims the dead letters with fate LEAVES, so that they are not redriven while the archive takes them. The
 * fate of one that is missing becomes STAYS. -1: error
 */
int claim_letters(struct sweeper *s, struct sweeper_queue *q, struct dead_letters *l);
int claim_release(struct sweeper *s, const struct sweeper_queue *q);

/* archiver.c. Subprocesses report their errors, which become archiver_error(). */
/* takes the archive of the queue; false: another sweeper of this master holds it */
bool archiver_hold(struct sweeper *s, struct sweeper_queue *q);
void archiver_let_go(struct sweeper_queue *q);
void archiver_settle(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms);
/* Writes those with fate LEAVES, at most DEAD_LETTERS_BATCH */
void archiver_write(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters *l, int64_t server_ms,
    int64_t now_ms);
/* the archive works, or nothing has to be written: clears its error */
void archiver_clear_error(struct sweeper *s, struct sweeper_queue *q);
/* false: a subprocess runs, or it failed and the next run is scheduled */
bool archiver_poll(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms);
void archiver_forget_batch(struct archiver *a);
void archiver_free(struct sweeper_queue *q);

#endif
