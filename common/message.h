#ifndef COMMON_MESSAGE_H
#define COMMON_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buffer.h"

/*
 * What lies in a list: [wrapper line] [header line] payload (docs/design.md, "Header and wrapper").
 * A line is "quredis/1 key=value key=value\n", values [A-Za-z0-9._:+-]*, at most MESSAGE_LINE_MAX
 * bytes with its newline. A wrapper is a line whose first key is w. What is malformed is payload.
 */
#define MESSAGE_LINE_MAX 1024
#define MESSAGE_ID_MAX 128

/* What quredis remembers of a message, in front of it. Absent = all zero. */
struct wrapper {
	uint64_t nonce;			/* w: keeps equal messages distinct */
	int attempts;			/* failed attempts charged so far */
	int crashes;			/* deaths of its worker charged so far */
	int redelivered;		/* times it may have run before without being charged */
	bool solo;			/* to be kept alone in a tray */
	int64_t own_ms;			/* waiting since: server's ms since 1970; 0: not known */
	int64_t mark_ms;		/* see docs/design.md; 0: none */
	int64_t first_failed_ms;	/* server's ms since 1970; 0: never */
};

struct message {
	const char *raw;		/* as it lies in Redis; not owned */
	size_t raw_len;
	size_t wrapper_len;		/* raw + wrapper_len: the producer's message, byte for byte */
	size_t header_len;		/* behind the wrapper */
	struct wrapper wrapper;
	bool unknown_version;		/* "quredis/N " with N other than 1 */
	char id[MESSAGE_ID_MAX + 1];		/* "" : the header has none, and message_id() was not called */
	char request_id[MESSAGE_ID_MAX + 1];	/* "" : none */
	int64_t ttl_ms, enqueued_ms, timeout_ms;	/* header; -1: not given */
	int max_attempts;				/* header; -1: not given */
};

/* Never fails: what is not a line of ours is payload. Views into raw; nothing is owned. */
void message_parse(struct message *m, const char *raw, size_t len);

/* The header's, else "sha1:<hex>" of the payload: worked out at the first call. In m. */
const char *message_id(struct message *m);

static inline const char *message_payload(const struct message *m)
{
	return m->raw + m->wrapper_len + m->header_len;
}

static inline size_t message_payload_len(const struct message *m)
{
	return m->raw_len - m->wrapper_len - m->header_len;
}

/* It may be what its worker died of: it is run alone. */
static inline bool message_is_suspect(const struct wrapper *w)
{
	return w->solo || w->crashes > 0;
}

/* Appends to out: m's message behind wrapper w, with a fresh nonce. m's old wrapper is dropped. */
void message_wrap(struct buffer *out, const struct message *m, const struct wrapper *w);

/*
 * What w says but for its nonce, as a wrapper has it: "crashes=1 redelivered=2"; "": nothing. MESSAGE_MEMORY_SIZE bytes
 * hold any.
 */
#define MESSAGE_MEMORY_SIZE 192
const char *message_memory(const struct wrapper *w, char out[MESSAGE_MEMORY_SIZE]);
/* Reads it back. -1: it is not of that form, and w says nothing. */
int message_recall(struct wrapper *w, const char *text, size_t len);

/* Appends a header line. NULL and -1 leave a key out. Returns -1 if a value has a byte that cannot
 * stand there. */
int message_header(struct buffer *out, const char *id, const char *request_id, int64_t ttl_ms,
    int64_t enqueued_ms, int64_t timeout_ms, int max_attempts);

/* 40 hex digits and NUL. */
void message_sha1(const void *data, size_t len, char out[41]);

#endif
