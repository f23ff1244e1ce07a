#ifndef COMMON_HANDLER_PERSISTENT_ANSWERED_H
#define COMMON_HANDLER_PERSISTENT_ANSWERED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/handler/token.h"
#include "common/message/message.h"

/* The jobs that a process answered last, so that a second answer can be logged with the message that it is about. */
#define ANSWERED_KEPT 64
#define ANSWERED_BYTES 512

struct persistent_answered {
	struct answered_job {
		struct token token;
		bool repeat_logged;		/* a second answer was logged */
		bool emit_logged;		/* an EMIT behind the answer was */
		size_t len;			/* of the message; data has at most ANSWERED_BYTES of it */
		char data[ANSWERED_BYTES];
	} jobs[ANSWERED_KEPT];
	unsigned next, n;
};

void persistent_answered_clear(struct persistent_answered *a);
void persistent_answered_add(struct persistent_answered *a, const struct token *token, const char *raw, size_t len);
/* NULL: it is not among them */
struct answered_job *persistent_answered_find(struct persistent_answered *a, const char *token);
/* The id of its message; NULL: unknown, since a long message has none in its header. m is for the result, which is a
 * view into it. */
const char *persistent_answered_id(const struct answered_job *job, const struct message_keys *keys, struct message *m);

#endif
