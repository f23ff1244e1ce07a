#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/child.h"
#include "common/handler.h"
#include "common/message.h"
#include "common/queue.h"
#include "common/redis.h"

/*
 * A worker's state, shared by the files of this folder only:
 *	worker.c	the loop and its order
 *	session.c	Redis: opening, incarnation, lease, adoption, answers in order
 *	fetch.c		when and how to ask for a message
 *	run.c		the handler's start and end
 *	settle.c	what becomes of a message, and the move that makes it so
 *	breaker.c	the queue's circuit breaker, shared by all its workers
 *
 * Life of a tray:
 *	EMPTY -fetch-> FETCHING -message-> HELD -start-> RUNNING -end-> SETTLING -answer-> EMPTY
 *	                  └─nil─> EMPTY      └──────hand back─────────────^
 */
enum tray_state { TRAY_EMPTY, TRAY_FETCHING, TRAY_HELD, TRAY_RUNNING, TRAY_SETTLING };

enum move { MOVE_DONE, MOVE_RETRY, MOVE_ESCAPE, MOVE_HAND_BACK };

struct tray {
	enum tray_state state;
	struct buffer raw;		/* HELD and later: the message, own copy */
	struct message message;		/* views into raw */
	bool lost;			/* RUNNING: the claim is lost; its end changes nothing in Redis */
	/* SETTLING */
	enum move move;
	bool sent;			/* on this connection */
	struct buffer instead;		/* RETRY, HAND_BACK: what comes back */
	int64_t delay_ms;		/* RETRY */
	struct record record;		/* ESCAPE; strings are static, conf's, or the three below */
	char error_message[320];
	struct buffer stderr_tail;
};

/* What the next answer is to. */
enum answer { ANSWER_RENEW, ANSWER_ADOPT, ANSWER_LEASE, ANSWER_FETCH, ANSWER_SETTLE, ANSWER_DEREGISTER };
#define ANSWERS_MAX 32

struct expected {
	enum answer answer;
	int tray;			/* ADOPT, FETCH, SETTLE */
};

struct worker {
	const struct child *child;
	const struct conf_queue *conf;
	struct slot *slot;
	struct board_queue *board;
	char name[QUEUE_NAME_MAX + 16];	/* "mail/2": in the log and the record */
	struct queue_keys keys;

	/* session.c */
	struct redis_target target;
	char client_name[2 * QUEUE_NAME_MAX + 32];	/* CLIENT SETNAME */
	struct redis redis;
	bool readable;			/* the poll says so */
	struct incarnation id;
	char incarnation[INCARNATION_SIZE];
	struct queue_owner owner;	/* of incarnation; keys NULL: none yet */
	bool confirmed;			/* owner's first renewal was answered: it may have trays */
	char previous_incarnation[INCARNATION_SIZE];
	struct queue_owner previous;	/* the last confirmed one until owner is; keys NULL: none */
	bool registered;		/* owner's renewal was answered on this connection, and its trays read */
	bool renewing;			/* it was sent */
	int64_t lease_until_ms;		/* CLOCK_BOOTTIME, from the last renewal sent that was answered */
	int64_t lease_sent_ms;		/* CLOCK_BOOTTIME of the one under way; 0: none */
	int64_t next_lease_ms;		/* CLOCK_MONOTONIC */
	int64_t connect_at_ms;		/* CLOCK_MONOTONIC: not before */
	unsigned failures;		/* openings that failed in a row */
	struct expected expected[ANSWERS_MAX];
	int nexpected;
	char weather[160];		/* the trouble logged last; "": fair */

	/* fetch.c */
	struct tray trays[QUEUE_TRAYS];
	int next_tray;			/* trays are used in rotation */
	int64_t fetch_at_ms;		/* not before: back-off after an error, the breaker */
	unsigned fetch_errors;		/* in a row */
	int64_t oom_until_ms;		/* fetch by script until then */
	struct redis unblock;		/* second connection: ends a blocked fetch at a stop */
	enum { UNBLOCK_IDLE, UNBLOCK_OPENING, UNBLOCK_SENT, UNBLOCK_DONE } unblocking;

	/* run.c */
	struct handler *handler;
	struct handler_job job;
	int running;			/* tray; -1: none */
	int64_t start_at_ms;		/* not before: no process could be made */
	unsigned start_errors;

	/* settle.c */
	int64_t settle_at_ms;		/* not before: back-off after an error */
	unsigned settle_errors;

	/* worker.c */
	enum order order;
	bool master_gone;
	int64_t give_up_at_ms;		/* HAND_BACK and nothing runs: leaves then, settled or not; 0: not yet */
	uint32_t log_epoch;		/* of the scoreboard, at the last look */
	bool left;			/* ready to exit */
	bool clean;			/* nothing of ours is left in Redis */
	bool leaving;			/* deregistration sent */
};

/* Why nothing may be fetched or started now. */
bool worker_may_work(const struct worker *w);

/* session.c */
void session_init(struct worker *w);
void session_tick(struct worker *w, int64_t now_ms);		/* opens, registers, renews the lease */
void session_io(struct worker *w, int64_t now_ms);		/* receives, hands answers out */
void session_flush(struct worker *w, int64_t now_ms);	/* sends */
void session_expect(struct worker *w, enum answer answer, int tray, int64_t due_ms);
bool session_usable(const struct worker *w);			/* registered, and the lease cannot have run out */
void session_renew_incarnation(struct worker *w, const char *why);
void session_trouble(struct worker *w, const char *what, const struct redis_reply *error);	/* logs a change */
void session_fair(struct worker *w);
int64_t session_deadline_ms(const struct worker *w);
void session_free(struct worker *w);

/* fetch.c */
void fetch_tick(struct worker *w, int64_t now_ms);
void fetch_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void fetch_hold(struct worker *w, int tray, const char *raw, size_t len);	/* the tray now holds this message */
void fetch_unblock_io(struct worker *w, int64_t now_ms);
bool fetch_outstanding(const struct worker *w);
int64_t fetch_deadline_ms(const struct worker *w, int64_t now_ms);

/* run.c */
void run_tick(struct worker *w, int64_t now_ms);
void run_end(struct worker *w, int64_t now_ms);			/* if the handler has finished */
int64_t run_deadline_ms(const struct worker *w);

/* settle.c */
void settle_result(struct worker *w, int tray, const struct handler_result *result, int64_t now_ms);
void settle_escape(struct worker *w, int tray, const char *class, const char *message);	/* it never ran */
void settle_hand_back(struct worker *w, int tray, bool started);
void settle_tick(struct worker *w, int64_t now_ms);
void settle_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void settle_empty(struct worker *w, int tray);
int64_t settle_deadline_ms(const struct worker *w);

/* breaker.c: pure but for the shared words */
bool breaker_may_fetch(struct board_queue *b, int64_t now_ms);	/* true once a probe interval when open */
int64_t breaker_until_ms(const struct board_queue *b);		/* 0: closed */
bool breaker_open(struct board_queue *b, int64_t now_ms);	/* true: it was closed */
bool breaker_failed(struct board_queue *b, uint64_t message, int threshold, int64_t now_ms);	/* true: this opened it */
bool breaker_close(struct board_queue *b);			/* true: it was open */
uint64_t breaker_message_id(const struct message *m);		/* the same message gives the same */

#endif
