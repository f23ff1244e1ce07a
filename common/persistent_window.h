#ifndef COMMON_PERSISTENT_WINDOW_H
#define COMMON_PERSISTENT_WINDOW_H

#include <stddef.h>
#include <stdint.h>

/* What a handler that stays was given and has not answered: oldest first, serials rise. */
struct persistent_job {
	uint64_t serial;
	const char *raw;		/* the message as it lies in Redis; not owned */
	size_t raw_len;
	int64_t timeout_ms;		/* -1: none */
	int64_t given_ms;
	uint64_t begin, end;		/* of its frame in all that was ever written to this process */
};

struct persistent_window {
	struct persistent_job *jobs;	/* twice as many as may be unanswered, so that it moves seldom */
	int cap, first, n;
};

void persistent_window_init(struct persistent_window *w, int window);
void persistent_window_free(struct persistent_window *w);
void persistent_window_clear(struct persistent_window *w);

/* Fewer than `window` are in it; serial is above all that ever were. */
void persistent_window_add(struct persistent_window *w, const struct persistent_job *job);
struct persistent_job *persistent_window_at(const struct persistent_window *w, int i);	/* 0: the oldest; i < n */
int persistent_window_find(const struct persistent_window *w, uint64_t serial);		/* -1: not in it */
void persistent_window_remove(struct persistent_window *w, int i);
void persistent_window_cut(struct persistent_window *w, int n);		/* only the n oldest stay */

#endif
