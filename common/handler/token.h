#ifndef COMMON_HANDLER_TOKEN_H
#define COMMON_HANDLER_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "common/handler/reply.h"

/*
 * The serial by which a persistent handler answers a job (quredis-handler(7)) is a capability: whoever prints it decides about the
 * message. So it is drawn anew for each job, and bytes that a producer chose cannot contain it.
 */
struct token {
	char text[HANDLER_TOKEN_LEN];	/* decimal digits, no NUL: 1000000000000000 to 8999999999999999, which is below 2^53 */
};

struct token_source {
	uint64_t random[128];		/* random[left..] is used up */
	size_t left;
};

void token_draw(struct token_source *s, struct token *out);

#endif
