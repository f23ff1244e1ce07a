/*
 * Makes sure that a dead letter goes either into the archive or back into ingress, never both. The sweeper writes a
 * dead letter into the archive before it removes it from Redis. In between, an operator could put it back into ingress.
 * So the sweeper first claims in Redis the dead letters that it is going to write, and redrive.lua leaves claimed ones
 * alone.
 *
 * A claim ends when the dead letter is removed (dead_letters_remove.lua), when the sweeper claims the next batch, or
 * when the sweeper has read its archive file and did not find the dead letter there. Only the node that made a claim
 * releases it, since no other node can know whether the dead letter was written. In the step that claims, Redis also
 * checks that the sweeper leads the queue, since the lead may pass to another host between our look and our claim.
 */
#include <string.h>

#include "sweeper/dead_letters/bounds.h"

#include "sweeper/core/core.h"

/* Reads the answer for one group. A dead letter that the answer lacks was taken by another client, or another sweeper
 * leads: it stays. */
static int read_claimed(struct sweeper *s, struct dead_letter_record *const *asked, size_t n)
{
	struct redis_reply reply;

	if (connection_answer(s, &reply) == -1)
		return -1;
	if (!redis_is_strings(&reply))
		return connection_unexpected(s);
	for (size_t i = 0; i < n; i++) {
		bool claimed = false;

		for (size_t k = 0; k < reply.n && !claimed; k++)
			claimed = strcmp(redis_element(&reply, k).str, asked[i]->id) == 0;
		if (!claimed)
			asked[i]->fate = DEAD_LETTER_STAYS;
	}
	return 0;
}

static int claim_group(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters *l,
    struct dead_letter_record *const *asked, size_t n, bool fresh)
{
	struct queue_dead_letter group[QUEUE_DEAD_LETTERS_GROUP];
	char lead[LEAD_NAME_SIZE];

	lead_name(s, lead);
	for (size_t i = 0; i < n; i++) {
		const struct dead_letter_entry *e = &l->entries[asked[i]->entry];

		group[i] = (struct queue_dead_letter){ .message = e->message, .record_id = asked[i]->id,
		    .sha1 = e->sha1 };
	}
	queue_dead_letters_claim(&s->redis, &q->keys, &(struct queue_claimer){ lead, s->conf->supervisor.node }, fresh,
	    (int64_t)l->nentries, group, n);
	return read_claimed(s, asked, n);
}

int claim_letters(struct sweeper *s, struct sweeper_queue *q, struct dead_letters *l)
{
	struct dead_letter_record *asked[QUEUE_DEAD_LETTERS_GROUP];
	bool fresh = true;
	size_t n = 0;

	for (size_t i = 0; i < l->nrecords; i++) {
		if (l->records[i].fate == DEAD_LETTER_LEAVES && l->records[i].entry != -1)
			asked[n++] = &l->records[i];
		if (n < QUEUE_DEAD_LETTERS_GROUP && (n == 0 || i + 1 < l->nrecords))
			continue;
		if (claim_group(s, q, l, asked, n, fresh) == -1)
			return -1;
		fresh = false;
		n = 0;
	}
	return 0;
}

int claim_release(struct sweeper *s, const struct sweeper_queue *q)
{
	int64_t n;

	queue_dead_letters_release(&s->redis, &q->keys, s->conf->supervisor.node);
	return connection_integer(s, &n);
}
