#ifndef COMMON_QUEUE_MOVES_H
#define COMMON_QUEUE_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/redis/redis.h"

/*
 * A queue in Redis (docs/design.md): its keys, the moves of a message between them, the registry and the records. Every
 * function that takes a struct redis appends one command or script and returns at once; its answers arrive in order,
 * through redis_take() or redis_wait(). "->" says what the answer is. An answer can always be an error instead. All
 * moves copy first and remove second.
 */
struct conf;
struct conf_queue;

/* ---- keys (queue/keys.c) ---- */

#define QUEUE_TRAYS 3
#define INCARNATION_SIZE 160	/* "<node>.<boot>.<slot>.<generation>" and NUL */

struct queue_keys {		/* every string is owned */
	char *name, *ingress, *transit, *escape;
	char *private_base;					/* begins each private key (conf_private_base()) */
	/* a sorted set for producers: pushes that they delayed */
	char *pushed;
	char *unique;						/* begins the keys of queue_push_unique() */
	/* private keys */
	char *delayed, *delayed_apart, *done, *stats, *paused, *cancels, *throttle, *sweeper, *notes, *schedules;
	char *seats, *seats_free;				/* NULL: the queue has no max_in_flight here */
	char *workers, *aside, *aside_log;			/* key of transit and a suffix */
	/* key of escape and a suffix; that of redriven gets the id of an operation, too */
	char *log, *forwarded, *claimed, *operations, *redriven;
	char *registered;					/* QUEUE_KEY_REGISTERED */
	struct message_keys lines;	/* which lines before its messages are genuine; has views into this struct */
	/* other programs fetch from it, too: quredis puts nothing before a message, and keeps notes beside it */
	bool shared;
};

/*
 * The keys that are not made of the three lists of a queue: their names begin with "quredis:", behind redis.prefix.
 * queue_key() is the only place that makes them.
 */
enum queue_key {
	QUEUE_KEY_REGISTRY,	/* quredis:queues */
	QUEUE_KEY_REGISTERED,	/* quredis:queue:NAME */
	QUEUE_KEY_SECRET,	/* quredis:secret. A string; no command or page of quredis shows it */
	/* quredis:secret:aside, quredis:secret:aside:2 …: what an operator let doctor take away from there */
	QUEUE_KEY_SECRET_ASIDE,
	/* quredis:schema: the layout of all keys, and the lowest one of a program that may use them */
	QUEUE_KEY_SCHEMA,
	QUEUE_KEY_HEALTH,	/* quredis:health */
	QUEUE_KEY_NODE,		/* quredis:node:NODE */
	QUEUE_KEY_CLOCK,	/* quredis:node:NODE:clock */
	QUEUE_KEY_THROTTLE,	/* quredis:throttle:NAME. A string: a limit that queues share */
	QUEUE_KEY_SEATS, QUEUE_KEY_SEATS_FREE,	/* quredis:throttle:NAME:seats, :seats:free. The same for seats */
	QUEUE_KEY_NO_SECRET, QUEUE_KEY_PULSE	/* never exist: commands on them only prove the right to write */
};
/* A new string. prefix NULL: none. of: the name of the queue or node; NULL: the key has none. */
char *queue_key(const char *prefix, enum queue_key which, const char *of);
/* with the prefix of its target */
char *queue_key_of(const struct redis *r, enum queue_key which, const char *of);

/* ingress, transit, escape: whole names of keys. prefix: of the key in the registry; NULL: none */
void queue_keys_init(struct queue_keys *k, const char *prefix, const char *name, const char *ingress,
    const char *transit, const char *escape);
void queue_keys_from_conf(struct queue_keys *k, const struct conf *conf, const struct conf_queue *q);
/* throttle NULL: the queue has seats of its own */
void queue_keys_use_seats(struct queue_keys *k, const char *prefix, const char *throttle);
/* with the default names of the lists */
void queue_keys_default(struct queue_keys *k, const char *prefix, const char *name);
void queue_keys_free(struct queue_keys *k);

/* Keys of one incarnation; each a new string. tray 0..QUEUE_TRAYS-1, or QUEUE_RESCUE. */
#define QUEUE_RESCUE QUEUE_TRAYS
char *queue_tray_key(const struct queue_keys *k, const char *incarnation, int tray);
#define QUEUE_NOBODY "none"			/* stands for an incarnation where there is none */
/* incarnation NULL: a key that never exists */
char *queue_lease_key(const struct queue_keys *k, const char *incarnation);
char *queue_rate_key(const struct queue_keys *k, int64_t minute);	/* figures of one minute since 1970 */
/* backlog in each minute of one hour since 1970 */
char *queue_backlog_key(const struct queue_keys *k, int64_t hour);
char *queue_scratch_key(const struct queue_keys *k, const char *name);	/* the ingress list of a rehearsal */
char *queue_bare_rescue_key(const struct queue_keys *k);	/* the rescue list of the bare transit list */
/* the field of the workers hash that says how many messages a rescue list held; NULL: the bare list's */
char *queue_rescue_field(const char *incarnation);

struct incarnation {		/* the parts of an incarnation's name */
	char node[QUEUE_NAME_MAX + 1];
	uint64_t boot;
	int slot;
	uint64_t generation;
};
void incarnation_format(const struct incarnation *i, char out[INCARNATION_SIZE]);
int incarnation_parse(struct incarnation *i, const char *s);	/* -1: not an incarnation */

/* ---- scripts (queue/scripts.c) ---- */

void queue_scripts_load(struct redis *r);	/* appends SCRIPT LOAD of each */

/* ---- the secrets that seal lines (queue/secret.c) ---- */

/*
 * From now on each new connection of r loads the scripts and learns the secrets. owner: it also creates the first
 * secret if Redis has none, and fails with an error SECRET if that is lost. conf: its queues show whether quredis was
 * here; it outlives r. NULL: not known.
 */
void queue_greets(struct redis *r, bool owner, const struct conf *conf);
/* new connections load no scripts and learn no secrets: for LPUSH alone */
void queue_greets_nothing(struct redis *r);
/*
 * Reads the secrets, and restores those that this process knows and Redis lacks. owner: a lost secret is an error
 * SECRET. -> STRING for queue_secret_learn(), or ARRAY if neither Redis nor this process has a secret: then
 * queue_secret_ask_again() looks whether one was lost. One question at a time on a connection.
 */
void queue_secret(struct redis *r, bool owner);
/*
 * Called with each answer. true: it appended one more request; false: this answer is the last one. If there is no trace
 * of quredis, an owner creates the first secret. k: of a queue that the configuration of queue_greets() and the
 * registry may lack; NULL: none.
 */
bool queue_secret_ask_again(struct redis *r, bool owner, const struct queue_keys *k, const struct redis_reply *reply);
int queue_secret_learn(const struct redis_reply *reply);	/* -1: the reply has no secret; the known ones stay */
/* By the last reply learnt: why this Redis, which quredis has used before, has no secret, and what to do; static. "":
 * it has one, or is new. */
#define QUEUE_SECRET_LOST_SIZE 200
const char *queue_secret_lost(void);
/*
 * For an operator: renames what stands in quredis:secret to the n-th name of quredis:secret:aside, from 1 on. ->
 * INTEGER 1; 0: something stands there; ERROR: nothing is to be renamed
 */
#define QUEUE_SECRET_ASIDES 99
void queue_secret_set_aside(struct redis *r, int n);
/* creates a secret although the old one is lost. -> as of queue_secret() */
void queue_secret_replace(struct redis *r);

/* ---- moves (queue/moves.c) ---- */

/* below this length, sending a message is cheaper than waiting for the answers of its neighbours' moves */
#define QUEUE_BY_VALUE_MAX 4096

/*
 * Names a message for a script, where it lies. The payload of a message longer than QUEUE_BY_VALUE_MAX is not sent back
 * to Redis: the script finds it by its place, and compares its length and its ends.
 */
struct queue_entry {
	const char *raw;		/* the bytes as they lie in the list */
	size_t len;
	/* its index, as LINDEX counts; QUEUE_ANYWHERE: found by its value, whatever its length */
	int64_t at;
	/*
	 * of, moved: what the owner of a tray assumes: how many entries the tray has, and how many messages left it by
	 * a move under this lease. For the rescue list of a dead owner, which has no lease, moved is 0. If Redis knows
	 * other numbers, it has returned to an earlier state, or the lease has run out, and the place may hold another
	 * message: QUEUE_CANNOT_TELL. of 0: not a tray, or not known; nothing is compared.
	 */
	int64_t of, moved;
	/* its last QUEUE_ENTRY_ENDS bytes, if raw has only the beginning; NULL: raw is the whole entry */
	const char *tail;
	/* for moves out of escape: the sha1 of the whole message; NULL: its ends are enough */
	const char *sha1;
};
#define QUEUE_ENTRY_ENDS 1024		/* bytes of each end that are compared */
/*
 * A move that names its message by a place, or an acknowledgement of a whole tray, answers QUEUE_CANNOT_TELL if it
 * finds the list or the lease otherwise than its caller knows them. It has changed nothing, and the message may be
 * elsewhere in the list: the caller reads the list before it decides. 0 is a proof: the message is not in the list.
 */
#define QUEUE_CANNOT_TELL (-2)
#define QUEUE_ANYWHERE INT64_MIN
/* The change that a move makes to an entry: line replaces its first `strip` bytes, the old wrapper. */
struct queue_change {
	const struct buffer *line;
	size_t strip;
};

struct queue_note;
struct record;

/* The trays of one owner, and its lease. */
struct queue_owner {
	const struct queue_keys *keys;
	char *incarnation;
	char *lease;			/* key */
	char *trays[QUEUE_TRAYS];	/* keys */
	int64_t lease_ms;
	/* messages that the owner moved out of the tray (retry, escape, hand-back, and done with what they emitted),
	 * counted by answers */
	int64_t moved[QUEUE_TRAYS];
	int64_t seats;			/* so many it has for certain, with max_in_flight: queue_renew() tells Redis */
	/* this server refuses BRPOPLPUSH. Every new name finds out again, because the next server may have no BLMOVE */
	bool blmove;
	/* private to queue/moves.c: formatted commands, to save time for each message */
	struct owner_commands {
		struct redis_command fetch, fetch_now, done;
		int64_t block_ms;	/* block_ms for which fetch was formatted */
	} commands[QUEUE_TRAYS];
	struct redis_command paused;	/* likewise */
};
void queue_owner_init(struct queue_owner *o, const struct queue_keys *k, const char *incarnation, int64_t lease_ms);
void queue_owner_free(struct queue_owner *o);
/* Redis answered that a message left the tray by a move */
void queue_owner_count_moved(struct queue_owner *o, int tray);
void queue_owner_has_seats(struct queue_owner *o, int64_t seats);
void queue_owner_use_blmove(struct queue_owner *o);		/* the server refuses BRPOPLPUSH */

/* -> STRING the message, or NIL after block_ms. block_ms 0: RPOPLPUSH, which does not wait */
void queue_fetch(struct redis *r, struct queue_owner *o, int tray, int64_t block_ms);
/* The same n times, without waiting: n answers. */
void queue_fetch_batch(struct redis *r, struct queue_owner *o, int tray, int n);
/* The same, by a script that Redis allows at maxmemory; never waits. */
void queue_fetch_oom(struct redis *r, const struct queue_owner *o, int tray);
/*
 * Only if moved[tray] is 0; else use queue_history_done(). -> INTEGER 1: the whole tray is acknowledged; 0: it was
 * missing, so the claim is lost
 */
void queue_done(struct redis *r, struct queue_owner *o, int tray);
/* For one message of a tray with others. -> INTEGER 1; 0: the claim is lost */
void queue_done_one(struct redis *r, const struct queue_owner *o, int tray, const struct queue_entry *e);
/* An order to cancel a message (cancels.h), and what stands in its place once the move has happened. */
struct queue_cancel_end {
	const char *field, *order, *result;
};
/*
 * One message that leaves a list, and all that goes with it. A move answers 1; QUEUE_MOVED_WITHOUT_RECORD; 0: the
 * message is not there (in a tray: the claim is lost); or QUEUE_CANNOT_TELL. Members that a move does not name below
 * are not used.
 */
#define QUEUE_MOVED_WITHOUT_RECORD 2	/* Redis refused the record */
#define QUEUE_MOVED_WITHOUT_HOLD 2	/* of queue_hold(): Redis refused the hold */
struct queue_move {
	const struct queue_keys *keys;
	const char *lease;		/* key of the owner's lease, which is renewed to lease_ms */
	int64_t lease_ms;
	const char *from;		/* key of the list */
	int count;			/* of LREM: -1 from the tail (a tray), 1 from the head (a rescue list) */
	const struct queue_entry *entry;
	const struct queue_change *change;	/* NULL: the entry stays as it is */
	/* what is remembered beside it from then on; NULL: an existing note stays. To escape: the note that is
	 * deleted */
	const struct queue_note *note;
	struct message *message;	/* entry, parsed. If entry->tail is set, its sha1 and id must be set, too */
	const struct record *record;	/* NULL: none is written */
	/* NULL: no order is executed; else its result is written with the move, if the order still stands */
	const struct queue_cancel_end *cancel;
};
#define QUEUE_FROM_TRAY(o, tray) \
	.keys = (o)->keys, .lease = (o)->lease, .lease_ms = (o)->lease_ms, .from = (o)->trays[tray], .count = -1
/* lease, entry, change: to delayed, and from there to ingress after delay_ms */
void queue_retry(struct redis *r, const struct queue_move *m, int64_t delay_ms);
/* the same, and the queue is held for as long: paused with an end. text: queue_hold_format(). A pause of an operator,
 * and a hold that ends later, stay */
void queue_hold(struct redis *r, const struct queue_move *m, int64_t delay_ms, const char *text);
/* lease, entry, change, note, cancel: to ingress's pop end; last: to its push end, behind all others */
void queue_hand_back(struct redis *r, const struct queue_move *m, bool last);
/* lease, count, entry, note, message, record, cancel: to escape, without its wrapper */
void queue_escape(struct redis *r, const struct queue_move *m);
/*
 * lease, entry, change, message, record: a message that Redis refuses to move leaves its tray for the list `aside`, so
 * that it does not block the messages behind it. Its record goes to aside_log.
 */
void queue_set_aside(struct redis *r, const struct queue_move *m);
/* Two answers: INTEGER messages that are set aside, ARRAY the newest record */
void queue_aside(struct redis *r, const struct queue_keys *k);
/* deletes the records, if no message is set aside any more. -> INTEGER */
void queue_aside_forget(struct redis *r, const struct queue_keys *k);

/*
 * Moves the oldest entry of the tray that is longer than limit to escape; its payload does not leave Redis. An entry
 * that begins like a wrapper may be longer by MESSAGE_LINE_MAX. -> ARRAY of INTEGER its length, 0: no such entry;
 * STRING "", or its first bytes: it may begin with a wrapper, and did not move; INTEGER 2: its record could not be
 * written, else 1. The caller parses the first bytes and asks again: head is the result, and escape gets the entry
 * without its first head.wrapper_len bytes. head NULL: the first question. record NULL: none is written. The script
 * puts the length and a space before its error_message. aside: the message is set aside instead
 */
void queue_too_large(struct redis *r, const struct queue_owner *o, int tray, int64_t limit, const struct message *head,
    const struct record *record, bool aside);
/*
 * The same for an entry of `seen` bytes that the caller saw arriving from this tray, without a wrapper. Not even Redis
 * reads it. Length 0 in the answer: that was not possible, and the caller must use queue_too_large().
 */
void queue_too_large_seen(struct redis *r, const struct queue_owner *o, int tray, int64_t limit, int64_t seen,
    const struct record *record);
/* The same for a rescue list with that single entry. no_lease: the key of a lease that does not exist */
void queue_too_large_seen_in_rescue(struct redis *r, const struct queue_keys *k, const char *no_lease,
    const char *rescue, int64_t limit, int64_t seen, const struct record *record);
/* queue_too_large() for the left end of a rescue list, and no other entry. no_lease: the key of a lease that does not
 * exist */
void queue_too_large_first(struct redis *r, const struct queue_keys *k, const char *no_lease, const char *rescue,
    int64_t limit, const struct message *head, const struct record *record);
/*
 * -> ARRAY of n <= QUEUE_DIGESTS STRING: the SHA1 of the message from each of these offsets on; "": the message was
 * missing. no_lease: as above
 */
#define QUEUE_DIGESTS 2
void queue_digest(struct redis *r, const char *no_lease, const char *list, const struct queue_entry *e,
    const size_t *from, size_t n);

/* ---- incarnations. registration: JSON of queue_registration() ---- */
/*
 * Registers an incarnation or renews it. -> INTEGER 1: no sweeper has taken messages from the trays of old, which was
 * neither under rescue nor marked dead; 0: one may have; -1: this incarnation was registered before and its lease has
 * expired, so it must not be used any more. old: the incarnation before it; NULL, or without keys: none. The old trays
 * become those of the new one, in the same places. The old incarnation is marked dead (died_at) and watched for
 * messages that arrive late. If the new one has seats (queue_owner.seats), the old one has none from then on.
 */
void queue_renew(struct redis *r, const struct queue_owner *o, const struct queue_owner *old, const char *registration);
void queue_lease_renew(struct redis *r, const struct queue_owner *o);	/* -> INTEGER 1; 0: the lease is gone */
/*
 * Writes key=value into the owner's registration; a rescue reads it to decide what the owner's death charges. ->
 * INTEGER 1; 0: the owner is unknown or marked dead
 */
#define QUEUE_STOPPING "stopping"	/* "1": the worker was ordered to stop */
#define QUEUE_TRIAL "trial"		/* queue_trial_name() of the message that it runs alone in its supervisor */
void queue_annotate(struct redis *r, const struct queue_owner *o, const char *key, const char *value);
/* Reads how many moves out of each tray the lease has counted. -> ARRAY of QUEUE_TRAYS STRING or NIL */
void queue_lease_counts(struct redis *r, const struct queue_owner *o);
/* true: the counts are equal to o->moved */
bool queue_lease_agrees(const struct queue_owner *o, const struct redis_reply *counts);
/* -> INTEGER 1: deregistered; 0: a tray holds messages, or a rescue is under way, so it stays registered */
void queue_deregister(struct redis *r, const struct queue_owner *o);
/* -> ARRAY of STRING: entries first..last of a list, as LRANGE counts (0 is the newest) */
void queue_list(struct redis *r, const char *list, int64_t first, int64_t last);

/*
 * Rescue, by the sweeper. incarnation: the dead owner; NULL: the bare transit list. source: a tray of it, or that list.
 * -> INTEGER messages that are now in rescue; 0: source was empty; -1: rescue is not empty, so return its messages
 * first. The fence is one O(1) step. After it, no command that the owner may still send can reach the messages.
 */
void queue_fence(struct redis *r, const struct queue_keys *k, const char *incarnation, const char *source,
    const char *rescue);
/* Reads how many messages all trays of the owner held at the first fence. -> STRING number, or NIL */
void queue_rescue_size(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* entry, whose `at` counts as 0; change, note: from rescue's left end to ingress's pop end. 0: another process moved
 * it */
void queue_return(struct redis *r, const char *incarnation, const struct queue_move *m);
/* Sets died_at in the workers hash and deletes the lease. -> INTEGER 1; 0: unknown or marked before */
void queue_mark_dead(struct redis *r, const struct queue_keys *k, const char *incarnation);
/* Deletes the registration of an owner that died more than an hour ago and has nothing left. -> INTEGER 1: deleted */
void queue_forget(struct redis *r, const struct queue_keys *k, const char *incarnation);

/* -> INTEGER above 0 if paused, else 0; a key of another type, an error, does not pause */
void queue_paused(struct redis *r, const struct queue_keys *k);
/* the same at less cost, for an owner that asks with its messages */
void queue_owner_paused(struct redis *r, struct queue_owner *o);
/* Three answers: INTEGER how many are delayed; INTEGER above 0 if paused, else 0; INTEGER how many delayed pushes of
 * producers there are */
void queue_poll(struct redis *r, const struct queue_keys *k);
/* a longer message is stored apart from its line while it is delayed (common/queue/scripts/shared/apart.lua) */
#define QUEUE_APART_MIN (64 * 1024)
/*
 * Moves messages that are due from delayed to ingress, at most limit and about 1 MiB; all: also those that are not due
 * yet. -> ARRAY for queue_due_moved(): for each message that left delayed, how many ms late it was; QUEUE_DUE_LOST: its
 * payload, which was stored apart, is missing, so the message was deleted. first: the answer to queue_glance_delayed(),
 * or NULL. Of messages that are not in it those stay that look as if their payload were stored apart: their line may be
 * a producer's. QUEUE_DUE_UNREAD, after the others: some stayed so. In a shared queue the messages lose their wrappers,
 * and all messages with a line that is not in first stay. At the end may stand QUEUE_DUE_NEXT - MS.
 */
#define QUEUE_DUE_LOST (-1)
#define QUEUE_DUE_UNREAD (-2)
#define QUEUE_DUE_NEXT (-3)
void queue_due(struct redis *r, const struct queue_keys *k, bool all, int limit, const struct redis_reply *first);
struct queue_due_moved {
	int64_t moved;		/* to ingress */
	int64_t lost;		/* deleted, since the payload was missing */
	bool unread;		/* some stayed, since `first` did not have their lines */
	int64_t next_ms;	/* until the next one is due; INT64_MAX: not known, or none is delayed */
};
int queue_due_moved(const struct redis_reply *reply, struct queue_due_moved *out);	/* -1: unexpected reply type */

/*
 * Moves delayed pushes of producers that are due (all: any) to ingress, at most limit and about 1 MiB: as many as
 * ingress has room for up to QUEUE_PUSHED_FULL messages, but `least` in any case. -> ARRAY as that of queue_due(),
 * where QUEUE_DUE_UNREAD says that ingress is full
 */
#define QUEUE_PUSHED_FULL 100
void queue_pushed(struct redis *r, const struct queue_keys *k, bool all, int limit, int least);

/*
 * Redrive, by an operator. entry, change, note: from escape to where producers push. record_id NULL: no record. An
 * empty note deletes an existing one. 0: it or its record is missing; -1: an archive has claimed it
 */
void queue_redrive(struct redis *r, const struct queue_move *m, const char *record_id);

/* ---- registry (queue/registry.c) ---- */

/* {"lock":…,"node":…,"pid":…,"since":…,"lease":…}, and "shared" if the queue is shared; a new string */
char *queue_registration(const char *lock_identity, const char *node, int pid, int64_t since_ms, int64_t lease_ms,
    bool shared);
struct queue_worker {		/* one field of the workers hash; strings are owned */
	char *incarnation, *lock, *node;
	int64_t pid, since_ms, died_at_ms;	/* died_at_ms 0: alive as far as known */
	int64_t lease_ms;		/* after so many ms without a renewal the lease expires; 0: not known */
	bool shared;			/* its registration says that its queue is shared */
	bool stopping;			/* QUEUE_STOPPING */
	char *trial;			/* QUEUE_TRIAL; "": none */
	/*
	 * A younger incarnation of the same worker process is registered: that process lost this name with a
	 * connection, and will never take its trays over, because a renewal names the incarnation right before it, and
	 * marks that one dead.
	 */
	bool superseded;
};
/* Takes the answer of HGETALL. Leaves out fields that are no incarnation. Returns the number of workers. */
void queue_workers(struct redis *r, const struct queue_keys *k);	/* appends HGETALL */
size_t queue_workers_parse(const struct redis_reply *reply, struct queue_worker **out);	/* sorted by incarnation */
/* NULL: none */
const struct queue_worker *queue_workers_find(const struct queue_worker *w, size_t n, const char *incarnation);
void queue_workers_free(struct queue_worker *w, size_t n);
/* true: one of them says that the queue is shared */
bool queue_workers_share(const struct queue_worker *w, size_t n);
/*
 * From the same answer: the owners whose messages are being returned, or were when a rescue was interrupted; "": the
 * bare list. New strings. Returns their number.
 */
size_t queue_rescues_parse(const struct redis_reply *reply, char ***out);
void queue_rescues_free(char **names, size_t n);

/*
 * Writes the queue into the registry and its entry there as the Ruby gem does, and "shared" if it is shared. again:
 * writes only what is missing. -> two answers
 */
void queue_register(struct redis *r, const struct queue_keys *k, bool again);
/* Reads the JSON of quredis:queue:<name>. Returns -1 if it does not name three lists. k must be initialised. */
int queue_registered_parse(struct queue_keys *k, const char *prefix, const char *name, const char *json, size_t len);

#endif
