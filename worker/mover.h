#ifndef WORKER_MOVER_H
#define WORKER_MOVER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/queue/queue.h"
#include "common/redis/redis.h"

#include "worker/leaving.h"
#include "worker/retry.h"
#include "worker/tray.h"

struct worker;

/* Owner: mover.c. The back-off of refused moves. The trays know which moves those are. */
struct mover {
	struct retry retry;		/* invariant: errors is 0 only if the trays count no refusal */
	/* a message was set aside because of this move, and no such move has succeeded since */
	bool hopeless[MOVES];
	struct leaving leaving;
};

/* After so many refusals, about ten seconds, a message is set aside. By then a short failure is over, or an operator
 * has replaced the key. */
#define MOVE_ATTEMPTS 8

void mover_tick(struct worker *w, int64_t now_ms);
/* a hand-back is chosen and not sent: a message fetched now would overtake it */
bool mover_hand_back_waits(const struct worker *w);
void mover_record_failed(void);	/* logs that a message escaped without its record */
void mover_answer(struct worker *w, struct place p, const struct redis_reply *reply, int64_t now_ms);
void mover_reopen_tray(struct worker *w, int tray);	/* a DELETING tray whose list was read again */
void mover_delete_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms);
/* no back-off before the moves that Redis refused are sent again */
void mover_retry_now(struct worker *w);
void mover_gone(struct worker *w, struct place p);	/* the message is not in its tray any more */
void mover_free(struct worker *w);
int64_t mover_deadline_ms(const struct worker *w, int64_t now_ms);

#endif
