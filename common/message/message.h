#ifndef COMMON_MESSAGE_MESSAGE_H
#define COMMON_MESSAGE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/base.h"
#include "common/message/seal.h"

/*
 * What lies in a list: [wrapper line] [header line] payload (docs/design.md, "Header and wrapper").
 * A line is "quredis/1 key=value key=value\n", values [A-Za-z0-9._:+-]*, at most MESSAGE_LINE_MAX
 * bytes with its newline. A wrapper is a line whose first key is w and whose last one, mac, proves that quredis
 * wrote it for this queue. What is malformed or not proven is payload.
 */
#define MESSAGE_LINE_MAX 1024
#define MESSAGE_ID_MAX 128

/* Decides which lines before the messages of a queue count. Strings and secrets are views: they must outlive it. */
struct message_keys {
	const char *queue;			/* key of its ingress: a wrapper counts nowhere else */
	const struct seal_secrets *secrets;
	bool headers;				/* false: a header line is payload, too (configuration key headers) */
};

/* Uses the secrets that this process knows. Keeps ingress, which must outlive the result. */
static inline struct message_keys message_keys_of(const char *ingress, bool headers)
{
	return (struct message_keys){ .queue = ingress, .secrets = seal_known(), .headers = headers };
}

/* What quredis remembers of a message, in front of it. Absent = all zero. */
struct wrapper {
	uint64_t nonce;			/* w: keeps equal messages distinct */
	int attempts;			/* failed attempts charged so far */
	int crashes;			/* deaths of its worker charged so far */
	int redelivered;		/* times it may have run before without being charged */
	int outages;			/* deaths of its whole supervisor, or of several workers at once, that charged nobody */
	bool solo;			/* to be kept alone in a tray */
	int64_t own_ms;			/* waiting since: server's ms since 1970; 0: not known */
	int64_t redriven_ms;		/* when an operator put it back out of escape, the same; 0: never */
	int64_t first_failed_ms;	/* server's ms since 1970; 0: never */
	bool apart;			/* for message_wrapper(): the line says that delayed may hold it without the payload, which another list
					 * holds then (scripts/shared/apart.lua). message_parse() leaves it false */
};

struct message {
	const char *raw;		/* as it lies in Redis; not owned */
	size_t raw_len;
	size_t wrapper_len;		/* raw + wrapper_len: the producer's message, byte for byte */
	size_t header_len;		/* behind the wrapper */
	struct wrapper wrapper;
	bool doubtful;			/* it begins with a line that has the form of a wrapper, and no known secret verifies its seal.
					 * Read the secrets again and parse again; if it stays so, a producer wrote the line */
	bool unknown_version;		/* "quredis/N " with N other than 1 */
	char id[MESSAGE_ID_MAX + 1];		/* "" : the header has none, and message_id() was not called */
	char request_id[MESSAGE_ID_MAX + 1];	/* "" : none */
	char sha1[ENCODE_SHA1_SIZE];			/* of what is behind the wrapper, set by who has only the beginning in raw; "": it is worked out */
	char *sha1_memo;		/* ENCODE_SHA1_SIZE bytes of the caller, "" at first: the sha1 is kept there, so that the next message_parse()
					 * of the same bytes need not work it out again; NULL: nowhere */
	int64_t ttl_ms, enqueued_ms, timeout_ms;	/* header; -1: not given */
	int max_attempts;				/* header; -1: not given */
};

/* Every wrapper begins with these bytes. So may a payload: message_parse() tells which it is. */
#define MESSAGE_WRAPPER_BEGIN "quredis/1 w="
#define MESSAGE_WRAPPER_BEGIN_LEN (sizeof(MESSAGE_WRAPPER_BEGIN) - 1)
static inline bool message_may_be_wrapped(const char *raw, size_t len)
{
	return len >= MESSAGE_WRAPPER_BEGIN_LEN && memcmp(raw, MESSAGE_WRAPPER_BEGIN, MESSAGE_WRAPPER_BEGIN_LEN) == 0;
}

/* Never fails: what is not a line of ours is payload. Views into raw; nothing is owned. */
void message_parse(struct message *m, const struct message_keys *keys, const char *raw, size_t len);

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

/*
 * A message that was in hand in so many outages is tried alone: its supervisor runs no other such message beside it. So the
 * next outage is evidence against this one (docs/design.md, "Who is blamed").
 */
#define MESSAGE_OUTAGES_MAX 2
static inline bool message_needs_trial(const struct wrapper *w)
{
	return w->outages >= MESSAGE_OUTAGES_MAX;
}

/* It may be what its worker died of: it is run alone. */
static inline bool message_is_suspect(const struct wrapper *w)
{
	return w->solo || w->crashes > 0;
}

/* Appends to out the sealed line that says w, with a fresh nonce: it comes in place of the first wrapper_len bytes. */
void message_wrapper(struct buffer *out, const struct message_keys *keys, const struct wrapper *w);
/* Appends to out: m's message behind wrapper w, with a fresh nonce and sealed. m's old wrapper is dropped. */
void message_wrap(struct buffer *out, const struct message_keys *keys, const struct message *m, const struct wrapper *w);

/* The start of such a wrapper without own_ms: Redis adds own, by its clock, and the seal (common/queue/scripts/stamp.lua). */
#define MESSAGE_STAMP_SIZE 256
struct message_stamp {
	char line[MESSAGE_STAMP_SIZE];
	char key[SEAL_KEY_HEX + 1];
};
void message_stamp(struct message_stamp *stamp, const struct message_keys *keys, const struct wrapper *w);

/*
 * Writes the pairs of w without its nonce, as they stand in a wrapper: "crashes=1 redelivered=2"; "" if all are zero.
 * MESSAGE_MEMORY_SIZE bytes hold any. Returns out.
 */
#define MESSAGE_MEMORY_SIZE 192
const char *message_memory(const struct wrapper *w, char out[MESSAGE_MEMORY_SIZE]);
/* Reads such a text back. Returns 0; or -1 and a zeroed w if the text has another form. */
int message_recall(struct wrapper *w, const char *text, size_t len);

/* Appends a header line. NULL and -1 leave a key out. Returns -1 if a value has a byte that cannot
 * stand there. */
int message_header(struct buffer *out, const char *id, const char *request_id, int64_t ttl_ms,
    int64_t enqueued_ms, int64_t timeout_ms, int max_attempts);

/* The SHA1 of the producer's message, worked out if it is not known. 40 hex digits and NUL */
void message_digest(const struct message *m, char out[ENCODE_SHA1_SIZE]);

/* The rest of what this folder offers. */
#include "common/message/age.h"

#endif
