#ifndef WORKER_SESSION_H
#define WORKER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/component.h"
#include "worker/env.h"
#include "worker/retry.h"

/* Requests without an answer. A power of two: three trays of at most BATCH_MAX messages, and a few more. */
#define ANSWERS_MAX 4096

struct expected {
	uint8_t answer;
	int8_t tray;			/* ADOPT FETCH NOTES SECRET MOVE DELETE */
	int16_t item;			/* MOVE; EVIDENCE: enum evidence_kind; UNDELIVERABLE: a step */
};

struct answers {
	struct expected ring[ANSWERS_MAX];
	unsigned first, next;		/* never decrease; next - first <= ANSWERS_MAX */
};

/* Renewals without an answer. A power of two. With four renewals in a lease, a message may take sixteen leases to
 * arrive. */
#define RENEWALS_MAX 64

struct lease {
	/* CLOCK_BOOTTIME: end of the lease, counted from the last renewal that was sent and answered */
	int64_t until_ms;
	/*
	 * A ring: the CLOCK_BOOTTIME at which each renewal without an answer was sent. There may be several: while a
	 * large message arrives over a slow link, Redis executes the renewals at once, but their answers follow the
	 * message.
	 */
	int64_t sent_ms[RENEWALS_MAX];
	unsigned answered, sent;	/* never decrease; sent - answered <= RENEWALS_MAX */
	int64_t next_ms;		/* CLOCK_MONOTONIC when the next renewal is due */
};

/* Owner: session.c. The connection to Redis, the incarnation under which the worker owns its trays, and the lease. */
struct session {
	const struct components *components;	/* that get answers and news of the connection */
	struct redis_target target;
	char client_name[2 * QUEUE_NAME_MAX + 32];	/* CLIENT SETNAME */
	struct redis redis;
	uint32_t announced_master;	/* the word of the scoreboard when the connection was opened last */
	uint64_t target_mark;		/* redis_target_mark() of the target alone */
	/* the word of the scoreboard at the last attempt, or when the connection was usable */
	uint32_t reached;
	int64_t opened_ms;		/* CLOCK_MONOTONIC: the last attempt */
	bool readable;			/* the last poll found input */
	struct incarnation id;
	char incarnation[INCARNATION_SIZE];
	struct queue_owner owner;	/* names, lease and trays of the current incarnation; keys NULL: none yet */
	bool confirmed;			/* the first renewal of owner was answered: it may have trays */
	struct queue_owner previous;	/* until owner is confirmed: the last confirmed owner; keys NULL: none */
	/* a renewal of owner was answered on this connection, and its trays were read */
	bool registered;
	bool renewing;			/* the renewal of this connection was sent */
	bool untouched;			/* no sweeper has taken messages since the trays were read last */
	bool refused;			/* Redis refused the renewal: it has nothing of owner */
	struct lease lease;
	struct redis_identity server;	/* as it has answered on this connection */
	int64_t answered_us;		/* CLOCK_MONOTONIC: when the last answer was read */
	struct retry retry;		/* the back-off before the connection is opened again */
	struct answers answers;
};

void session_init(struct worker *w, const struct components *components);	/* keeps components */
void session_tick(struct worker *w, int64_t now_ms);		/* opens, registers, and renews the lease */
void session_polled(struct session *s, bool readable);
/* receives, and passes each answer to the component that waits for it */
void session_io(struct worker *w, int64_t now_ms);
void session_flush(struct worker *w, int64_t now_ms);		/* sends */
void session_expect(struct worker *w, enum answer answer, int tray, int item, int64_t due_ms);
/* true: registered, and the lease cannot have expired */
bool session_usable(const struct worker *w);
void session_renew_incarnation(struct worker *w, const char *why);
/* closes the connection because of the error */
void session_drop(struct worker *w, const struct redis_reply *error, int64_t now_ms);
void session_adopted(struct worker *w);				/* every tray has been read */
int64_t session_deadline_ms(const struct worker *w, int64_t now_ms);
answer_taker session_server_answer, session_renew_answer, session_lease_answer, session_counts_answer;
void session_free(struct worker *w);

#endif
