#ifndef COMMON_QUEUE_SCRIPTS_H
#define COMMON_QUEUE_SCRIPTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/redis.h"

/* Every script of common/scripts/NAME.lua. A new one needs its line here and nothing else. */
#define QUEUE_SCRIPTS(X)                                                                           \
	X(renew) X(fetch) X(retry) X(escape) X(hand_back) X(deregister) X(fence) X(return) X(mark_dead) X(forget) \
	X(due) X(redrive) X(lead) X(tally) X(unregister) \
	X(mark) X(glance) X(expire) X(expire_delayed)	/* queue_waiting.c */ \
	X(done) X(done_trim) X(done_look)	/* queue_history.c */ \
	X(letters_glance) X(letters_page) X(letters_remove) X(letters_adopt) X(forward_page)	/* queue_letters.c */ \
	X(purge) X(purge_owner) X(discard) X(delay) X(hurry) X(log_page)	/* queue_admin.c */

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

/* Appends EVALSHA. */
void queue_script(struct redis *r, enum queue_script script, size_t nkeys, const char *const *keys, size_t nargs,
    const struct script_arg *args);

#endif
