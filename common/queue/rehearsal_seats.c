/* The steps of a rehearsal that take and free seats. */
#include "common/queue/rehearsal_steps.h"

#include "common/queue/seats.h"

#define NOBODY "rehearsal"
#define LONG_UP_MS INT64_C(1000000000)	/* longer than a lease: the server gives seats at once */

static void ask(struct redis *r, struct rehearsal *h, int64_t max, int64_t wanted, bool known)
{
	queue_seats(r, &h->second, &(struct queue_seats_wish){ .wanted = wanted, .from_ingress = true, .known = known,
	    .server = &(struct redis_identity){ .up_ms = LONG_UP_MS }, .up_ms = LONG_UP_MS,
	    .limit = &(struct queue_seats_limit){ max, 0, NOBODY } });
}

void queue_rehearse_seat_refused(struct redis *r, struct rehearsal *h)
{
	ask(r, h, 0, 1, true);
}

void queue_rehearse_seat(struct redis *r, struct rehearsal *h)
{
	ask(r, h, 1, 1, true);
}

void queue_rehearse_seat_back(struct redis *r, struct rehearsal *h)
{
	ask(r, h, 1, 0, false);
}

/* The scripts go on if they may not wake; here Redis says why. */
void queue_rehearse_wake(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "RPUSH %s " NOBODY, h->keys.seats_free);
}

/* An entry is there, so this does not wait. */
void queue_rehearse_await_seat(struct redis *r, struct rehearsal *h)
{
	queue_seats_await(r, &h->keys, 1000);
}

void queue_rehearse_seats_leave(struct redis *r, struct rehearsal *h)
{
	queue_seats_leave(r, &h->keys, h->keys.workers, h->first.incarnation, 0, NOBODY);
}
