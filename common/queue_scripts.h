#ifndef COMMON_QUEUE_SCRIPTS_H
#define COMMON_QUEUE_SCRIPTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/redis.h"

/*
 * Every script of common/scripts/NAME.lua. A new one needs its line here and nothing else. Those in MOVING name one message
 * in a list; common/scripts/entry.lua stands before each of them, own.lua before those in STAMPING, apart.lua before those in
 * DELAYED, unread.lua before those in UNREAD, and nodes.lua before those in WEIGHING.
 */
#define QUEUE_SCRIPTS(X) QUEUE_SCRIPTS_MOVING(X) QUEUE_SCRIPTS_STAMPING(X) QUEUE_SCRIPTS_DELAYED(X) QUEUE_SCRIPTS_UNREAD(X) QUEUE_SCRIPTS_WEIGHING(X) QUEUE_SCRIPTS_PLAIN(X)
#define QUEUE_SCRIPTS_STAMPING(X) X(stamp) X(stamp_seen)	/* queue_waiting.c */
#define QUEUE_SCRIPTS_DELAYED(X) X(due) X(glance) X(expire_delayed) X(look)
#define QUEUE_SCRIPTS_UNREAD(X) X(too_large) X(too_large_seen) X(too_large_first)
#define QUEUE_SCRIPTS_WEIGHING(X) X(weigh)	/* queue_look.c */
#define QUEUE_SCRIPTS_MOVING(X) X(retry) X(escape) X(hand_back) X(return) X(redrive) X(discard) X(done) X(digest)
#define QUEUE_SCRIPTS_PLAIN(X)                                                                     \
	X(renew) X(fetch) X(annotate) X(deregister) X(fence) X(mark_dead) X(forget) X(aside_forget) \
	X(secret) X(acknowledge) X(lead) X(tally) X(unregister) \
	X(done_trim) X(done_look)	/* queue_history.c */ \
	X(letters_glance) X(letters_page) X(letters_claim) X(letters_release) X(letters_remove) X(letters_adopt) X(forward)	/* queue_letters.c */ \
	X(purge) X(purge_owner) X(delay) X(log_page) X(apart_count)	/* queue_admin.c */ \
	X(look_records)	/* queue_look.c */

#define X(name) QUEUE_SCRIPT_##name,
enum queue_script { QUEUE_SCRIPTS(X) QUEUE_SCRIPT_COUNT };
#undef X

struct script_arg {
	const void *data;
	size_t len;
};

/* Room for a number as text, while its argument is in use. */
struct script_number {
	char text[24];
};

struct script_arg script_number(struct script_number *room, int64_t value);
struct script_arg script_string(const char *s);		/* NULL is "" */

/* Room for the numbers among the arguments that name an entry. */
struct script_entry {
	char at[72];
	struct script_number len;
};

/* Writes the arguments by which common/scripts/entry.lua names an entry; returns their number. */
#define SCRIPT_ENTRY_ARGS 4
struct queue_entry;
size_t script_entry(const struct queue_entry *e, struct script_entry *room, struct script_arg args[SCRIPT_ENTRY_ARGS]);

/* Appends EVALSHA. */
void queue_script(struct redis *r, enum queue_script script, size_t nkeys, const char *const *keys, size_t nargs,
    const struct script_arg *args);

#endif
