/* Finds the most important error of a queue among those that its workers and the sweeper show on the scoreboard. */
#include "common/board/scoreboard.h"

enum queue_error queue_error_of(enum redis_error_class class)
{
	switch (class) {
	case REDIS_ERROR_NONE:
		return QUEUE_ERROR_NONE;
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
