#ifndef COMMON_QUEUE_SEATS_H
#define COMMON_QUEUE_SEATS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/queue/moves.h"
#include "common/redis/redis.h"

/*
 * The seats of a queue with max_in_flight: a message runs only in a seat, and all hosts together have so many. A seat
 * belongs to an incarnation, as a tray does (common/queue/scripts/seats.lua). The hash has, for each name, "N QUEUE",
 * and marks under other fields. As in common/queue/moves.h, each function appends one script or command. All need
 * queue_keys.seats.
 */
struct queue_seats_limit {
	int64_t max;
	int64_t loaded_ms;		/* ms since 1970: when a host loaded it; of different ones the last counts */
	char node[QUEUE_NAME_MAX + 1];	/* that host */
};

struct queue_seats_wish {
	uint64_t first;			/* no generation of this process is lower */
	int64_t held, wanted;		/* seats, both absolute; held <= wanted: the name keeps these in any case */
	bool from_ingress;		/* no more are added than messages wait there */
	const struct redis_identity *server;	/* of this connection */
	int64_t watched_ms;		/* so long it has certainly been this server, by clocks of this host */
	int64_t up_ms;			/* the same, if the start that it tells is believed; >= watched_ms */
	bool known;			/* it was asked since the name was registered: it is not an earlier one */
	bool recount;			/* all seats are counted, also if the name asks for no other number of them */
	const struct queue_seats_limit *limit;
};
/* -> ARRAY for queue_seats_parse(). Asking again changes nothing. */
void queue_seats(struct redis *r, const struct queue_owner *o, const struct queue_seats_wish *wish);
#define QUEUE_SEATS_NO_LEASE (-1)
#define QUEUE_SEATS_OTHER_SERVER (-2)	/* of the hash and of the connection: one is older */
struct queue_seats_answer {
	int64_t has;			/* so many seats the name has now; or one of the above */
	int64_t taken, max;		/* of all names; the limit that counts */
	int64_t quiet_ms;		/* so long no worker gets a seat, since Redis may have gone back in time */
	int64_t waiting;		/* with from_ingress: so many messages wait there; else above 0 */
};
int queue_seats_parse(const struct redis_reply *reply, struct queue_seats_answer *out);	/* -1: another form */

/* Waits for a seat that becomes free. -> ARRAY; NIL: none did in that time, or CLIENT UNBLOCK */
void queue_seats_await(struct redis *r, const struct queue_keys *k, int64_t timeout_ms);

/* ---- the whole hash ---- */

void queue_seats_read(struct redis *r, const struct queue_keys *k);	/* -> ARRAY for queue_seats_each() */
struct queue_seats_seen {
	int64_t taken;			/* by all names */
	struct queue_seats_limit limit;	/* max 0: not known */
	bool foreign;			/* it has a field, or a value, that quredis does not write */
	char strange[64];		/* the first such field; readable */
};
/* value: "N QUEUE", with n and queue; all are valid during the call */
typedef void queue_seats_visit(void *arg, const char *incarnation, int64_t n, const char *queue, const char *value);
/* Calls visit (NULL: none) for each name that has seats. -1: the reply is none of a hash */
int queue_seats_each(const struct redis_reply *reply, struct queue_seats_seen *seen, queue_seats_visit *visit,
    void *arg);
/*
 * Takes the seats of a name away that died at that time, by the hash `workers`, if its value is still that one.
 * -> INTEGER 1: taken away
 */
void queue_seats_leave(struct redis *r, const struct queue_keys *k, const char *workers, const char *incarnation,
    int64_t died_at_ms, const char *value);
/* The hash expires a day after the last call, so that none stays of a queue that no host has any more. -> INTEGER */
void queue_seats_keep(struct redis *r, const struct queue_keys *k);

#endif
