#ifndef SWEEPER_REGISTRY_H
#define SWEEPER_REGISTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sweeper;
struct swept;

#define REGISTRY_PAGE 100

/* Where we are in the registry. One page of it is in memory, however long it is. */
struct registry {
	int64_t entered_ms;		/* CLOCK_MONOTONIC when our queues were seen to last; 0: never */
	int64_t connection;		/* redis.connection then: another one may lead to a server that has forgotten */
	int64_t rank;			/* of the next page; 0: a new turn begins with it */
	int64_t turn_ms;		/* CLOCK_MONOTONIC when this turn began */
	struct registered {
		char *name;
		char *json;		/* its entry; NULL: there is none */
	} page[REGISTRY_PAGE];
	size_t n, next;			/* next <= n */
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

/* Something about a queue that is not ours could not be read (s->error): one line, until all is well for a whole turn. */
void registry_wrong(struct sweeper *s, const char *queue);

void registry_free(struct sweeper *s);

#endif
