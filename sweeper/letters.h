#ifndef SWEEPER_LETTERS_H
#define SWEEPER_LETTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/letters_pair.h"
#include "sweeper/errand.h"
#include "sweeper/letters_page.h"
#include "sweeper/task.h"

#define LETTERS_BATCH 50	/* at most so many go into the archive at once */

/* Where the sweeper is with the dead letters of a queue; zeroed: nowhere. */
struct bounds {
	int64_t odd_at_ms;		/* CLOCK_MONOTONIC: the next look for a page because there are not as many records as dead letters */
	struct errand errand;		/* at the archive */
	bool settling;			/* that is what it does: finding what the last batch names */
	bool settled;			/* since we hold the archive */
	bool holds;			/* the archive of this queue and node is ours */
	struct letter_name *named;	/* in the archive; being written there while an errand does so */
	size_t nnamed;
	bool over;			/* more than bounds allow, and nothing that lets them be removed */
	int64_t over_logged_ms;		/* CLOCK_MONOTONIC */
	struct letters_stuck stuck;	/* letters_page.c */
	bool unwritten;			/* archive_trouble is that a batch could not be written: that the file can be read ends it not */
	struct trouble archive_trouble;
};

static inline struct bounds *bounds_of(const struct swept *q)
{
	return task_state(q, TASK_letters);
}

bool letters_are_over(const struct swept *q);		/* more than bounds allow, and nothing can remove them */
int letters_forwarded(struct sweeper *s, const struct swept *q, char forwarded[QUEUE_RECORD_ID_SIZE]);	/* letters.c. -1: error */

/* letters_claim.c. Those that LEAVE are kept from being redriven while the archive takes them; who is not there any more STAYS. -1: error */
int letters_claim(struct sweeper *s, struct swept *q, struct letters *l);
int letters_release(struct sweeper *s, const struct swept *q);

/* letters_archive.c. Errands say what they did to bounds; errors are told as troubles. */
bool letters_hold(struct sweeper *s, struct swept *q);		/* the archive is ours; false: another sweeper of this master is at it */
void letters_let_go(struct swept *q);
void letters_settle(struct sweeper *s, struct swept *q, int64_t now_ms);
/* Writes those that LEAVE, at most LETTERS_BATCH */
void letters_archive(struct sweeper *s, struct swept *q, const struct letters *l, int64_t server_ms, int64_t now_ms);
void letters_writable(struct sweeper *s, struct swept *q);	/* or nothing is to be written: its trouble is over */
bool letters_are_unarchived(const struct swept *q);		/* some are to leave, and the archive takes none */
bool letters_look_at_errand(struct sweeper *s, struct swept *q, int64_t now_ms);	/* false: it is under way, or failed; the next run is set */
void letters_forget_batch(struct bounds *b);
void letters_free_state(struct swept *q);

#endif
