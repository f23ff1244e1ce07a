#ifndef WORKER_UNDELIVERABLE_H
#define WORKER_UNDELIVERABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

struct worker;

/* Owner: undeliverable.c. The reading of the trays one message at a time, and the message that may not be
 * deliverable. */
struct undeliverable {
	bool last_was_closed;		/* the last connection was lost in that way */
	/* connections that the server closed between a renewal and the last answer about the trays, since they were
	 * read last */
	int losses;
	int tray, at;			/* what is read now: a tray, and an index from the pop end, -1 the oldest */
	struct buffer head, tail;	/* of that message */
	size_t size;			/* of that message */
	bool requested;			/* that message was requested, alone, and has not arrived */
	bool too_large;			/* it is longer than message_max, and was not requested */
	const char *class;		/* of the message whose escape was sent; constant */
	char id[MESSAGE_ID_MAX + 1], why[256];	/* of that message: for the log */
	struct adopted *read;		/* messages of the tray that have arrived, oldest first; owned */
	size_t nread;
	/* The message on which the connection broke while only its bytes were awaited, how often in a row, and on which
	 * server. */
	struct suspect {
		size_t size;
		uint64_t sum;		/* of its ends */
		int times;
		struct redis_identity server;
	} suspect;
	/* the smallest message that this server could not send; size 0: none is known */
	struct {
		size_t size;
		struct redis_identity server;
	} proved;
	/* client-output-buffer-limit of normal clients, bytes; 0: none, or Redis does not tell */
	int64_t limit;
};

void undeliverable_lost(struct worker *w);
/* the next reading of the trays is one by one; not before Redis has answered the renewal */
bool undeliverable_reads_singly(const struct worker *w);
void undeliverable_read_trays(struct worker *w);		/* singly, or as adopt_read_trays() */
void undeliverable_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
void undeliverable_adopted(struct worker *w);
void undeliverable_free(struct worker *w);

#endif
