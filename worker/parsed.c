/*
 * Parsed messages, kept in a pool. message_parse() initializes some 500 bytes; a batch of 1000 messages that each had
 * memory of its own for it would push its payload out of the processor's cache. The pool hands out what was dropped
 * last.
 */
#include <stdlib.h>

#include "worker/parsed.h"

struct parsed *parsed_new(struct parsed_pool *pool, const struct message_keys *keys, const char *raw, size_t len)
{
	struct parsed *p = pool->unused;

	if (p == NULL)
		p = alloc_zero(1, sizeof(*p));
	else
		pool->unused = p->next;
	message_parse(&p->message, keys, raw, len);
	p->sha1[0] = '\0';
	p->message.sha1_memo = p->sha1;
	return p;
}

void parsed_drop(struct parsed_pool *pool, struct parsed *p)
{
	if (p == NULL)
		return;
	p->next = pool->unused;
	pool->unused = p;
}

void parsed_pool_free(struct parsed_pool *pool)
{
	for (struct parsed *p = pool->unused; p != NULL; p = pool->unused) {
		pool->unused = p->next;
		free(p);
	}
}
