#ifndef COMMON_MESSAGE_SEAL_H
#define COMMON_MESSAGE_SEAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Message authentication codes of the lines that quredis puts before messages (docs/design.md, "Seals"). A code is
 * HMAC-SHA256, cut to 128 bits, over the queue and the line, with a secret that Redis stores.
 *
 * queue: key of the queue's ingress. line, len: the line without its code. mac: SEAL_MAC_HEX digits. The functions keep
 * no pointer to these; they write an `out` with its NUL.
 */
#define SEAL_SECRET_BYTES 32
#define SEAL_SECRETS_MAX 8
#define SEAL_MAC_HEX 32			/* digits of a code */
#define SEAL_KEY_HEX 64			/* digits of a one-time key */
#define SEAL_LIST_SIZE (SEAL_SECRETS_MAX * (2 * SEAL_SECRET_BYTES + 1))	/* all secrets as text, with NUL */

struct seal_secrets {			/* the first one seals; each of them verifies */
	size_t n;
	unsigned char secret[SEAL_SECRETS_MAX][SEAL_SECRET_BYTES];
};

/*
 * The secrets that any process of one supervisor has learnt, in shared memory (scoreboard.h), zeroed at first. No
 * secret is ever removed; once all places are taken, further ones are not shared. Processes add to it at the same time,
 * without a lock, and may be killed at any point.
 */
struct seal_shared {
	struct seal_shared_secret {
		_Atomic uint64_t words[SEAL_SECRET_BYTES / 8];	/* the first is 0 while the place is free */
		_Atomic uint32_t whole;				/* 1: all words are there */
	} secrets[SEAL_SECRETS_MAX];
};

/*
 * From now on this process publishes in s the secrets that it learns, and seal_list() adds those that other processes
 * have published. The caller owns s, which must outlive the process.
 */
void seal_share(struct seal_shared *s);

/* The secrets that this process has learnt. Static, and valid for ever. Not safe for threads; a forked child has a
 * copy. */
const struct seal_secrets *seal_known(void);

/*
 * Learns the secrets of list: hexadecimal words separated by blanks, newest first. Skips words of another form. The
 * secrets of list come first; those that were known before stay behind them while there is room. Returns 0; or -1, and
 * changes nothing, if list has no secret.
 */
int seal_learn(const char *list);

/* Learns what other processes share, and writes all known secrets in the form that seal_learn() reads; "" if none is
 * known. */
void seal_list(char out[SEAL_LIST_SIZE]);

/* Writes a new random secret as text. The process does not learn it: Redis may have one already. */
void seal_fresh(char out[2 * SEAL_SECRET_BYTES + 1]);

/* Seals with the first secret; at least one must be known (asserted). */
void seal_line(char out[SEAL_MAC_HEX + 1], const struct seal_secrets *s, const char *queue, const char *line,
    size_t len);
bool seal_line_holds(const struct seal_secrets *s, const char *queue, const char *line, size_t len, const char *mac);

/*
 * A claim is the end of a line that only Redis can write, such as its time. seal_key() makes the key with which Redis
 * seals it; the line has a random number in it, so the key is good for this line only. The code is the start of
 * SHA1(key claim key).
 */
void seal_key(char out[SEAL_KEY_HEX + 1], const struct seal_secrets *s, const char *queue, const char *line,
    size_t len);
bool seal_claim_holds(const struct seal_secrets *s, const char *queue, const char *line, size_t len, const char *claim,
    size_t claim_len, const char *mac);

#endif
