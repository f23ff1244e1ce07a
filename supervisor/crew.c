/*
 * Queues as the master sees them: they enter and leave the configuration, their workers are recycled,
 * their dead workers' figures are kept. Forking is child.c's, filling up is staff.c's, whether a
 * queue's configuration changed is reload.c's.
 */
#include <stddef.h>
#include <string.h>

#include <bsd/string.h>

#include "common/log.h"
#include "supervisor/child.h"
#include "supervisor/crew.h"
#include "supervisor/master.h"

struct crew *crew_find(struct master *m, const char *name)
{
	for (int i = 0; i < m->ncrews; i++)
		if (m->crews[i].conf != NULL && strcmp(m->crews[i].name, name) == 0)
			return &m->crews[i];
	return NULL;
}

int crew_wanted(const struct crew *c)
{
	return c->conf == NULL ? 0 : c->conf->workers;
}

static struct board_queue *on_board(struct master *m, const struct crew *c)
{
	return &m->board->queues[c - m->crews];
}

static void close_breaker(struct board_queue *q)
{
	atomic_store(&q->breaker_step, 0);
	atomic_store(&q->breaker_until_ms, 0);
	atomic_store(&q->failures, 0);
}

void crew_reset_gate(struct master *m, struct crew *c)
{
	struct board_queue *q = on_board(m, c);

	atomic_store(&q->recovered, RECOVERED_NOTHING);
	atomic_store(&q->gate, QUEUE_RECOVERING);
	atomic_store(&q->trouble, TROUBLE_NONE);
}

static bool has_deaths(const struct deaths *d, int crew)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].told.queue_index == crew)
			return true;
	return false;
}

static bool is_spent(const struct master *m, const struct crew *c)
{
	return c->conf == NULL && c->staff == 0 && c->leaving == 0 && !has_deaths(&m->deaths, (int)(c - m->crews));
}

/* One of that name that left, a new one, or one that left and has nothing any more. */
static struct crew *find_room(struct master *m, const char *name)
{
	for (int i = 0; i < m->ncrews; i++)
		if (strcmp(m->crews[i].name, name) == 0)
			return &m->crews[i];
	if (m->ncrews < SCOREBOARD_QUEUES)
		return &m->crews[m->ncrews++];
	for (int i = 0; i < m->ncrews; i++)
		if (is_spent(m, &m->crews[i])) {
			memset(&m->crews[i], 0, sizeof(m->crews[i]));
			memset((void *)&m->board->queues[i], 0, sizeof(m->board->queues[i]));
			return &m->crews[i];
		}
	return NULL;
}

struct crew *crew_enter(struct master *m, const struct conf_queue *conf)
{
	struct crew *c = find_room(m, conf->name);

	if (c == NULL)
		return NULL;
	strlcpy(c->name, conf->name, sizeof(c->name));
	c->conf = conf;
	c->quiet = false;
	c->policy = (struct policy){0};
	c->owed = 0;
	crew_reset_gate(m, c);
	close_breaker(on_board(m, c));
	return c;
}

static bool is_staff(const struct master *m, const struct crew *c, int slot)
{
	const struct proc *p = &m->procs[slot];

	return p->pid > 0 && p->kind == PROC_WORKER && &m->crews[p->crew] == c;
}

void crew_dismiss(struct master *m, int slot, int64_t now_ms)
{
	struct proc *p = &m->procs[slot];
	struct crew *c = &m->crews[p->crew];

	p->leaving = true;
	p->leaving_ms = now_ms;
	c->staff--;
	c->leaving++;
}

void crew_recycle(struct master *m, struct crew *c, int64_t now_ms)
{
	for (int slot = 0; slot < m->top; slot++) {
		if (!is_staff(m, c, slot))
			continue;
		if (m->procs[slot].leaving)
			child_order(m, slot, ORDER_HAND_BACK, now_ms);
		else
			crew_dismiss(m, slot, now_ms);
	}
	c->policy = (struct policy){0};
	c->owed = 0;
	close_breaker(on_board(m, c));
}

void crew_leave(struct master *m, struct crew *c, int64_t now_ms)
{
	for (int slot = 0; slot < m->top; slot++)
		if (is_staff(m, c, slot) && !m->procs[slot].leaving)
			crew_dismiss(m, slot, now_ms);
	c->conf = NULL;
}

void crew_order_all(struct master *m, struct crew *c, int64_t now_ms)
{
	enum order order = m->quiet || c->quiet ? ORDER_QUIET : ORDER_RUN;

	for (int slot = 0; slot < m->top; slot++)
		if (is_staff(m, c, slot) && !m->procs[slot].leaving)
			child_order(m, slot, order, now_ms);
}

void crew_fold(struct crew *c, const struct slot *s)
{
	for (int i = 0; i < COUNTERS; i++)
		c->counters[i] += atomic_load(&s->counters[i]);
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		c->durations[i] += atomic_load(&s->durations[i]);
}

void crew_see_success(struct master *m, struct crew *c)
{
	uint64_t done = atomic_load(&on_board(m, c)->workers_done);

	if (done == c->done_seen)
		return;
	c->done_seen = done;
	policy_success(&c->policy);
}

static void look(struct master *m, struct crew *c, int64_t now_ms)
{
	const char *reason;
	enum crew_state state;

	crew_see_success(m, c);
	policy_tick(&c->policy, (size_t)c->staff, now_ms);
	state = crew_judge(m, c, &reason);
	if (state == c->state && reason == c->reason)
		return;
	c->state = state;
	c->reason = reason;
	log_event(state == CREW_RUNNING || state == CREW_PAUSED || state == CREW_QUIET || state == CREW_RECOVERING ?
	    LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "queue_state", log_str("queue", c->name),
	    log_str("state", crew_state_names[state]), log_str("reason", reason));
}

void crews_look(struct master *m, int64_t now_ms)
{
	for (int i = 0; i < m->ncrews; i++)
		if (m->crews[i].conf != NULL)
			look(m, &m->crews[i], now_ms);
}
