/* Publishes on the scoreboard which handler of a queue is the newest, whether it works, or why it is refused. */
#include <string.h>

#include "supervisor/queues/queues.h"

void queues_set_refusal(struct queues *qs, int queue, const char *why, int64_t tried_ms)
{
	struct queue_master *words = &qs->board->queues[queue].master;

	qs->items[queue].refused = why != NULL;
	qs->items[queue].tried_ms = tried_ms;
	if (why != NULL)
		slot_text_set(&words->refusal, 0, why, strlen(why), SLOT_TEXT_MAX);
	atomic_store(&words->refused, why != NULL);
}

void queues_note_conf(struct queues *qs, int queue)
{
	atomic_store(&qs->board->queues[queue].master.conf_generation, qs->items[queue].handler_generation + 1);
}

void queues_note_files(struct queues *qs, int queue)
{
	qs->items[queue].files = conf_handler_files(qs->items[queue].conf);
}

bool queues_have_older_files(const struct queues *qs, int queue, const struct conf_queue *conf)
{
	uint64_t files = conf_handler_files(conf);

	return files != 0 && files != qs->items[queue].files;
}

void queues_want_handler(struct queues *qs, int queue)
{
	queues_note_files(qs, queue);
	qs->items[queue].handler_generation++;
	atomic_store(&qs->board->queues[queue].master.newest_generation, qs->items[queue].handler_generation);
	queues_set_refusal(qs, queue, NULL, 0);
}

void queues_adopt_handler(struct queues *qs, int queue)
{
	struct board_queue *b = &qs->board->queues[queue];

	if (atomic_load(&b->master.handler_generation) != qs->items[queue].handler_generation)
		scoreboard_new_handler(b, qs->items[queue].handler_generation);
}
