#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/child.h"
#include "common/digest.h"
#include "common/handler.h"
#include "common/message.h"
#include "common/queue.h"
#include "common/queue_notes.h"
#include "common/redis.h"
#include "common/redis_info.h"
#include "common/persistent.h"

/*
 * A worker's state, shared by the files of this folder only:
 *	worker.c	the loop and its order
 *	session.c	Redis: opening, incarnation, lease, answers in order
 *	adopt.c		reads what a tray really holds after a doubt, for example after Redis returned to an earlier state
 *	fetch.c		when and how to ask for messages
 *	batch.c		how many: by how long the last ones took
 *	fence.c		what runs ends before the lease does, if it must
 *	run.c		when a message is started
 *	expiry.c	that it has waited for too long
 *	run_exec.c	one process for each message
 *	run_persistent.c	one process that stays; common/persistent*.c: that process
 *	verdict.c	what the end of a handler means
 *	settle.c	what becomes of a message
 *	move.c		the moves that make it so
 *	tray.c		trays and what lies in them
 *	notes.c		notes beside messages of a shared queue; reads the secrets again for a seal that cannot be verified
 *	evidence.c	tells Redis about stops and trials, so that a sweeper can judge a death of this worker
 *	too_large.c	messages longer than message_max
 *	breaker.c	the queue's circuit breaker, shared by all its workers
 *
 * Life of a tray, and of each message in it:
 *	EMPTY -asked-> FETCHING -all answered-> FILLED -all done or gone-> DELETING -answered-> EMPTY
 *	WAITING -start-> RUNNING -success-> DONE (goes with its tray)
 *	   └─hand back─┐    └─failure─> MOVING -answered-> GONE
 *	               └───────────────^
 */
enum tray_state { TRAY_EMPTY, TRAY_FETCHING, TRAY_FILLED, TRAY_DELETING };
enum item_state { ITEM_WAITING, ITEM_RUNNING, ITEM_DONE, ITEM_MOVING, ITEM_GONE, ITEM_STATES };
/* PUT_OFF: as RETRY, of one that did not run. ASIDE: Redis refused the move before */
enum move { MOVE_DONE, MOVE_RETRY, MOVE_ESCAPE, MOVE_HAND_BACK, MOVE_PUT_OFF, MOVE_ASIDE, MOVES };

/* What moves other than DONE need besides the message. */
struct outcome {
	bool rewritten;			/* RETRY, PUT_OFF, HAND_BACK if it does not go back as it was, and ASIDE in place of a RETRY */
	struct buffer line;		/* if rewritten: replaces the wrapper; empty in a shared queue */
	struct queue_note note;		/* what is remembered beside it; text "": nothing new */
	int64_t delay_ms;		/* RETRY, PUT_OFF */
	struct record record;		/* ESCAPE, ASIDE; its strings are static, conf's, or the two below */
	char error_message[320];
	struct buffer stderr_tail;
};

struct item {
	size_t at, len;			/* in its tray's bytes, if kept is NULL */
	void *kept;			/* large message: the reply of Redis that holds it, instead of a copy; owned. NULL: none */
	const char *kept_raw;		/* in kept */
	enum item_state state;
	bool solo;			/* to be run alone: it may be what killed its worker */
	bool again;			/* the message reappeared in its tray (adopt.c): it may have run before */
	bool lost;			/* RUNNING: the claim is lost; its end changes nothing in Redis */
	int64_t done_ms, duration_ms;	/* DONE, for history: ms since 1970 */
	enum move move;			/* MOVING */
	uint64_t sent;			/* MOVING: which of all moves sent, and not answered yet; after a loss of connection: in doubt. 0: not sent */
	bool refused;			/* MOVING: Redis would not, the last time */
	uint8_t refusals;		/* MOVING: how often it would not, because of this message or of where it goes */
	struct outcome *outcome;	/* owned; NULL: none */
	struct wrapper *note;		/* what lay beside it; owned; NULL: nothing */
	char sha1[DIGEST_HEX_SIZE];			/* of the producer's message; "": nobody has asked for it yet */
};

struct tray {
	enum tray_state state;
	struct buffer bytes;
	struct buffer *outgrown;	/* earlier buffers that running handlers still read; freed when the tray is empty */
	size_t noutgrown;
	struct item *items;		/* oldest first */
	int n, cap;
	int count[ITEM_STATES];		/* how many are so; their sum is n */
	int next;			/* none before it is WAITING */
	int solos;			/* WAITING ones that are to be run alone */
	int asked, answered;		/* FETCHING: how many, and answers so far */
	bool sent, refused;		/* DELETING: as an item's */
	bool mixed;			/* the items are not in the order of the list, since some reappeared */
	enum { NOTES_KNOWN, NOTES_WANTED, NOTES_ASKED } notes;	/* nothing of it starts before they are known */
	bool doubtful;			/* a message has a seal that cannot be verified: read the secrets before any of the tray starts */
	uint64_t serial;		/* rises with each filling: the lowest is the oldest */
	int64_t started_us;		/* of its first message; 0: none started */
};

/* What the next answers are to. */
enum answer { ANSWER_SERVER, ANSWER_RENEW, ANSWER_TOO_LARGE, ANSWER_ADOPT, ANSWER_LEASE, ANSWER_COUNTS, ANSWER_FETCH, ANSWER_PAUSED, ANSWER_NOTES, ANSWER_SECRET, ANSWER_EVIDENCE, ANSWER_TIME, ANSWER_MOVE, ANSWER_DELETE, ANSWER_DEREGISTER };
#define ANSWERS_MAX 4096		/* a power of two; three trays of at most BATCH_MAX and a few more */
#define BATCH_MAX 1000			/* batch.max is no larger */

#define RENEWALS_MAX 64			/* a power of two. With four renewals a lease, a message may take sixteen leases to arrive */

struct expected {
	uint8_t answer;
	int8_t tray;			/* ADOPT FETCH NOTES SECRET MOVE DELETE */
	int16_t item;			/* MOVE; EVIDENCE: enum evidence */
};

struct place {
	int tray, item;			/* tray -1: none */
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
	bool refused;			/* Redis would not: nothing of owner is there */
	struct redis_identity server;	/* that had the trays when they were read last */
	struct redis_identity server_now;	/* that is asked for them */
	int64_t lease_until_ms;		/* CLOCK_BOOTTIME, from the last renewal sent that was answered */
	/*
	 * CLOCK_BOOTTIME at which each renewal was sent that is not answered yet, a ring. There may be several: while a large
	 * message arrives over a slow link, Redis executes the renewals at once, and their answers come behind the message.
	 */
	int64_t lease_sent_ms[RENEWALS_MAX];
	unsigned renewals_answered, renewals_sent;	/* only rise; sent - answered <= RENEWALS_MAX */
	int64_t next_lease_ms;		/* CLOCK_MONOTONIC; when the next one is sent */
	int64_t connect_at_ms;		/* CLOCK_MONOTONIC: not before */
	unsigned failures;		/* openings that failed in a row */
	struct expected expected[ANSWERS_MAX];	/* a ring */
	unsigned expect_first, expect_next;	/* counted on and on; next - first <= ANSWERS_MAX */
	int too_large_tray;		/* an entry longer than message_max lies in it; -1: not known of any */
	int64_t too_large_seen;		/* its length, if it was seen to begin with no wrapper; 0: not known */
	unsigned too_large_refusals;	/* as an item's */
	char weather[160];		/* the trouble logged last; "": fair */

	/* tray.c, fetch.c */
	struct tray trays[QUEUE_TRAYS];
	int next_tray;			/* trays are used in rotation */
	uint64_t fillings;
	int64_t fetch_at_ms;		/* not before: back-off after an error, the breaker */
	unsigned fetch_errors;		/* in a row */
	int64_t ahead_at_ms;		/* with messages in hand, not before: there were none to fill the window */
	int64_t oom_until_ms;		/* fetch by script until then */
	int64_t asked_us;		/* when the fetch under way went out */
	int64_t fetched_us;		/* when messages came last; 0: never */
	bool memory_freed;		/* since then */
	bool asking_paused;		/* nothing starts before the answer */
	int64_t paused_until_us;	/* it was, and is asked again with the next message; 0: it was not */
	bool probing;			/* the breaker is open, and what is in hand is its probe */
	struct redis unblock;		/* second connection: ends a blocked fetch at a stop */
	enum { UNBLOCK_IDLE, UNBLOCK_OPENING, UNBLOCK_SENT, UNBLOCK_DONE } unblocking;

	/* notes.c */
	int64_t notes_at_ms;		/* not before: back-off after an error */
	unsigned notes_errors;		/* in a row */

	/* evidence.c */
	bool stop_noted;		/* `stopping` was sent to this name's registration */
	struct place trial;		/* of the message on trial; tray -1: none */
	char trial_name[QUEUE_NOTE_FIELD];
	enum { TRIAL_UNTOLD, TRIAL_ASKED, TRIAL_TOLD, TRIAL_ENDING } trial_noted;	/* in this name's registration */
	int64_t evidence_at_ms;		/* CLOCK_MONOTONIC: do not send before, since Redis refused it */

	/* batch.c */
	double message_us;		/* what one takes by recent experience, each capped at batch.time; < 0: none yet */
	double message_bytes;		/* the same of sizes */
	int batch;			/* the next fetch asks for so many at most: doubles while they come full */

	/* fence.c */
	int fence_fd;			/* its timer, on CLOCK_BOOTTIME; -1: what runs may finish */
	int64_t fence_at_ms;		/* that is set to; 0: not */
	bool fenced;			/* what runs was told to end because of the lease */
	bool claim_gone;		/* another may run what runs here */

	/* run.c */
	const struct runner *runner;
	struct handler_job job;		/* started last */
	struct message message;		/* of job: views into its tray */
	int64_t progress_us;		/* when a running one started with nothing before it, or the last one ended */
	bool solo_running;
	int64_t may_start_us;		/* now_us of the last turn in which something was started: the lease was looked at in it */
	int64_t start_at_ms;		/* not before: no process could be started */
	unsigned start_errors;
	unsigned relieved;		/* hand-backs from behind a slow message since a message ended last */

	/* expiry.c */
	bool asking_time;		/* nothing starts before the answer */
	int64_t time_sent_ms;		/* CLOCK_BOOTTIME */
	uint64_t time_asked_serial, time_serial;	/* the server's clock was looked at after this filling; time_: and answered */
	bool time_agrees;		/* it was what we thought */

	/* run_exec.c */
	struct handler *handler;
	struct place running;

	/* run_persistent.c */
	struct persistent *persistent;
	struct place *given;		/* by serial modulo given_size, a power of two; tray -1: none */
	unsigned given_size;
	uint64_t next_serial;

	/* move.c */
	int64_t move_at_ms;		/* not before: back-off after an error */
	unsigned move_errors;		/* in a row; 0 only if nothing is refused */
	int refusals;			/* moves and deletions that are refused */
	uint64_t moves_sent;
	bool hopeless[MOVES];		/* a message was set aside because of this move, and none succeeded since */

	bool history_failed;		/* history.c: it was logged */

	/* worker.c */
	int64_t now_us;			/* CLOCK_MONOTONIC of this turn */
	enum order order;
	bool master_gone;
	int64_t give_up_at_ms;		/* told to go, and nothing runs: leaves then, settled or not; 0: not yet */
	uint32_t log_epoch;		/* of the scoreboard, at the last look */
	bool left;			/* ready to exit */
	bool clean;			/* nothing of ours is left in Redis */
	bool leaving;			/* deregistration sent */
};

bool worker_may_work(const struct worker *w);	/* fetch and start */

/* session.c */
void session_init(struct worker *w);
void session_tick(struct worker *w, int64_t now_ms);		/* opens, registers, renews the lease */
void session_io(struct worker *w, int64_t now_ms);		/* receives, hands answers out */
void session_flush(struct worker *w, int64_t now_ms);		/* sends */
void session_expect(struct worker *w, enum answer answer, int tray, int item, int64_t due_ms);
bool session_usable(const struct worker *w);			/* registered, and the lease cannot have run out */
void session_renew_incarnation(struct worker *w, const char *why);
void session_drop(struct worker *w, const struct redis_reply *error, int64_t now_ms);	/* closes because of it */
void session_adopted(struct worker *w);				/* the last tray has been looked into */
void session_trouble(struct worker *w, const char *what, const struct redis_reply *error);	/* logs a change */
void session_fair(struct worker *w);
int64_t session_deadline_ms(const struct worker *w);
void session_free(struct worker *w);

/* adopt.c */
void adopt_ask_server(struct worker *w, int64_t now_ms);	/* right before a renewal: which server has the trays */
void adopt_server_answer(struct worker *w, const struct redis_reply *reply);
void adopt_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);

/* too_large.c */
bool too_large_arriving(struct worker *w);		/* true: the connection must be closed because of it */
bool too_large_send(struct worker *w, int64_t now_ms);	/* right after a renewal. False: there is nothing to be done first */
bool too_large_answer(struct worker *w, const struct redis_reply *reply, int64_t now_ms);	/* true: the trays can be read now */
bool too_large_escapes(struct worker *w, struct place p);	/* the message that run_describe() described last */

/* tray.c */
struct item *tray_item(struct worker *w, struct place p);
void tray_add(struct worker *w, int tray, const char *raw, size_t len);		/* as WAITING, the newest */
void tray_add_reply(struct worker *w, int tray, const struct redis_reply *reply);	/* the same; takes the reply over if it is large */
void tray_set(struct tray *t, struct item *item, enum item_state state);	/* keeps the counts */
void tray_filled(struct worker *w, int tray);		/* all that was asked for is answered */
void tray_secrets_learnt(struct worker *w, int tray);	/* parses its waiting messages again */
void tray_empty(struct tray *t);
void tray_free_memory(struct worker *w);		/* of empty trays, if large batches needed it */
const char *tray_raw(const struct tray *t, const struct item *item);
struct place tray_next(struct worker *w);		/* the oldest WAITING one; tray -1: none, or its notes are not known */
bool tray_fetching(const struct worker *w);		/* an answer to a fetch is to come */
int tray_free(struct worker *w);			/* in rotation; -1: none */
int tray_count(const struct worker *w, enum item_state state);
bool tray_all_empty(const struct worker *w);
void tray_free_all(struct worker *w);

/* fetch.c */
void fetch_tick(struct worker *w, int64_t now_ms);
void fetch_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void fetch_paused_answer(struct worker *w, const struct redis_reply *reply);
void fetch_unblock_io(struct worker *w, int64_t now_ms);
int64_t fetch_deadline_ms(const struct worker *w, int64_t now_ms);

/* notes.c */
void notes_parse(struct worker *w, struct place p, struct message *m);	/* message_parse(), and what lay beside it */
void notes_tick(struct worker *w, int64_t now_ms);
void notes_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void notes_secret_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void notes_lost(struct worker *w);
bool notes_wanted(const struct worker *w);		/* of some tray they are not known */
int64_t notes_deadline_ms(const struct worker *w, int64_t now_ms);

/* evidence.c */
void evidence_tick(struct worker *w, int64_t now_ms);
void evidence_answer(struct worker *w, int what, const struct redis_reply *reply, int64_t now_ms);
void evidence_lost(struct worker *w);		/* a new name or connection: its registration says nothing yet */
/* false: the message needs a trial, and may not start yet: another trial is under way here, or Redis does not know of this one. */
bool evidence_may_start(struct worker *w, struct place p);
int64_t evidence_deadline_ms(const struct worker *w, int64_t now_ms);

/* batch.c */
int batch_size(const struct worker *w);			/* for the next fetch; 1: the next is fetched when this one is done */
void batch_learn(struct worker *w, int64_t us, int n);	/* n messages took so long together */
void batch_learn_size(struct worker *w, size_t len);
void batch_full(struct worker *w, bool full);		/* whether a fetch got all it asked for */
int64_t batch_limit_us(const struct worker *w);		/* batch.time */

/* fence.c */
void fence_init(struct worker *w);
void fence_free(struct worker *w);
bool fence_may_start(const struct worker *w);		/* what starts now has time before it would have to end */
void fence_announce(struct worker *w);			/* to the master, before anything is started: when it must be dead */
void fence_tick(struct worker *w, int64_t now_ms);
bool fence_pollfd(const struct worker *w, struct pollfd *p);	/* false: nothing to poll for */

/* run.c */
/* How handlers are run. At most RUNNER_POLLFDS descriptors. */
struct runner {
	void (*init)(struct worker *w);
	void (*free)(struct worker *w);
	int (*room)(const struct worker *w);			/* how many more it would take now */
	bool (*ready)(const struct worker *w);			/* false: its handler is still starting up */
	void (*start)(struct worker *w, int64_t now_ms);	/* as many waiting messages as it takes */
	void (*end)(struct worker *w, int64_t now_ms);		/* settles what has ended */
	void (*flush)(struct worker *w);			/* one write a turn */
	bool (*go_on)(struct worker *w);			/* more, without a poll between. True: there was some */
	void (*stop)(struct worker *w, int64_t now_ms);		/* TERM, after kill_grace KILL. Again: nothing */
	void (*kill)(struct worker *w, int64_t now_ms);		/* KILL, now */
	bool (*dismiss)(struct worker *w, int64_t now_ms);	/* nothing runs any more: true when no process is left */
	size_t (*pollfds)(const struct worker *w, struct pollfd *p);
	void (*io)(struct worker *w, const struct pollfd *p, size_t n, int64_t now_ms);	/* p NULL: the poll found nothing */
	int64_t (*deadline_ms)(const struct worker *w);
};
#define RUNNER_POLLFDS 4
extern const struct runner run_exec, run_persistent;

void run_init(struct worker *w);
void run_tick(struct worker *w, int64_t now_ms);
bool run_may_start(const struct worker *w);		/* ours, and for long enough */
struct place run_next(struct worker *w);		/* the next that may start now; tray -1: none */
void run_describe(struct worker *w, struct place p, struct handler_job *job);	/* and w->message */
void run_started(struct worker *w, struct place p, const struct handler_job *job);
void run_progressed(struct worker *w, int n);		/* n have ended since the last time */
void run_put_off(struct worker *w, int64_t now_ms);	/* no process could be started: errno */
bool run_is_slow(const struct worker *w);		/* the running one takes longer than batch.time */
int64_t run_deadline_ms(struct worker *w, int64_t now_ms);

/* expiry.c */
/* The message that run_describe() described last is not started: it escapes, or (asking_time) nobody knows yet. */
bool expiry_holds(struct worker *w, struct place p, int64_t now_ms);
void expiry_time_answer(struct worker *w, const struct redis_reply *reply);

/* settle.c */
struct failure {			/* why a message is not done */
	enum conf_outcome verdict;	/* FAIL, RETRY, ESCAPE */
	const char *class;
	char text[320];
	int64_t delay_ms;		/* RETRY: -1: by back-off */
	const struct handler_result *result;	/* how the handler ended; NULL: it goes on */
	bool mute;			/* a persistent handler ended and had answered nothing */
};
void settle_done(struct worker *w, struct place p, int64_t duration_ms);
void settle_failed(struct worker *w, struct place p, const struct failure *f, int64_t now_ms);
void settle_unrunnable(struct worker *w, const char *stage, const char *error, int64_t now_ms);	/* opens the breaker */
void settle_escape(struct worker *w, struct place p, const char *class, const char *message);	/* it never ran */
void settle_unknown_version(struct worker *w, struct place p);
void settle_expired(struct worker *w, struct place p, const char *message);
enum settle_back { SETTLE_AS_IT_WAS, SETTLE_REDELIVERED, SETTLE_SOLO };	/* SOLO: redelivered, and to be run alone */
void settle_hand_back(struct worker *w, struct place p, enum settle_back how);
/* It did not run and may not yet: it waits in delayed. Not in a shared queue, which has none. */
void settle_put_off(struct worker *w, struct place p, int64_t delay_ms);
/* Redis refuses what was chosen for it, and said why. */
void settle_set_aside(struct worker *w, struct place p, const char *error);
/* All but what runs, and `but` (tray -1: none), leaves: what is done is acknowledged, what waits handed back. */
void settle_relieve(struct worker *w, struct place but);
int settle_max_attempts(const struct worker *w, const struct message *m);

/* verdict.c */
void verdict_of_exec(struct worker *w, struct place p, const struct handler_result *result, int64_t now_ms);
void verdict_describe(struct failure *f, const struct handler_result *result);	/* class, text, result; by verdict */

/* move.c */
void move_choose(struct worker *w, struct place p, enum move move);
void move_tick(struct worker *w, int64_t now_ms);
bool move_hand_back_waits(const struct worker *w);	/* one is chosen and not sent: what is fetched now would overtake it */
void move_record_failed(const struct worker *w);	/* logs that a message escaped without its record */
void move_answer(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms);
void move_reopen_tray(struct worker *w, int tray);	/* a DELETING one, after its list was read */
/* After so many refusals, about ten seconds, a message is set aside. By then a short failure is over, or an operator has replaced the key. */
#define MOVE_ATTEMPTS 8
void move_delete_answer(struct worker *w, int tray, const struct redis_reply *reply, int64_t now_ms);
void move_gone(struct worker *w, struct place p);	/* out of its tray */
void move_close_tray(struct worker *w, int tray);	/* DELETING or EMPTY if nothing else is left to do in it */
int64_t move_deadline_ms(const struct worker *w, int64_t now_ms);

/* history.c */
void history_done(struct worker *w, int tray);		/* sends the acknowledgement of a tray; queue_done() and what is kept of it */
void history_done_one(struct worker *w, struct place p, const struct queue_entry *entry);
void history_answer(struct worker *w, const struct redis_reply *reply);	/* to one of these, an integer */

/* breaker.c: pure but for the shared words */
#define BREAKER_MUTE 16		/* if breaker.failures is 0: the threshold for handlers that end without an answer */
bool breaker_may_fetch(struct board_queue *b, int64_t now_ms);	/* true once a probe interval when open */
int64_t breaker_until_ms(const struct board_queue *b);		/* 0: closed */
bool breaker_open(struct board_queue *b, int64_t now_ms);	/* true: it was closed */
bool breaker_failed(struct board_queue *b, uint64_t message, int threshold, int64_t now_ms);	/* true: this opened it */
bool breaker_succeeded(struct board_queue *b);		/* a message was done: no failures in a row any more. true: this closed the breaker */
bool breaker_answered(struct board_queue *b, int threshold);	/* the handler answered, but not OK: it works at least. true: this closed the breaker */
bool breaker_concerns(const struct board_queue *b, uint32_t generation);	/* false: the worker is of an older generation, so its failures are no evidence */
void breaker_note_answer(struct board_queue *b, uint32_t generation);
bool breaker_knows_answers(const struct board_queue *b, uint32_t generation);	/* true: a handler of this generation has answered */
uint64_t breaker_message_id(struct message *m);		/* the same message gives the same */

#endif
