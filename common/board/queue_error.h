#ifndef COMMON_BOARD_QUEUE_ERROR_H
#define COMMON_BOARD_QUEUE_ERROR_H

#include "common/base/base.h"
#include "common/board/slot_text.h"
#include "common/redis/redis.h"

struct board_queue;
struct scoreboard;

/*
 * The errors of a queue, the most important one first, since status shows only one: first errors that an operator must
 * repair, then errors that may end by themselves, and last errors during which Redis works.
 */
enum queue_error {
	QUEUE_ERROR_NONE, QUEUE_ERROR_WRONG_TYPE, QUEUE_ERROR_NO_PERMISSION,
	QUEUE_ERROR_NO_COMMAND,	/* Redis, or the hosted service, refuses a command that quredis needs */
	QUEUE_ERROR_CLUSTER,	/* Redis is a Cluster, and keys are in several slots, or in a database other than 0 */
	QUEUE_ERROR_SCHEMA,	/* the keys are of another version of quredis */
	QUEUE_ERROR_SECRET,	/* quredis:secret is lost or damaged (common/queue/secret.c) */
	QUEUE_ERROR_EVICTION, QUEUE_ERROR_NO_REDIS,
	QUEUE_ERROR_TRANSIENT,	/* Redis refuses commands for now: it loads, is a replica, has no memory */
	QUEUE_ERROR_OTHER,
	QUEUE_ERROR_ARCHIVE,	/* the archive of dead letters cannot be read or written; Redis works */
	QUEUE_ERROR_LEFTOVERS	/* recovery waits until processes of a dead supervisor have ended; Redis works */
};
#define QUEUE_ERRORS (QUEUE_ERROR_LEFTOVERS + 1)
enum queue_error queue_error_of(enum redis_error_class class);
enum queue_error queue_error_worse(enum queue_error a, enum queue_error b);	/* the more important one */

/* The words of the scoreboard hold an error, and the command that Redis refused, if it is known. */
/* command: counts with NO_PERMISSION and NO_COMMAND only */
uint32_t queue_error_word(enum queue_error error, enum command_name command);
/* Why, for an operator; static. NULL: there is no error, or it is shown in another way. */
const char *queue_error_reason(uint32_t word);
/*
 * The word to show for a queue whose most important error is `word`. cut_off: all its workers have lost Redis. refused:
 * the sweeper shut its gate. *stops: nothing of the queue works; otherwise a part of it fails, if the word has a
 * reason.
 */
uint32_t queue_error_judge(uint32_t word, bool cut_off, bool refused, bool *stops);
/* A word of another process may be damaged; both results may be used as an index. */
enum queue_error queue_error_in(uint32_t word);
enum command_name queue_error_command(uint32_t word);

/*
 * The most important error of the workers of each queue, by the place of the queue. It is true for the moment of the
 * read: read it once for all queues, and again in the next turn. A read is one pass over the slots; a pass for each
 * queue would cost 2,048 words each.
 */
struct worker_errors {
	uint32_t of_queue[SCOREBOARD_QUEUES];	/* words */
};
void queue_error_read_workers(const struct scoreboard *b, struct worker_errors *errors);
/*
 * The word of the most important error of a queue: of the sweeper's word and of the word of each worker that lives. The
 * end of one worker's error, or of the worker, thus never hides another's.
 */
uint32_t queue_error_shown(const struct scoreboard *b, const struct board_queue *q, const struct worker_errors *errors);
/*
 * More of this reason of the word: ": " and the text of Redis, or the key with the wrong type, as the sweeper or a
 * worker knows it. "" if the reason says all. Writes and returns out.
 */
#define QUEUE_ERROR_MORE_SIZE (SLOT_TEXT_WORDS * 8 + 2)
const char *queue_error_more(const struct scoreboard *b, const struct board_queue *q, uint32_t word,
    char out[QUEUE_ERROR_MORE_SIZE]);

#endif
