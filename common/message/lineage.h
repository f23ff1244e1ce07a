#ifndef COMMON_MESSAGE_LINEAGE_H
#define COMMON_MESSAGE_LINEAGE_H

#include "common/base/base.h"
#include "common/message/traceparent.h"

/*
 * Which message this one descends from, if a handler emitted it. It travels in the wrapper, through all attempts.
 * A message without a wrapper is its own root: one that no handler emitted, and each of a shared queue. So max_depth
 * does not end a circle of handlers through a shared queue. A wrapper has a lineage or a schedule, never both, so its
 * line keeps 40 bytes of room even if every value is as long as it may be (test_lineage.c): for the name of a batch.
 */
struct message_lineage {
	int depth;		/* 1: the root's handler emitted it; 2: that of such a message …; 0: no handler did */
	char root[IDENTIFIER_ID_MAX + 1];	/* the id of the first message; "": depth is 0 */
	/* of the message that emitted it, which has none in a header of its own; "": none */
	char traceparent[MESSAGE_TRACEPARENT_SIZE];
};
#define MESSAGE_DEPTH_MAX 1000000

struct buffer;
struct message_line;

/* Appends the pairs of a wrapper line, each with a blank before it; nothing if depth is 0. */
void message_lineage_append(struct buffer *out, const struct message_lineage *l);
/* Reads them. Without them, or if a value has another form, which only another version writes: the message is its own
 * root. */
void message_lineage_parse(struct message_lineage *l, const struct message_line *line);
/* The same for the values of a record, which any program may have written; "": it has none. */
void message_lineage_read(struct message_lineage *l, const char *root, const char *depth, const char *traceparent);

#endif
