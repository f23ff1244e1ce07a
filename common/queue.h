#ifndef COMMON_QUEUE_H
#define COMMON_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"
#include "common/message.h"
#include "common/redis.h"

/*
 * A queue in Redis (docs/design.md): its keys, the moves of a message between them, the registry and
 * the records. Every function that "appends" sends one command or script and returns at once; its
 * answer comes through redis_take()/redis_wait() in order. All moves copy first and remove second.
 */
struct conf_queue;

/* ---- keys (queue_keys.c) ---- */

#define QUEUE_NAME_MAX 64
#define QUEUE_NAME_BYTES "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"	/* of names of queues and nodes */
#define QUEUE_TRAYS 3
#define INCARNATION_SIZE 160	/* "<node>.<boot>.<slot>.<generation>" and NUL */

struct queue_keys {		/* every string owned */
	char *name, *ingress, *transit, *escape;
	char *delayed, *delayed_apart, *done, *stats, *paused, *sweeper, *notes;	/* ingress + suffix */
	char *workers, *aside, *aside_log;			/* transit + suffix */
	char *log, *forwarded, *claimed;			/* escape + suffix */
	char *registered;					/* quredis:queue:<name> */
	struct message_keys lines;	/* which lines before its messages count; views into this */
	bool shared;		/* other programs fetch from it: nothing of ours is put before a message, but into notes */
};

#define QUEUE_REGISTRY "quredis:queues"

void queue_keys_init(struct queue_keys *k, const char *name, const char *ingress, const char *transit, const char *escape);
void queue_keys_from_conf(struct queue_keys *k, const struct conf_queue *q);
void queue_keys_default(struct queue_keys *k, const char *name);	/* lists called as a queue's are by default */
void queue_keys_free(struct queue_keys *k);

/* Keys of one incarnation; each a new string. tray 0..QUEUE_TRAYS-1, or QUEUE_RESCUE. */
#define QUEUE_RESCUE QUEUE_TRAYS
char *queue_tray_key(const struct queue_keys *k, const char *incarnation, int tray);
#define QUEUE_NOBODY "none"			/* stands for an incarnation where there is none */
char *queue_lease_key(const struct queue_keys *k, const char *incarnation);	/* NULL: of nobody; this key is never there */
char *queue_rate_key(const struct queue_keys *k, int64_t minute);	/* figures of one minute since 1970 */
char *queue_bare_rescue_key(const struct queue_keys *k);	/* where the bare transit list is returned from */
char *queue_rescue_field(const char *incarnation);	/* of the workers hash: how many a rescue list held; NULL: the bare one */

struct incarnation {		/* parts of the name */
	char node[QUEUE_NAME_MAX + 1];
	uint64_t boot;
	int slot;
	uint64_t generation;
};
void incarnation_format(const struct incarnation *i, char out[INCARNATION_SIZE]);
int incarnation_parse(struct incarnation *i, const char *s);	/* -1: not one */

/* ---- scripts (queue_scripts.c) ---- */

void queue_scripts_load(struct redis *r);	/* appends SCRIPT LOAD of each */

/* ---- the secrets that seal lines (queue_secret.c) ---- */

/* From now on each opening of r loads the scripts and learns the secrets. create: it also creates the first secret if Redis has none. */
void queue_greets(struct redis *r, bool create);
/* Reads the secrets, and restores those that this process knows and Redis lacks. create: as above. -> STRING for queue_secret_learn() */
void queue_secret(struct redis *r, bool create);
int queue_secret_learn(const struct redis_reply *reply);	/* -1: the reply has no secret; what is known stays */

/* ---- moves (queue_moves.c) ---- */

/*
 * A message where it lies, as a script is told of it. The payload of one that is longer than QUEUE_BY_VALUE_MAX does not go
 * back to Redis: it is named by its place, its length and its ends.
 */
#define QUEUE_BY_VALUE_MAX 4096		/* a shorter one is cheaper to send than to serialise its move with its neighbours' */
struct queue_entry {
	const char *raw;		/* as it lies there */
	size_t len;
	int64_t at;			/* its index, as LINDEX counts; QUEUE_ANYWHERE: found by its value, whatever its length */
	/*
	 * of, moved: what the owner of a tray believes of it: how many entries it has, and how many left it alive under this lease.
	 * Of the rescue list of a dead owner, which has no lease, moved is 0.
	 * If Redis knows other numbers it has returned to an earlier state, the place may hold another message, and nothing
	 * moves. of 0: not a tray, or not known; nothing is compared.
	 */
	int64_t of, moved;
	const char *tail;		/* its last QUEUE_ENTRY_ENDS bytes, if raw has the beginning only; NULL: raw is all of it */
	const char *sha1;		/* what the whole must have, for moves out of escape; NULL: its ends are enough */
};
#define QUEUE_ENTRY_ENDS 1024		/* so many bytes of each end are compared */
#define QUEUE_ANYWHERE INT64_MIN
/* How an entry is changed on its way: line comes in place of its first `strip` bytes, the wrapper. */
struct queue_change {
	const struct buffer *line;
	size_t strip;
};

/* One owner's view: whose trays, under which lease. */
struct queue_owner {
	const struct queue_keys *keys;
	const char *incarnation;
	char *lease;			/* key */
	char *trays[QUEUE_TRAYS];	/* keys */
	int64_t lease_ms;
	int64_t moved[QUEUE_TRAYS];	/* how many messages the owner moved out of the tray (retry, escape, hand back), counted by answers */
	bool blmove;			/* this server has no BRPOPLPUSH any more: learnt anew under each name, for the next server may have no BLMOVE yet */
	struct owner_commands {		/* private to queue_moves.c: what is sent for each message */
		struct redis_command fetch, done;
		int64_t block_ms;	/* what fetch was formatted for */
		bool blmove;
	} commands[QUEUE_TRAYS];
};
void queue_owner_init(struct queue_owner *o, const struct queue_keys *k, const char *incarnation, int64_t lease_ms);
void queue_owner_free(struct queue_owner *o);

/* -> STRING the message, or NIL after block_ms (0: RPOPLPUSH, at once) */
void queue_fetch(struct redis *r, struct queue_owner *o, int tray, int64_t block_ms);
/* The same n times, at once: n answers. */
void queue_fetch_batch(struct redis *r, const struct queue_owner *o, int tray, int n);
/* The same in a script that Redis lets run at maxmemory; never blocks. */
void queue_fetch_oom(struct redis *r, const struct queue_owner *o, int tray);
/* Only if moved[tray] is 0; else queue_history_done(). -> INTEGER: 1 the tray is acknowledged whole; 0 it was not there: claim lost */
void queue_done(struct redis *r, struct queue_owner *o, int tray);
/* -> INTEGER: 1, 0 claim lost. One message of a tray with others */
void queue_done_one(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *e);
/* -> INTEGER 1, 0 claim lost. It comes back after delay_ms, changed */
void queue_retry(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *e,
    const struct queue_change *change, int64_t delay_ms);
/* -> INTEGER 1, 0 claim lost. Back to ingress's pop end. change NULL: as it is. note: what is remembered beside it from then
 * on (common/queue_notes.h); NULL: what is there stays */
struct queue_note;
void queue_hand_back(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *e,
    const struct queue_change *change, const struct queue_note *note);
/* -> INTEGER 1; 2 done, but the record could not be written; 0 not there. source: a tray, a rescue list or ingress.
 * lease: key to begin with (PEXPIRE). count: LREM's, -1 from the tail (a tray), 1 from the head (rescue). m: e, parsed.
 * note: is forgotten; NULL: none. record NULL: none is written. With e->tail, m->sha1 and m->id are set */
struct record;
void queue_escape(struct redis *r, const struct queue_keys *k, const char *lease, int64_t lease_ms,
    const char *source, int count, const struct queue_entry *e, struct message *m, const struct queue_note *note,
    const struct record *record);

/*
 * A message that Redis refuses to move leaves its tray for the list `aside`, so that it holds up nobody; its record
 * goes to aside_log. change NULL: it lies there as it is. -> as queue_escape()
 */
void queue_set_aside(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *e,
    const struct queue_change *change, struct message *m, const struct record *record);
/* Two answers: INTEGER how many are set aside, ARRAY the newest record */
void queue_aside(struct redis *r, const struct queue_keys *k);
void queue_aside_forget(struct redis *r, const struct queue_keys *k);	/* the records, if no message lies there any more. -> INTEGER */

/*
 * The oldest entry of the tray that is longer than limit escapes; its payload does not leave Redis. One that begins like a wrapper may be
 * MESSAGE_LINE_MAX longer. -> ARRAY of INTEGER its length, 0: there is none; STRING "", or its first bytes: it may begin with a wrapper
 * and did not move; INTEGER 2: its record could not be written, else 1. The caller looks at the first bytes and asks again: head is what was
 * answered, head.wrapper_len will not be in escape. head NULL: the first question.
 * record NULL: none is written. The script puts the length and a space before its error_message. aside: the message is set aside instead
 */
void queue_too_large(struct redis *r, const struct queue_owner *o, int tray, int64_t limit, const struct message *head,
    const struct record *record, bool aside);
/*
 * The same of an entry of `seen` bytes that the caller saw arrive from this tray, and begin with no wrapper. Not even Redis reads it. The
 * length is answered as 0 if that was not possible: then queue_too_large() is to be asked.
 */
void queue_too_large_seen(struct redis *r, const struct queue_owner *o, int tray, int64_t limit, int64_t seen, const struct record *record);
/* The same of a rescue list, whose only entry is that one. nobody: the key of a lease that does not exist */
void queue_too_large_seen_in_rescue(struct redis *r, const struct queue_keys *k, const char *nobody, const char *rescue, int64_t limit, int64_t seen,
    const struct record *record);
/* The same of the left end of a rescue list, and of no other entry. nobody: the key of a lease that does not exist */
void queue_too_large_first(struct redis *r, const struct queue_keys *k, const char *nobody, const char *rescue, int64_t limit,
    const struct message *head, const struct record *record);
/* -> ARRAY of n <= QUEUE_DIGESTS STRING: the SHA1 of the message from each of these offsets on; "": it is not there. nobody: as above */
#define QUEUE_DIGESTS 2
void queue_digest(struct redis *r, const char *nobody, const char *list, const struct queue_entry *e, const size_t *from, size_t n);

/* Incarnations. registration: JSON of queue_registration(). */
/* -> INTEGER trays taken over; -1: this incarnation was registered before and its lease has run out: it is not to be used
 * any more. old NULL: the first one. Old trays become the new one's, in the same places; the old is marked dead (died_at)
 * and watched for late arrivals. */
void queue_renew(struct redis *r, const struct queue_owner *o, const struct queue_owner *old, const char *registration);
void queue_lease_renew(struct redis *r, const struct queue_owner *o);	/* -> INTEGER 1, 0: lease gone */
/* Writes key=value into the owner's registration; a rescue reads it to decide what the owner's death charges. -> INTEGER 1; 0: the owner is unknown or marked dead */
#define QUEUE_STOPPING "stopping"	/* "1": the worker was ordered to stop */
#define QUEUE_TRIAL "trial"		/* queue_trial_name() of the message that it runs alone in its supervisor */
void queue_annotate(struct redis *r, const struct queue_owner *o, const char *key, const char *value);
/* Reads how many moves out of each tray the lease has counted. -> ARRAY of QUEUE_TRAYS STRING or NIL */
void queue_lease_counts(struct redis *r, const struct queue_owner *o);
bool queue_lease_agrees(const struct queue_owner *o, const struct redis_reply *counts);	/* true: the counts are equal to o->moved */
/* -> INTEGER 1: gone; 0: something lies in a tray, or is being returned: it stays registered */
void queue_deregister(struct redis *r, const struct queue_owner *o);
/* -> ARRAY of STRING: entries first..last of a list, as LRANGE counts them (0 is the newest) */
void queue_list(struct redis *r, const char *list, int64_t first, int64_t last);

/*
 * Rescue (sweeper). incarnation: the dead owner; NULL: the bare transit list. source: its tray, or that list.
 * queue_fence -> INTEGER messages now in rescue; 0: source was empty; -1: rescue is not empty, return
 * that first. One O(1) step; after it nothing the owner still sends can touch them.
 */
void queue_fence(struct redis *r, const struct queue_keys *k, const char *incarnation, const char *source, const char *rescue);
/* How many the owner's trays held at the first fence, in all. -> STRING number, or NIL */
void queue_rescue_size(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* -> INTEGER 1; 0: it is not the left end (any more): another moved it. From rescue's left end to ingress's pop end, changed.
 * e->at is taken for 0. note: as for queue_hand_back() */
void queue_return(struct redis *r, const struct queue_keys *k, const char *incarnation, const char *rescue,
    const struct queue_entry *e, const struct queue_change *change, const struct queue_note *note);
/* Sets died_at in the workers hash, drops the lease. -> INTEGER 1; 0: unknown or marked before */
void queue_mark_dead(struct redis *r, const struct queue_keys *k, const char *incarnation);	/* -> INTEGER */
/* Forgets one that died more than an hour ago and has nothing left. -> INTEGER 1 forgotten */
void queue_forget(struct redis *r, const struct queue_keys *k, const char *incarnation);

/* -> INTEGER 1 if paused, else 0 */
void queue_paused(struct redis *r, const struct queue_keys *k);
/* Two answers: INTEGER how many are delayed; INTEGER 1 if paused, else 0 */
void queue_poll(struct redis *r, const struct queue_keys *k);
#define QUEUE_APART_MIN (64 * 1024)	/* a longer message is stored apart from its line while it is delayed (common/scripts/apart.lua) */
/*
 * Moves messages that are due from delayed to ingress, at most limit and about 1 MiB; all: also those that are not due yet. -> ARRAY for
 * queue_due_moved(): of each that left delayed, how many ms late; QUEUE_DUE_LOST: its payload, which was stored apart, is gone, so the message
 * was deleted. Where the queue is shared they go without their wrappers, and only those of first, the answer to queue_glance_delayed(); else
 * first is NULL
 */
#define QUEUE_DUE_LOST (-1)
void queue_due(struct redis *r, const struct queue_keys *k, bool all, int limit, const struct redis_reply *first);
struct queue_due_moved {
	int64_t moved;		/* to ingress */
	int64_t lost;		/* deleted */
};
int queue_due_moved(const struct redis_reply *reply, struct queue_due_moved *out);	/* -1: another type of reply */

/* Admin. -> INTEGER 1, 0: it or its record is not there any more; -1: an archive has claimed it. From escape to where producers push,
 * changed; record_id NULL: none. note: as for queue_hand_back(); one that says nothing is forgotten */
void queue_redrive(struct redis *r, const struct queue_keys *k, const struct queue_entry *e, const struct queue_change *change,
    const struct queue_note *note, const char *record_id);

/* ---- registry (queue_registry.c) ---- */

/* {"lock":…,"node":…,"pid":…,"since":…,"lease":…}, and "shared" if the queue is; new string */
char *queue_registration(const char *lock_identity, const char *node, int pid, int64_t since_ms, int64_t lease_ms, bool shared);
struct queue_worker {		/* one field of the workers hash; strings owned */
	char *incarnation, *lock, *node;
	int64_t pid, since_ms, died_at_ms;	/* died_at_ms 0: alive as far as known */
	int64_t lease_ms;		/* how long it may be silent; 0: not known */
	bool shared;			/* it says that others fetch from its queue */
	bool stopping;			/* QUEUE_STOPPING */
	char *trial;			/* QUEUE_TRIAL; "": none */
	/*
	 * A younger incarnation of the same worker process is registered: that process lost this name with a connection, and
	 * will never take its trays over, because a renewal names the incarnation right before it, and marks that one dead.
	 */
	bool superseded;
};
/* Takes the answer of HGETALL. Fields that are no incarnation are left out. Returns how many. */
void queue_workers(struct redis *r, const struct queue_keys *k);	/* appends HGETALL */
size_t queue_workers_parse(const struct redis_reply *reply, struct queue_worker **out);
void queue_workers_free(struct queue_worker *w, size_t n);
bool queue_workers_share(const struct queue_worker *w, size_t n);	/* any of them says so */
/* The same answer's other fields: who is being returned, or was when that was broken off; "": the bare list. New strings. */
size_t queue_rescues_parse(const struct redis_reply *reply, char ***out);
void queue_rescues_free(char **names, size_t n);

/* Writes the queue into quredis:queues and quredis:queue:<name> as the Ruby gem does, and "shared" if it is. again: only what is missing
 * there. -> two answers */
void queue_register(struct redis *r, const struct queue_keys *k, bool again);
/* Reads quredis:queue:<name>'s JSON. Returns -1 if that names no three lists. k is initialised. */
int queue_registered_parse(struct queue_keys *k, const char *name, const char *json, size_t len);

/* ---- records (queue_records.c) ---- */

/*
 * The record of a dead letter (docs/design.md). id, request_id, sha1, size and message come from the
 * message itself, retry_count from attempts. NULL strings are written as "".
 */
struct record {
	const char *queue, *queue_from, *error_class, *error_message;
	int64_t failed_at_ms;		/* ms since 1970 */
	int64_t first_failed_ms;	/* the same; 0: = failed_at_ms */
	int attempts, crashes;		/* with this failure */
	int exit_code;			/* -1: none */
	const char *signal;		/* "SIGKILL"; NULL: none */
	const char *stderr_tail;
	size_t stderr_len;
	int64_t duration_ms;		/* -1: did not run */
	const char *node, *worker, *handler;
	size_t payload_max;		/* the message is kept whole up to this many bytes, else left out */
};
#define RECORD_FIELDS 21
extern const char *const record_fields[RECORD_FIELDS];	/* names in the order they are written */

#endif
