#ifndef COMMON_MESSAGE_TRACEPARENT_H
#define COMMON_MESSAGE_TRACEPARENT_H

/*
 * The trace that a message belongs to, as W3C Trace Context writes it: "00-", 32 hex digits of the trace, "-", 16 of
 * the step that sent the message, "-", flags. quredis passes it on, and never makes one.
 */
#define MESSAGE_TRACEPARENT_LEN 55
#define MESSAGE_TRACEPARENT_SIZE (MESSAGE_TRACEPARENT_LEN + 1)

struct message_line;

/* Reads the value of the key. "": the line lacks it, or it has another form; the recommendation says to ignore that. */
void message_traceparent_parse(char traceparent[MESSAGE_TRACEPARENT_SIZE], const struct message_line *line,
    const char *key);

#endif
