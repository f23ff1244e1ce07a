#ifndef WORKER_EMIT_H
#define WORKER_EMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler/handler.h"
#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

extern const char *const emit_refused;		/* the class of an attempt that fails by what it emitted */

/* Whether the message may push what its handler emitted. False: *why has the reason; it belongs to e, or is static. */
bool emit_is_allowed(struct worker *w, struct place p, const struct handler_emissions *e, const char **why);
bool emit_any(const struct item *item);		/* it is done, and has emitted something */
void emit_forget(struct worker *w, struct place p);	/* frees what it emitted, if it did */
/* Sends the move of a message that is done and has emitted something; or, in doubt, the question. */
void emit_send(struct worker *w, struct place p, const struct queue_entry *entry);
/* The next step after an error of Redis. emit_after() changes the doubt. */
enum emit_next {
	EMIT_WAITS,		/* as every message does that is done: the error is not that of a target */
	EMIT_ASKS,		/* emit_send() asks first whether it is */
	EMIT_FAILS,		/* Redis refuses a target, and will go on doing so */
};
enum emit_next emit_after(const struct item *item, const struct redis_reply *reply);
/* True: the reply, which is no error, answered a question and no move. It is to be sent now */
bool emit_was_asked(const struct item *item);
/* The attempt fails, since Redis refuses it for this reason. */
void emit_fail(struct worker *w, struct place p, const char *error, int64_t now_ms);

#endif
