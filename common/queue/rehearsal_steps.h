#ifndef COMMON_QUEUE_REHEARSAL_STEPS_H
#define COMMON_QUEUE_REHEARSAL_STEPS_H

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/moves.h"
#include "common/queue/notes.h"

/* The steps of a rehearsal share this struct. Only rehearsal.c and the files of its steps include the header. */
struct rehearsal {
	struct queue_keys keys;
	struct queue_owner first, second;	/* two owners; the second takes over from the first */
	struct message message;
	struct buffer raw;
	struct buffer line;			/* the wrapper; empty: the message has none */
	struct queue_change change;
	struct queue_entry by_value, by_place;
	char *rescue;				/* rescue list of the second */
	struct queue_note note;
	unsigned what;				/* of queue_rehearse() */
};

/* Each appends one command, as all steps do. In this order: one is refused, which leaves the mark of a worker that
 * waits; one is given, to a hash without seats; and goes back, which wakes. */
typedef void rehearsal_step(struct redis *r, struct rehearsal *h);
rehearsal_step queue_rehearse_seat_refused, queue_rehearse_seat, queue_rehearse_seat_back;
rehearsal_step queue_rehearse_wake, queue_rehearse_await_seat, queue_rehearse_seats_leave;

#endif
