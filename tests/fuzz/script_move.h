#ifndef TESTS_FUZZ_SCRIPT_MOVE_H
#define TESTS_FUZZ_SCRIPT_MOVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buffer.h"
#include "common/message/message.h"
#include "tests/fuzz/fake_redis.h"

/*
 * A call of a script that takes one message out of a list (ENTRY in common/queue/scripts.h), read from its arguments as
 * common/queue/scripts/shared/entry.lua reads them. Pointers are into the command.
 */
struct script_move {
	const char *list;		/* the key of the list that holds the message */
	bool by_place;			/* named by its index; else head is the whole message */
	int64_t at;			/* by_place: the index, as LINDEX counts */
	const char *head, *tail;
	size_t head_len, tail_len, len;	/* len: of the whole message */
	bool changes;			/* the script puts a line before the message: line and strip are given */
	const char *line;
	size_t line_len, strip;		/* strip also where only the wrapper is taken off: escape */
	bool noted;			/* the script writes a note beside the message, as in a shared queue */
};

/*
 * keys: of the queue, by which lines of ours are told from payload; NULL: not known, and less is checked. False: c is
 * no call of such a script, or acknowledges a whole tray. Aborts if the arguments are not what the script expects,
 * or if what comes to lie in a list would not be the producer's message behind at most one wrapper.
 */
bool script_move_read(const struct fake_command *c, const struct message_keys *keys, struct script_move *m);

/* Whether this message may be the one that the call names. */
bool script_move_names(const struct script_move *m, const char *raw, size_t len);

/* Appends to out what the script puts into the other list if this is its message. */
void script_move_result(const struct script_move *m, const char *raw, size_t len, struct buffer *out);

#endif
