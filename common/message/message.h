#ifndef COMMON_MESSAGE_MESSAGE_H
#define COMMON_MESSAGE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/base.h"
#include "common/message/failure.h"
#include "common/message/lineage.h"
#include "common/message/schedule.h"
#include "common/message/seal.h"
#include "common/message/traceparent.h"

/*
 * The form of an entry of a list: [wrapper line] [header line] payload (docs/design.md, "Header and wrapper"). A line
 * is "quredis/1 key=value key=value\n", values [A-Za-z0-9._:+-]*, at most MESSAGE_LINE_MAX bytes with its newline. A
 * wrapper is a line whose first key is w and whose last one, mac, proves that quredis wrote it for this queue. A
 * malformed line is payload. A line of exactly this form that no known secret verifies makes the message doubtful.
 */
#define MESSAGE_LINE_MAX 1024
#define MESSAGE_ID_MAX IDENTIFIER_ID_MAX

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

/* The contents of a wrapper: what quredis remembers of a message. All zero: the message has no wrapper. */
struct wrapper {
	uint64_t nonce;			/* w: keeps equal messages distinct */
	int attempts;			/* failed attempts charged so far */
	int crashes;			/* deaths of its worker charged so far */
	int redelivered;		/* times it may have run before without being charged */
	int outages;			/* outages, with this message in flight, that did not charge it */
	bool solo;			/* it must run alone */
	/* and as the first job of its process, so that the end of that one shows whether it is the cause */
	bool fresh;
	int64_t own_ms;			/* waiting since: server's ms since 1970; 0: not known */
	int64_t redriven_ms;		/* when an operator put it back out of escape, the same; 0: never */
	int64_t first_failed_ms;	/* server's ms since 1970; 0: never */
	struct message_schedule schedule;	/* that pushed it */
	struct message_lineage lineage;	/* of a message that a handler emitted */
	/* of the last attempt. Not in the notes of a shared queue, which has no second attempt */
	struct message_failure failure;
	/* for message_wrapper(): the line says that delayed may hold it without the payload, which another list holds
	 * then (scripts/shared/apart.lua). message_parse() leaves it false */
	bool apart;
};

struct message {
	const char *raw;		/* as it lies in Redis; not owned */
	size_t raw_len;
	/* raw + wrapper_len: the producer's message, byte for byte, unless it is doubtful */
	size_t wrapper_len;
	size_t header_len;		/* behind the wrapper */
	struct wrapper wrapper;
	/* behind wrapper_len is a line that has exactly the form of a wrapper, and no known secret verifies its seal.
	 * Read the secrets again and parse again. If it stays so, the message must not run: it escapes with that
	 * line */
	bool doubtful;
	bool unknown_version;		/* "quredis/N " with N other than 1 */
	char id[MESSAGE_ID_MAX + 1];		/* "" : the header has none, and message_id() was not called */
	char request_id[MESSAGE_ID_MAX + 1];	/* "" : none */
	char traceparent[MESSAGE_TRACEPARENT_SIZE];	/* of the header; "" : none. See message_traceparent() */
	/* of the bytes after the wrapper; set by a caller whose raw has only the beginning. "": computed when it is
	 * needed */
	char sha1[ENCODE_SHA1_SIZE];
	/*
	 * ENCODE_SHA1_SIZE bytes of the caller, "" at first: keeps the sha1, so that the next message_parse() of the
	 * same bytes need not compute it again; NULL: nowhere
	 */
	char *sha1_memo;
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

/* The class of a message that escapes because it stays doubtful, and why. */
#define MESSAGE_UNKNOWN_SEAL "UnknownSeal"
#define MESSAGE_UNKNOWN_SEAL_WHY "a line of quredis stands before it whose seal no secret in quredis:secret " \
    "verifies: that key was lost or replaced, or the " \
	"message is of another queue, or a producer forged the line"

/* Never fails. A line of another form is payload; see `doubtful` for one whose seal no secret verifies. The result has
 * views into raw, and owns nothing. */
void message_parse(struct message *m, const struct message_keys *keys, const char *raw, size_t len);

/* Returns the id of the header, else "sha1:<hex>" of the payload, computed at the first call. A view into m. */
const char *message_id(struct message *m);

/* Of its header, else of the message that emitted it. NULL: none */
static inline const char *message_traceparent(const struct message *m)
{
	const char *found = m->traceparent[0] == '\0' ? m->wrapper.lineage.traceparent : m->traceparent;

	return found[0] == '\0' ? NULL : found;
}

static inline const char *message_payload(const struct message *m)
{
	return m->raw + m->wrapper_len + m->header_len;
}

static inline size_t message_payload_len(const struct message *m)
{
	return m->raw_len - m->wrapper_len - m->header_len;
}

/*
 * A message that was in flight in so many outages needs a trial: its supervisor runs no other such message beside it,
 * so that the next outage is evidence against this one (docs/design.md, "What a death charges").
 */
#define MESSAGE_OUTAGES_MAX 2
static inline bool message_needs_trial(const struct wrapper *w)
{
	return w->outages >= MESSAGE_OUTAGES_MAX;
}

/* True: the message may have killed its worker, so it must run alone. */
static inline bool message_is_suspect(const struct wrapper *w)
{
	return w->solo || w->fresh || w->crashes > 0;
}

/* Appends a sealed line with the contents of w and a fresh nonce to out. It replaces the first wrapper_len bytes of the
 * message. */
void message_wrapper(struct buffer *out, const struct message_keys *keys, const struct wrapper *w);
/* Appends such a line, and m's message without its old wrapper, to out. */
void message_wrap(struct buffer *out, const struct message_keys *keys, const struct message *m,
    const struct wrapper *w);

/* The start of such a wrapper without own_ms: Redis adds own, by its clock, and the seal
 * (common/queue/scripts/stamp.lua). */
#define MESSAGE_STAMP_SIZE MESSAGE_LINE_MAX
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

/* Appends a header line. NULL and -1 leave a key out. -1: an id has another form than IDENTIFIER_ID. */
int message_header(struct buffer *out, const char *id, const char *request_id, int64_t ttl_ms,
    int64_t enqueued_ms, int64_t timeout_ms, int max_attempts);

/* Writes the SHA1 of the producer's message, and computes it if it is not known. 40 hex digits and NUL */
void message_digest(const struct message *m, char out[ENCODE_SHA1_SIZE]);

/* The other headers of this folder. */
#include "common/message/age.h"

#endif
