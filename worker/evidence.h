#ifndef WORKER_EVIDENCE_H
#define WORKER_EVIDENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/tray.h"

struct worker;

/* Owner: evidence.c. The evidence in the registration of the current name, by which a sweeper can judge the death of
 * this worker. */
struct evidence {
	bool stop_noted;		/* `stopping` was sent to this name's registration */
	struct place trial;		/* the place of the message on trial; tray -1: none */
	char trial_name[QUEUE_NOTE_FIELD];
	/* how far the registration of this name has learned of the trial */
	enum { TRIAL_UNTOLD, TRIAL_ASKED, TRIAL_TOLD, TRIAL_ENDING } trial_noted;
	/* CLOCK_MONOTONIC: Redis refused the last write, so the next one is not sent before */
	int64_t at_ms;
};

void evidence_init(struct worker *w);
void evidence_tick(struct worker *w, int64_t now_ms);
void evidence_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
/* a new name or connection: assume that the registration has neither key */
void evidence_lost(struct worker *w);
bool evidence_is_on_trial(const struct worker *w, struct place p);
/*
 * false: the message needs a trial and must not start yet, because another trial is under way in this supervisor, or
 * because Redis has not confirmed this one.
 */
bool evidence_may_start(struct worker *w, struct place p);
int64_t evidence_deadline_ms(const struct worker *w, int64_t now_ms);

#endif
