#ifndef SWEEPER_REGISTRY_H
#define SWEEPER_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sweeper/registry_page.h"

struct queue_keys;
struct sweeper;
struct swept;

#define REGISTRY_SHOWN_MS 10000		/* so often a queue that nothing else shows to be served is shown in the registry */

/* Where we are in the registry. */
struct registry {
	int64_t entered_ms;		/* CLOCK_MONOTONIC when our queues were seen to last; 0: never */
	int64_t shown_ms;		/* the same: when those were shown that nothing else shows */
	int64_t connection;		/* redis.connection then: another one may lead to a server that has forgotten */
	int64_t turn_ms;		/* CLOCK_MONOTONIC when this turn began */
	struct registry_page page;
	size_t next;			/* entry of it; <= page.n */
	int looks;			/* how many more queues this round may ask for */
	int alarmed;			/* turns, with this one, in which rounds look at more */
	bool wrong, said;		/* something of this turn could not be read; that was logged */
};

/* Puts a queue of ours into the registry, or only what is missing of it. -1: lost; that it is refused is logged. */
int registry_enter(struct sweeper *s, struct swept *q, bool again);

/* A round of looks begins (watch.c): so many of those that are not ours come next. */
void registry_round(struct sweeper *s);

/* Looks at queues that are not ours, as far as this round and this step allow. True: there are more. */
bool registry_look(struct sweeper *s, int budget, int64_t now_ms);

/* Its transit list is that of a queue we see to, whatever it is called here or there. */
bool registry_is_seen_to(const struct sweeper *s, const struct queue_keys *keys);

/* Something about a queue that is not ours could not be read (s->error): one line, until all is well for a whole turn. */
void registry_wrong(struct sweeper *s, const char *queue);

void registry_free(struct sweeper *s);

#endif
