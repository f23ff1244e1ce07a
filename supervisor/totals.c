/*
 * Adding up a queue: workers that live, workers that are gone, what the sweeper did, and the same of
 * the crews it is the heir of. What is shown of it is status.c's.
 */
#include "supervisor/totals.h"

#include "supervisor/master.h"

static void add_slot(struct totals *t, const struct slot *s)
{
	for (int i = 0; i < COUNTERS; i++)
		t->counters[i] += atomic_load(&s->counters[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		t->durations[i] += atomic_load(&s->durations[i]);
}

static void add_crew(struct totals *t, const struct crew *c, const struct board_queue *q)
{
	for (int i = 0; i < COUNTERS; i++)
		t->counters[i] += atomic_load(&q->past[i]) + atomic_load(&q->swept[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		t->durations[i] += atomic_load(&q->past[FIGURE_DURATIONS + i]);
	t->restarts += c->restarts;
	t->draining += c->leaving;
}

struct totals totals_of(const struct master *m, int crew)
{
	struct totals t = {0};

	for (int i = 0; i < m->ncrews; i++)
		if (crew_root(m, i) == crew)
			add_crew(&t, &m->crews[i], &m->board->queues[i]);
	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid > 0 && p->kind == PROC_WORKER && crew_root(m, p->crew) == crew)
			add_slot(&t, &m->board->slots[slot]);
	}
	return t;
}
