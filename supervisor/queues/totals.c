/*
 * Adds up the figures of a queue: its living workers, its ended workers, the sweeper, and the same for each place whose
 * heir it is. The master itself moves the words of a dead worker from its slot to the past of the queue, so it never
 * counts them twice.
 */
#include "supervisor/queues/totals.h"

static void add_slot(struct totals *t, const struct slot *s)
{
	for (int i = 0; i < COUNTERS; i++)
		t->counters[i] += atomic_load(&s->counters[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		t->durations[i] += atomic_load(&s->durations[i]);
}

static void add_queue(struct totals *t, const struct queue_workers *q, const struct board_queue *b)
{
	for (int i = 0; i < COUNTERS; i++)
		t->counters[i] += atomic_load(&b->master.past[i]) + atomic_load(&b->sweeper.swept[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		t->durations[i] += atomic_load(&b->master.past[FIGURE_DURATIONS + i]);
	t->draining += q->leaving;
}

struct totals totals_of(const struct queues *qs, int queue)
{
	struct totals t = { .restarts = atomic_load(&qs->board->queues[queue].master.restarts) };

	for (int i = 0; i < qs->n; i++)
		if (queues_root(qs, i) == queue)
			add_queue(&t, &qs->items[i], &qs->board->queues[i]);
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (queues_root(qs, p->role.queue) == queue)
			add_slot(&t, &qs->board->slots[processes_slot(qs->processes, p)]);
	return t;
}
