/*
 * Reads the data by which a rescue judges the messages of a page: their lines, their notes in a shared queue, and the
 * SHA1 of messages that were read in part.
 */
#include "sweeper/rescue/page.h"

#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/rescue/rescue.h"
#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define NAMED_MAX (16 << 20)	/* the SHA1 of a longer message is not computed for the log: it takes Redis too long */

static bool is_partial(const struct held *h)
{
	return h->entry.tail != NULL;
}

/* Parses the lines of all messages. Of a message that is read in part, the line is in that part. */
static void parse_all(struct rescue_page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct held *h = &p->held[i];

		message_parse(&h->m, &p->q->keys.lines, h->entry.raw, h->shown);
		h->m.raw_len = h->entry.len;
		h->size = (int64_t)(h->m.raw_len - h->m.wrapper_len);
	}
}

static bool is_doubtful(const struct rescue_page *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->held[i].m.doubtful)
			return true;
	return false;
}

/* Shared queues: the notes beside the messages. */
static int read_notes(struct rescue_page *p)
{
	char sha1s[RESCUE_PAGE_MAX][ENCODE_SHA1_SIZE];
	const char *fields[RESCUE_PAGE_MAX];
	struct redis_reply answer;
	struct wrapper note;

	for (size_t i = 0; i < p->n; i++) {
		message_digest(&p->held[i].m, sha1s[i]);
		fields[i] = sha1s[i];
	}
	queue_notes_by_sha1(&p->s->redis, &p->q->keys, fields, p->n);
	if (connection_answer(p->s, &answer) == -1)
		return -1;
	for (size_t i = 0; i < p->n; i++)
		if (queue_note_read(&answer, i, &note))
			p->held[i].m.wrapper = note;
	return 0;
}

/* Only Redis can compute the SHA1 of a message that is read in part. It does so only if a note, a trial, a record or
 * the log needs it. */
static bool wants_digest(const struct rescue_page *p, const struct held *h)
{
	struct held judged = *h;

	if (!is_partial(h))
		return false;
	if (p->q->keys.shared || (p->r->trial[0] != '\0' && h->m.wrapper.nonce == 0))
		return true;
	rescue_page_judge(p, &judged);
	return judged.class != NULL || (h->m.id[0] == '\0' && h->entry.len <= NAMED_MAX);
}

/*
 * Sets the offsets for which Redis computes a SHA1: of the message, and of the payload if the id is made from it,
 * because no header has one. Each takes Redis 4 ms per MiB.
 */
static size_t digests_of(const struct held *h, size_t from[QUEUE_DIGESTS])
{
	from[0] = h->m.wrapper_len;
	from[1] = h->m.wrapper_len + h->m.header_len;
	return h->m.id[0] == '\0' && h->m.header_len > 0 ? 2 : 1;
}

/* 1: the message is no longer there */
static int take_digest(struct rescue_page *p, struct held *h)
{
	struct redis_reply sums, of_message, of_payload;
	size_t from[QUEUE_DIGESTS];

	if (connection_answer(p->s, &sums) == -1)
		return -1;
	if (!redis_is_strings(&sums) || sums.n != digests_of(h, from))
		return 1;
	of_message = redis_element(&sums, 0);
	of_payload = redis_element(&sums, sums.n - 1);
	if (of_message.len != sizeof(h->m.sha1) - 1 || of_payload.len != sizeof(h->m.sha1) - 1)
		return 1;
	strlcpy(h->m.sha1, of_message.str, sizeof(h->m.sha1));
	if (h->m.id[0] == '\0')
		snprintf(h->m.id, sizeof(h->m.id), "sha1:%s", of_payload.str);
	return 0;
}

static int read_digests(struct rescue_page *p)
{
	bool asked[RESCUE_PAGE_MAX];
	int rc = 0;

	for (size_t i = 0; i < p->n; i++) {
		struct held *h = &p->held[i];
		size_t from[QUEUE_DIGESTS], n = digests_of(h, from);
		struct queue_entry here = h->entry;

		here.at = (int64_t)i;		/* nothing has moved yet */
		here.of += (int64_t)i;
		asked[i] = wants_digest(p, h);
		if (asked[i])
			queue_digest(&p->s->redis, p->lease, p->rescue, &here, from, n);
		else if (!is_partial(h))
			message_id(&h->m);
	}
	for (size_t i = 0; i < p->n && rc != -1; i++)
		if (asked[i]) {
			int took = take_digest(p, &p->held[i]);

			rc = took == 0 ? rc : took;
		}
	return rc;
}

int rescue_page_learn(struct rescue_page *p)
{
	int rc;

	parse_all(p);
	if (is_doubtful(p)) {
		if (connection_secret(p->s) == -1)
			return -1;
		parse_all(p);
	}
	rc = read_digests(p);
	return rc == 0 && p->q->keys.shared && p->n > 0 ? read_notes(p) : rc;
}
