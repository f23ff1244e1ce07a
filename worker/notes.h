#ifndef WORKER_NOTES_H
#define WORKER_NOTES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/message/message.h"
#include "common/redis/redis.h"

#include "worker/retry.h"
#include "worker/tray.h"

struct worker;

/* Owner: notes.c. Requests for the notes of a shared queue, and for the secrets of seals. */
struct notes {
	struct retry retry;
};

void notes_tick(struct worker *w, int64_t now_ms);
void notes_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
void notes_secret_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
void notes_lost(struct worker *w);
bool notes_wanted(const struct worker *w);		/* true: the notes of some tray are not known yet */
int64_t notes_deadline_ms(const struct worker *w, int64_t now_ms);

#endif
