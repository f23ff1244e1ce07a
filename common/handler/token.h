#ifndef COMMON_HANDLER_TOKEN_H
#define COMMON_HANDLER_TOKEN_H

#include <stddef.h>
#include <stdint.h>

#include "common/handler/reply.h"

/*
 * The serial by which a persistent handler answers a job (quredis-handler(7)) is a capability: whoever prints it
 * decides about the message. So it is drawn anew for each job, and bytes that a producer chose cannot contain it.
 */
struct token {
	/* decimal digits, no NUL: 1000000000000000 to 8999999999999999, which is below 2^53 */
	char text[HANDLER_TOKEN_LEN];
};

/*
 * Random numbers of the kernel, fetched for 128 tokens at a time. All zeros is a source that has none yet. Each struct
 * persistent has its own. It owns no memory, and is never copied, since a copy would draw the same tokens again.
 */
struct token_source {
	uint64_t random[128];		/* random[left..] is used up; one number is one token */
	size_t left;
};

/*
 * Fills *out with the next token. It cannot fail: where getrandom(2) does not give all bytes, arc4random(3) does, which
 * ends the process if there is no source at all. Two tokens are equal with a probability of about 2^-52.
 */
void token_draw(struct token_source *s, struct token *out);

#endif
