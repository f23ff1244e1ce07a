/*
 * Seals prove that quredis wrote a line. A producer controls every byte of a message, so it can begin the message with
 * anything, also with a line that looks like a wrapper; but it does not know the secret, so it cannot compute the code.
 *
 * Two kinds of seal exist, because two writers do:
 *	line	A worker, the sweeper or a command wrote all of the line: HMAC-SHA256(secret, "line" queue line).
 *	claim	Redis itself appends the end of the line, such as " own=TIME", since only Redis knows the time at which
 *		the script runs. Lua in Redis has SHA-1 and no HMAC. So the caller sends a one-time key with the line,
 *		HMAC-SHA256(secret, "claim" queue line), and Redis seals with SHA1(key claim key). The line holds a
 *		random number (w), so a key that leaks can seal another claim for this one line and for no other.
 *
 * Both cover the key of the queue's ingress: a sealed line that an operator moves to another queue proves nothing
 * there. Neither covers the payload.
 *
 * This file alone holds the secrets of the process. common/queue/secret.c reads them from Redis;
 * common/message/message.c knows the form of a line. Workers and sweepers of one supervisor also share them in memory:
 * a process that starts while quredis:secret is deleted or replaced must know the secrets with which the others have
 * sealed. A handler has no access: the memory has no name, and exec unmaps it.
 */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>
#include <nettle/hmac.h>
#include <nettle/memops.h>
#include <nettle/sha1.h>

#include "common/base/base.h"
#include "common/message/seal.h"

static struct seal_secrets known;
static struct seal_shared *shared;	/* NULL: this process is a command, which shares no secrets */

/* ---- secrets ---- */

const struct seal_secrets *seal_known(void)
{
	return &known;
}

static int digit_value(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_secret(unsigned char out[SEAL_SECRET_BYTES], const char *word, size_t len)
{
	if (len != (size_t)2 * SEAL_SECRET_BYTES)
		return -1;
	for (size_t i = 0; i < SEAL_SECRET_BYTES; i++) {
		int high = digit_value(word[2 * i]), low = digit_value(word[2 * i + 1]);

		if (high == -1 || low == -1)
			return -1;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return 0;
}

static void add_secret(struct seal_secrets *s, const unsigned char secret[SEAL_SECRET_BYTES])
{
	for (size_t i = 0; i < s->n; i++)
		if (memcmp(s->secret[i], secret, SEAL_SECRET_BYTES) == 0)
			return;
	if (s->n < SEAL_SECRETS_MAX)
		memcpy(s->secret[s->n++], secret, SEAL_SECRET_BYTES);
}

/* ---- shared with the other processes of the supervisor ---- */

void seal_share(struct seal_shared *s)
{
	shared = s;
}

/*
 * The first word names the secret, so two processes that publish the same one write the same words to the same place,
 * and either completes what the other left if it was killed. A secret whose first word is 0 is not published; only one
 * secret in 2^64 is like that.
 */
static void publish_secret(const unsigned char secret[SEAL_SECRET_BYTES])
{
	uint64_t words[SEAL_SECRET_BYTES / 8];

	memcpy(words, secret, sizeof(words));
	for (size_t i = 0; words[0] != 0 && i < SEAL_SECRETS_MAX; i++) {
		struct seal_shared_secret *place = &shared->secrets[i];
		uint64_t first = 0;

		if (!atomic_compare_exchange_strong(&place->words[0], &first, words[0]) && first != words[0])
			continue;
		for (size_t j = 1; j < nitems(words); j++)
			atomic_store(&place->words[j], words[j]);
		atomic_store(&place->whole, 1);
		return;
	}
}

static void add_shared(struct seal_secrets *s)
{
	for (size_t i = 0; i < SEAL_SECRETS_MAX; i++) {
		struct seal_shared_secret *place = &shared->secrets[i];
		uint64_t words[SEAL_SECRET_BYTES / 8];

		if (atomic_load(&place->whole) == 0)
			continue;
		for (size_t j = 0; j < nitems(words); j++)
			words[j] = atomic_load(&place->words[j]);
		add_secret(s, (const unsigned char *)words);
	}
}

/* ---- learning ---- */

int seal_learn(const char *list)
{
	struct seal_secrets learnt = {0};

	while (*list != '\0') {
		unsigned char secret[SEAL_SECRET_BYTES];
		size_t len = strcspn(list, " ");

		if (parse_secret(secret, list, len) == 0)
			add_secret(&learnt, secret);
		list += len + (list[len] == ' ');
	}
	if (learnt.n == 0)
		return -1;
	/* Keeps the known secrets, so that queue_secret() gives them back to a Redis that has lost some. */
	for (size_t i = 0; i < known.n; i++)
		add_secret(&learnt, known.secret[i]);
	known = learnt;
	for (size_t i = 0; shared != NULL && i < known.n; i++)
		publish_secret(known.secret[i]);
	return 0;
}

void seal_list(char out[SEAL_LIST_SIZE])
{
	out[0] = '\0';
	if (shared != NULL)
		add_shared(&known);
	for (size_t i = 0; i < known.n; i++) {
		if (i > 0)
			*out++ = ' ';
		*put_hex(out, known.secret[i], SEAL_SECRET_BYTES) = '\0';
		out += 2 * SEAL_SECRET_BYTES;
	}
}

void seal_fresh(char out[2 * SEAL_SECRET_BYTES + 1])
{
	unsigned char secret[SEAL_SECRET_BYTES];

	arc4random_buf(secret, sizeof(secret));
	*put_hex(out, secret, sizeof(secret)) = '\0';
}

/* ---- codes ---- */

/* Over purpose NUL queue NUL line. Neither purpose nor queue can hold a NUL, so different triples are always different
 * bytes. */
static void hmac(unsigned char out[SHA256_DIGEST_SIZE], const unsigned char secret[SEAL_SECRET_BYTES],
    const char *purpose, const char *queue, const char *line, size_t len)
{
	struct hmac_sha256_ctx hash;

	hmac_sha256_set_key(&hash, SEAL_SECRET_BYTES, secret);
	hmac_sha256_update(&hash, strlen(purpose) + 1, (const uint8_t *)purpose);
	hmac_sha256_update(&hash, strlen(queue) + 1, (const uint8_t *)queue);
	hmac_sha256_update(&hash, len, (const uint8_t *)line);
	hmac_sha256_digest(&hash, SHA256_DIGEST_SIZE, out);
}

static void line_mac(char out[SEAL_MAC_HEX + 1], const unsigned char secret[SEAL_SECRET_BYTES], const char *queue,
    const char *line, size_t len)
{
	unsigned char digest[SHA256_DIGEST_SIZE];

	hmac(digest, secret, "line", queue, line, len);
	*put_hex(out, digest, SEAL_MAC_HEX / 2) = '\0';
}

static void claim_key(char out[SEAL_KEY_HEX + 1], const unsigned char secret[SEAL_SECRET_BYTES], const char *queue,
    const char *line, size_t len)
{
	unsigned char digest[SHA256_DIGEST_SIZE];

	hmac(digest, secret, "claim", queue, line, len);
	*put_hex(out, digest, sizeof(digest)) = '\0';
}

/* Takes the same time wherever a and b differ: the time must not tell an attacker how many digits were right. */
static bool same_mac(const char *a, const char *b)
{
	return memeql_sec(a, b, SEAL_MAC_HEX) != 0;
}

void seal_line(char out[SEAL_MAC_HEX + 1], const struct seal_secrets *s, const char *queue, const char *line,
    size_t len)
{
	assert(s->n > 0);
	line_mac(out, s->secret[0], queue, line, len);
}

bool seal_line_holds(const struct seal_secrets *s, const char *queue, const char *line, size_t len, const char *mac)
{
	char right[SEAL_MAC_HEX + 1];

	for (size_t i = 0; i < s->n; i++) {
		line_mac(right, s->secret[i], queue, line, len);
		if (same_mac(right, mac))
			return true;
	}
	return false;
}

void seal_key(char out[SEAL_KEY_HEX + 1], const struct seal_secrets *s, const char *queue, const char *line, size_t len)
{
	assert(s->n > 0);
	claim_key(out, s->secret[0], queue, line, len);
}

static void claim_mac(char out[SEAL_MAC_HEX + 1], const char key[SEAL_KEY_HEX + 1], const char *claim, size_t len)
{
	struct sha1_ctx hash;
	uint8_t digest[SHA1_DIGEST_SIZE];

	sha1_init(&hash);
	sha1_update(&hash, SEAL_KEY_HEX, (const uint8_t *)key);
	sha1_update(&hash, len, (const uint8_t *)claim);
	sha1_update(&hash, SEAL_KEY_HEX, (const uint8_t *)key);
	sha1_digest(&hash, sizeof(digest), digest);
	*put_hex(out, digest, SEAL_MAC_HEX / 2) = '\0';
}

bool seal_claim_holds(const struct seal_secrets *s, const char *queue, const char *line, size_t len, const char *claim,
    size_t claim_len, const char *mac)
{
	char key[SEAL_KEY_HEX + 1], right[SEAL_MAC_HEX + 1];

	for (size_t i = 0; i < s->n; i++) {
		claim_key(key, s->secret[i], queue, line, len);
		claim_mac(right, key, claim, claim_len);
		if (same_mac(right, mac))
			return true;
	}
	return false;
}
