#ifndef WORKER_BREAKER_H
#define WORKER_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"
#include "common/handler/handler.h"
#include "common/message/message.h"

/*
 * Owner: breaker.c. The breaker of a queue lies in the scoreboard, and all workers of the queue share it. In a worker
 * only these functions write to it.
 */

/* If breaker.failures is 0, the thresholds for handlers that end without an answer. AGAIN: at a message that has ended
 * a process before. */
#define BREAKER_MUTE 16
#define BREAKER_MUTE_AGAIN 256
bool breaker_may_fetch(struct board_queue *b, int64_t now_ms);	/* open: true once in each probe interval */
int64_t breaker_until_ms(const struct board_queue *b);		/* 0: closed */
/* cause: as in common/handler/cause.h. true: this call opened it */
bool breaker_open(struct board_queue *b, uint64_t cause, int64_t now_ms);
/* The handler could not be executed, or was not READY: as breaker_open(), and the next start follows after a pause. */
bool breaker_unready(struct board_queue *b, uint64_t cause, int64_t now_ms);
/*
 * A process has read a job, and ended before any handler of this generation answered. The next probe may follow soon,
 * since it takes another message. lived_ms: how long the process lived. true: this call opened the breaker
 */
bool breaker_mute(struct board_queue *b, uint64_t cause, int64_t lived_ms, int64_t now_ms);
/* forgets that a handler of this generation has answered: it may have been replaced since */
void breaker_doubt(struct board_queue *b);
/* last: how the handler ended; NULL: it replied. true: this call opened it */
bool breaker_failed(struct board_queue *b, uint64_t message, int threshold, const struct handler_result *last,
    int64_t now_ms);
/* a message is done, which ends the row of failures. true: this call closed the breaker */
bool breaker_succeeded(struct board_queue *b);
/* the handler answered, but not OK: it works at least. true: this call closed the breaker */
bool breaker_answered(struct board_queue *b, int threshold);
/* The handler said READY, and its starts were the cause. A row of failures goes on. true: this call closed the
 * breaker */
bool breaker_loaded(struct board_queue *b, int threshold);
/* false: the worker is of an older generation, so its failures are no evidence */
bool breaker_concerns(const struct board_queue *b, uint32_t generation);
void breaker_note_answer(struct board_queue *b, uint32_t generation);
/* true: a handler of this generation has answered */
bool breaker_knows_answers(const struct board_queue *b, uint32_t generation);
uint64_t breaker_message_id(struct message *m);		/* equal messages give equal ids */

#endif
