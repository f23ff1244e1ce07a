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

/* A worker that had to start its handler again may have loaded what is there now. If that failed, a reload tries it. */
static bool all_have_loaded(const struct queues *qs, int queue, uint64_t files)
{
	bool ready = qs->items[queue].conf->ready;
	int n = 0;

	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;) {
		const struct slot *s = &qs->board->slots[processes_slot(qs->processes, p)];

		if (p->role.queue == queue && p->state == PROCESS_SERVING && atomic_load(&s->handler_files) == files &&
		    (!ready || atomic_load(&s->ready) != 0))
			n++;
	}
	return n > 0 && n == qs->items[queue].serving;
}

bool queues_have_older_files(const struct queues *qs, int queue, const struct conf_queue *conf)
{
	uint64_t files = conf_handler_files(conf);

	return files != 0 && files != qs->items[queue].files && !all_have_loaded(qs, queue, files);
}

/* Workers whose handler works are no reason to doubt the next one. Where none works, only READY ends the doubt. */
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
