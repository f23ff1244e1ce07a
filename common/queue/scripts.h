#ifndef COMMON_QUEUE_SCRIPTS_H
#define COMMON_QUEUE_SCRIPTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/redis/redis.h"

/*
 * Every script of common/queue/scripts/NAME.lua, and the texts of common/queue/scripts/shared/ that stand before it. A
 * new script needs its line here and nothing else.
 */
#define QUEUE_SCRIPTS(X) \
	/* moves of one message: queue/moves.c, queue/admin.c, queue/history.c */ \
	X(retry, ENTRY TRANSFER) X(escape, ENTRY TRANSFER RECORD CANCELLED) X(hand_back, ENTRY TRANSFER CANCELLED) \
	X(return, ENTRY TRANSFER) \
	X(redrive, ENTRY TRANSFER) \
	X(discard, ENTRY) X(done, ENTRY HISTORY) X(emit, ENTRY HISTORY EMITTED) X(emit_list, ) \
	X(digest, ENTRY) X(expire_delayed, APART TRANSFER RECORD) \
	/* messages that no process has read: queue/too_large.c */ \
	X(too_large, TRANSFER RECORD UNREAD) X(too_large_seen, RECORD UNREAD) \
	X(too_large_first, TRANSFER RECORD UNREAD) \
	/* owners and their trays: queue/moves.c */ \
	X(renew, SEATS) X(fetch, ) X(throttle, ) X(annotate, ) X(deregister, SEATS) X(fence, ) \
	X(mark_dead, SEATS) X(forget, SEATS) X(seats, SEATS SEATED STAY) X(seats_leave, SEATS) X(aside_forget, ) \
	X(secret, LAYOUT TRACES) X(acknowledge, ) X(lead, ) X(tally, ADD) X(failed, ADD) X(backlog, ) X(unregister, ) \
	/* waiting and delayed messages: queue/waiting.c, queue/look.c, queue/watch.c */ \
	X(stamp, OWN) X(stamp_seen, OWN) X(due, APART TRANSFER) X(pushed, TRANSFER) X(glance, APART) X(look, APART) \
	X(look_records, ) X(weigh, NODES) \
	/* schedules: queue/schedules.c */ \
	X(tick, OVERLAP) X(schedule_push, OVERLAP) X(schedules_forget, ) \
	/* history: queue/history.c */ \
	X(done_trim, ) X(done_look, ) \
	/* dead letters: dead_letters/removal.c */ \
	X(dead_letters_glance, ) X(dead_letters_page, ) X(dead_letters_claim, ) X(dead_letters_release, ) \
	X(dead_letters_remove, ) X(dead_letters_adopt, ) \
	X(forward, ) \
	/* long work of operators: queue/operations.c */ \
	X(operation_hold, ) X(operation_note, ) X(operation_stop, ) X(import, ) X(dead_letters_take, ) \
	X(dead_letter_place, ) \
	/* work of operators: queue/admin.c */ \
	X(cancel, ENTRY) X(cancel_note, ) X(cancels, ) \
	X(pick_waiting, ENTRY TRANSFER) X(pick_delayed, APART TRANSFER) X(purge, ) X(purge_owner, ) X(delay, ) \
	X(unique, ) X(pause, ) X(log_page, ) X(apart_count, )

#define X(name, before) QUEUE_SCRIPT_##name,
enum queue_script { QUEUE_SCRIPTS(X) QUEUE_SCRIPT_COUNT };
#undef X

/* The text of a script, or a part of it. */
struct script_text {
	const char *start, *end;
};
/* Finds a line of the script with this SHA1, as Redis counts them. Returns the name of the script; NULL: there is no
 * such script or line. */
const char *queue_script_line(const char *sha1, long number, struct script_text *line);

struct script_arg {
	const void *data;
	size_t len;
};

/* Storage for a number as text, while its argument is in use. */
struct script_number {
	char text[24];
};

struct script_arg script_number(struct script_number *room, int64_t value);
/* A timeout as a number of seconds: a whole one if possible, since fractions need Redis 6. */
struct script_arg queue_script_seconds(struct script_number *room, int64_t ms);
struct script_arg script_string(const char *s);		/* s NULL counts as "" */

/* Storage for the numbers among the arguments that name an entry. */
struct script_entry {
	char at[72];
	struct script_number len;
};

/* Writes the arguments by which common/queue/scripts/shared/entry.lua names an entry; returns their number. */
#define SCRIPT_ENTRY_ARGS 4
struct queue_entry;
size_t script_entry(const struct queue_entry *e, struct script_entry *room, struct script_arg args[SCRIPT_ENTRY_ARGS]);

/* Appends EVALSHA. */
void queue_script(struct redis *r, enum queue_script script, size_t nkeys, const char *const *keys, size_t nargs,
    const struct script_arg *args);

#endif
