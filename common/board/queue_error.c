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
	case REDIS_ERROR_WRONG_TYPE:
		return QUEUE_ERROR_WRONG_TYPE;
	case REDIS_ERROR_CLUSTER:
		return QUEUE_ERROR_CLUSTER;
	case REDIS_ERROR_UNKNOWN:
		break;
	}
	return QUEUE_ERROR_OTHER;
}

/* A word of another process may be damaged, and the result is used as an index. */
static enum queue_error known_error(uint32_t word)
{
	return word <= QUEUE_ERROR_LEFTOVERS ? (enum queue_error)word : QUEUE_ERROR_OTHER;
}

enum queue_error queue_error_worse(enum queue_error a, enum queue_error b)
{
	return a == QUEUE_ERROR_NONE || (b != QUEUE_ERROR_NONE && b < a) ? b : a;
}

void queue_error_read_workers(const struct scoreboard *b, struct worker_errors *errors)
{
	*errors = (struct worker_errors){0};
	for (int i = 0; i < SCOREBOARD_SLOTS; i++) {
		int32_t place = atomic_load(&b->master.queue_of[i]);
		enum queue_error *worst;

		if (place < 1 || place > SCOREBOARD_QUEUES)
			continue;
		worst = &errors->of_queue[place - 1];
		*worst = queue_error_worse(*worst, known_error(atomic_load(&b->slots[i].error)));
	}
}

enum queue_error queue_error_shown(const struct scoreboard *b, const struct board_queue *q, const struct worker_errors *errors)
{
	return queue_error_worse(known_error(atomic_load(&q->sweeper.error)), errors->of_queue[q - b->queues]);
}
