/*
 * Reads the registry (quredis:queues) a page at a time, with the entry of each queue. The ranks of a sorted set shift
 * while it changes: a name that is missed in one turn comes in the next.
 */
#include <stdlib.h>
#include <string.h>

#include "sweeper/registry/page.h"

#include "sweeper/core/core.h"
#include "sweeper/registry/registry.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

void registry_page_drop(struct registry_page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->entries[i].name);
		free(p->entries[i].score);
		free(p->entries[i].json);
	}
	p->n = 0;
}

static int read_names(struct sweeper *s, struct registry_page *p, int64_t *total)
{
	struct redis_reply reply;

	*total = 0;
	queue_registry_page(&s->redis, p->rank, REGISTRY_PAGE);
	if (connection_answer(s, &reply) == -1) {
		registry_note_error(s, NULL);
		return -1;
	}
	for (size_t i = 0; i + 1 < reply.n && *total < REGISTRY_PAGE; i += 2) {
		struct redis_reply name = redis_element(&reply, i), score = redis_element(&reply, i + 1);

		++*total;
		/* A name that no configuration allows has never had workers. */
		if (name.type == REDIS_STRING && identifier_is(IDENTIFIER_NAME, name.str, name.len) &&
		    score.type == REDIS_STRING)
			p->entries[p->n++] =
			    (struct registered){ .name = alloc_string(name.str), .score = alloc_string(score.str) };
	}
	return 0;
}

static void take_entry(struct registered *e, const struct redis_reply *reply)
{
	if (reply->type == REDIS_STRING)
		e->json = alloc_copy(reply->str, reply->len);
}

/* Reads the entries one by one, for a server that does not allow keys of several slots in one command, or a user who
 * may not run that command. */
static void read_entries_singly(struct sweeper *s, struct registry_page *p)
{
	for (size_t i = 0; i < p->n; i++) {
		queue_registered(&s->redis, p->entries[i].name);
		p->entries[i].unread = true;
	}
	for (size_t i = 0; i < p->n && s->redis.state != REDIS_CLOSED; i++) {
		struct redis_reply reply;

		if (connection_answer(s, &reply) == -1) {
			registry_note_error(s, p->entries[i].name);
			continue;
		}
		take_entry(&p->entries[i], &reply);
		p->entries[i].unread = false;
	}
}

static void read_entries(struct sweeper *s, struct registry_page *p)
{
	struct redis_reply reply;
	char *names[REGISTRY_PAGE];

	for (size_t i = 0; i < p->n; i++)
		names[i] = p->entries[i].name;
	queue_registered_all(&s->redis, names, p->n);
	if (connection_answer(s, &reply) == -1) {
		if (s->redis.state != REDIS_CLOSED)
			read_entries_singly(s, p);
		return;
	}
	for (size_t i = 0; reply.type == REDIS_ARRAY && i < reply.n && i < p->n; i++) {
		struct redis_reply entry = redis_element(&reply, i);

		take_entry(&p->entries[i], &entry);
	}
}

int registry_page_next(struct sweeper *s, struct registry_page *p)
{
	int64_t total;

	registry_page_drop(p);
	if (read_names(s, p, &total) == -1)
		return -1;
	p->rank = total < REGISTRY_PAGE ? 0 : p->rank + total;
	if (p->n > 0)
		read_entries(s, p);
	return s->redis.state == REDIS_CLOSED ? -1 : 0;
}
