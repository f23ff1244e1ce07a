/* Finds the most important error of a queue among those that its workers and the sweeper show on the scoreboard, and
 * says what it is. */
#include <stdio.h>

#include "common/board/scoreboard.h"

enum queue_error queue_error_of(enum redis_error_class class)
{
	switch (class) {
	case REDIS_ERROR_NONE:
		return QUEUE_ERROR_NONE;
	case REDIS_ERROR_LOST:
		return QUEUE_ERROR_NO_REDIS;
	case REDIS_ERROR_TRANSIENT:
		return QUEUE_ERROR_TRANSIENT;
	case REDIS_ERROR_PERMISSION:
		return QUEUE_ERROR_NO_PERMISSION;
	case REDIS_ERROR_NO_COMMAND:
		return QUEUE_ERROR_NO_COMMAND;
	case REDIS_ERROR_WRONG_TYPE:
		return QUEUE_ERROR_WRONG_TYPE;
	case REDIS_ERROR_CLUSTER:
		return QUEUE_ERROR_CLUSTER;
	case REDIS_ERROR_SCHEMA:
		return QUEUE_ERROR_SCHEMA;
	case REDIS_ERROR_SECRET:
		return QUEUE_ERROR_SECRET;
	case REDIS_ERROR_UNKNOWN:
		break;
	}
	return QUEUE_ERROR_OTHER;
}

#define COMMAND_SHIFT 16	/* the command is above the error */

uint32_t queue_error_word(enum queue_error error, enum command_name command)
{
	bool refused = error == QUEUE_ERROR_NO_PERMISSION || error == QUEUE_ERROR_NO_COMMAND;

	return (uint32_t)error | (refused ? (uint32_t)command << COMMAND_SHIFT : 0);
}

enum queue_error queue_error_in(uint32_t word)
{
	uint32_t error = word & ((1U << COMMAND_SHIFT) - 1);

	return error <= QUEUE_ERROR_LEFTOVERS ? (enum queue_error)error : QUEUE_ERROR_OTHER;
}

enum command_name queue_error_command(uint32_t word)
{
	uint32_t command = word >> COMMAND_SHIFT;

	return command < COMMAND_COUNT ? (enum command_name)command : COMMAND_UNNAMED;
}

enum queue_error queue_error_worse(enum queue_error a, enum queue_error b)
{
	return a == QUEUE_ERROR_NONE || (b != QUEUE_ERROR_NONE && b < a) ? b : a;
}

/* Of two words. */
static uint32_t worse_word(uint32_t a, uint32_t b)
{
	return queue_error_worse(queue_error_in(a), queue_error_in(b)) == queue_error_in(a) ? a : b;
}

void queue_error_read_workers(const struct scoreboard *b, struct worker_errors *errors)
{
	*errors = (struct worker_errors){0};
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		int32_t place = atomic_load(&b->master.queue_of[i]);
		uint32_t *worst;

		if (place < 1 || place > SCOREBOARD_QUEUES)
			continue;
		worst = &errors->of_queue[place - 1];
		*worst = worse_word(*worst, atomic_load(&b->slots[i].error));
	}
}

uint32_t queue_error_shown(const struct scoreboard *b, const struct board_queue *q, const struct worker_errors *errors)
{
	return worse_word(atomic_load(&q->sweeper.error), errors->of_queue[q - b->queues]);
}

/* ---- for an operator ---- */

static const struct {
	const char *reason;		/* NULL: the error is shown in another way */
	bool stops;			/* nothing of the queue works */
	bool has_more;			/* the text of Redis says more than the reason */
	bool for_good;			/* Redis is there, and refuses until an operator acts */
} known[] = {
	[QUEUE_ERROR_NONE] = { NULL, false, false, false },
	[QUEUE_ERROR_NO_REDIS] = { "no connection to Redis", true, true, false },
	[QUEUE_ERROR_WRONG_TYPE] = { "one of its keys has the wrong type", false, true, false },
	[QUEUE_ERROR_NO_PERMISSION] = { "Redis refuses password or permission", false, true, false },
	[QUEUE_ERROR_NO_COMMAND] = { "Redis refuses a command that quredis needs: quredis doctor", false, false, true },
	[QUEUE_ERROR_CLUSTER] = { "this Redis is a Cluster: set redis.prefix = \"{NAME}\", and use database 0", false,
	    false, true },
	[QUEUE_ERROR_SCHEMA] = { "another version of quredis wrote the keys in Redis", false, true, true },
	[QUEUE_ERROR_SECRET] = { "no secret for wrappers", false, true, true },
	[QUEUE_ERROR_EVICTION] = { "maxmemory-policy may evict queues", true, false, false },
	[QUEUE_ERROR_TRANSIENT] = { "Redis refuses commands for now", true, true, false },
	[QUEUE_ERROR_ARCHIVE] = { "the archive of its dead letters cannot be read or written", false, true, false },
	[QUEUE_ERROR_OTHER] = { "Redis answers with an error", false, true, false },
	[QUEUE_ERROR_LEFTOVERS] = { NULL, false, false, false },	/* its gate says that the queue recovers */
};

/* A reason is a static string, so there is one for each command. */
static const char *const not_permitted[] = {
#define X(name) [COMMAND_##name] = "Redis does not permit this user " #name ": ACL SETUSER",
	COMMAND_NAMES(X)
#undef X
};
static const char *const not_there[] = {
#define X(name) [COMMAND_##name] = \
    "Redis refuses " #name ", which quredis needs: this server lacks it or has renamed it",
	COMMAND_NAMES(X)
#undef X
};

/* NULL: the word names no command. */
static const char *reason_of_command(uint32_t word)
{
	enum command_name command = queue_error_command(word);

	if (command == COMMAND_SELECT)
		return "Redis refuses SELECT: write no database into redis.url";
	return queue_error_in(word) == QUEUE_ERROR_NO_COMMAND ? not_there[command] :
	    queue_error_in(word) == QUEUE_ERROR_NO_PERMISSION ? not_permitted[command] : NULL;
}

const char *queue_error_reason(uint32_t word)
{
	const char *reason = reason_of_command(word);

	return reason != NULL ? reason : known[queue_error_in(word)].reason;
}

uint32_t queue_error_judge(uint32_t word, bool cut_off, bool refused, bool *stops)
{
	enum queue_error shown = queue_error_in(word),
	    guess = cut_off ? QUEUE_ERROR_NO_REDIS : refused ? QUEUE_ERROR_OTHER : QUEUE_ERROR_NONE;

	if (known[shown].for_good)
		guess = QUEUE_ERROR_NONE;
	*stops = guess != QUEUE_ERROR_NONE || known[shown].stops;
	return guess == QUEUE_ERROR_NONE || queue_error_reason(word) != NULL ? word : guess;
}

/* Reads the text that a worker of the queue has of this error. A worker does not know which key has the wrong type. */
static struct slot_text_seen text_of_worker(const struct scoreboard *b, const struct board_queue *q, uint32_t word)
{
	for (int i = 0; i < SCOREBOARD_SLOTS && queue_error_in(word) != QUEUE_ERROR_WRONG_TYPE; i++) {
		struct slot_text_seen seen;

		if (atomic_load(&b->master.queue_of[i]) != q - b->queues + 1 || atomic_load(&b->slots[i].error) != word)
			continue;
		seen = slot_text_read(&b->slots[i].redis_why);
		if (seen.number != -1)
			return seen;
	}
	return (struct slot_text_seen){ .number = -1 };
}

const char *queue_error_more(const struct scoreboard *b, const struct board_queue *q, uint32_t word,
    char out[QUEUE_ERROR_MORE_SIZE])
{
	enum queue_error error = queue_error_in(word);
	struct slot_text_seen seen;

	out[0] = '\0';
	if (!known[error].has_more || reason_of_command(word) != NULL)
		return out;
	seen = slot_text_read(&q->sweeper.why);
	if (seen.number != (int)error || (error != QUEUE_ERROR_WRONG_TYPE && atomic_load(&q->sweeper.error) != word))
		seen = text_of_worker(b, q, word);
	if (seen.number != -1)
		snprintf(out, QUEUE_ERROR_MORE_SIZE, ": %s", seen.text);
	return out;
}
