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
	if (c->conf == NULL)
		return 0;
	return c->scaled == -1 ? c->conf->workers : c->scaled;
}

int crew_wanted_by_others(const struct master *m, const struct crew *c)
{
	int n = 0;

	for (int i = 0; i < m->ncrews; i++)
		n += &m->crews[i] == c ? 0 : crew_wanted(&m->crews[i]);
	return n;
}

static struct board_queue *on_board(struct master *m, const struct crew *c)
{
	return &m->board->queues[c - m->crews];
}

/* Starts a new generation: failures that old workers report from now on are no evidence against the new handler. */
static void judge_anew(struct crew *c, struct board_queue *q)
{
	atomic_store(&q->handler_generation, ++c->handler_generation);
	atomic_store(&q->breaker_step, 0);
	atomic_store(&q->breaker_until_ms, 0);
	atomic_store(&q->failures, 0);
	atomic_store(&q->failed_seen, 0);
}

static bool has_deaths(const struct deaths *d, int crew)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].told.queue_index == crew)
			return true;
	return false;
}

int crew_root(const struct master *m, int crew)
{
	while (m->crews[crew].heir != -1)
		crew = m->crews[crew].heir;
	return crew;
}

static bool is_known_to_a_sweeper(const struct master *m, const struct crew *c)
{
	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid > 0 && p->kind == PROC_SWEEPER && p->epoch <= c->left_epoch)
			return true;
	}
	return false;
}

/* Nobody has anything to do with it any more, but for its totals. */
static bool is_spent(const struct master *m, const struct crew *c)
{
	return c->conf == NULL && c->staff == 0 && c->leaving == 0 && !has_deaths(&m->deaths, (int)(c - m->crews)) &&
	    !is_known_to_a_sweeper(m, c);
}

/* What was written down first: what was not is then new with the heir. */
static void inherit(struct board_queue *heir, const struct board_queue *q)
{
	for (int i = 0; i < SCOREBOARD_FIGURES; i++) {
		atomic_fetch_add(&heir->tallied[i], atomic_load(&q->tallied[i]));
		atomic_fetch_add(&heir->told[i], atomic_load(&q->told[i]));
		atomic_fetch_add(&heir->past[i], atomic_load(&q->past[i]) + (i < COUNTERS ? atomic_load(&q->swept[i]) : 0));
	}
	for (int i = 0; i < SCOREBOARD_BUCKETS; i++)
		atomic_fetch_add(&heir->past[FIGURE_LAGS + i], atomic_load(&q->lags[i]));
	atomic_fetch_add(&heir->past[FIGURE_LAG_MS], atomic_load(&q->lag_ms));
}

/* Its totals go to its heir, which takes its place for those whose heir it was. */
static void dissolve(struct master *m, struct crew *c)
{
	struct board_queue *q = on_board(m, c);
	struct crew *heir = c->heir == -1 ? NULL : &m->crews[c->heir];

	if (heir != NULL) {
		inherit(on_board(m, heir), q);
		heir->restarts += c->restarts;
	}
	for (int i = 0; i < m->ncrews; i++)
		if (m->crews[i].heir == c - m->crews)
			m->crews[i].heir = c->heir;
	memset(c, 0, sizeof(*c));
	memset((void *)q, 0, sizeof(*q));
}

/* One that is spent; with_heir: only if nothing of it is forgotten. */
static struct crew *find_spent(struct master *m, bool with_heir)
{
	for (int i = 0; i < m->ncrews; i++)
		if (is_spent(m, &m->crews[i]) && (m->crews[i].heir != -1 || !with_heir))
			return &m->crews[i];
	return NULL;
}

static struct crew *find_room(struct master *m)
{
	struct crew *c = find_spent(m, true);

	if (c == NULL && m->ncrews < SCOREBOARD_QUEUES)
		return &m->crews[m->ncrews++];
	if (c == NULL)
		c = find_spent(m, false);
	if (c != NULL)
		dissolve(m, c);
	return c;
}

struct crew *crew_enter(struct master *m, const struct conf_queue *conf)
{
	struct crew *c = find_room(m);

	if (c == NULL)
		return NULL;
	strlcpy(c->name, conf->name, sizeof(c->name));
	c->conf = conf;
	c->scaled = -1;
	c->heir = -1;
	for (int i = 0; i < m->ncrews; i++)
		if (&m->crews[i] != c && m->crews[i].heir == -1 && strcmp(m->crews[i].name, c->name) == 0)
			m->crews[i].heir = (int)(c - m->crews);
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

/* Staff leaves; what the queue had leaving before, in whatever crew, hands back. */
static void dismiss_all(struct master *m, struct crew *c, int64_t now_ms)
{
	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid == 0 || p->kind != PROC_WORKER || strcmp(m->crews[p->crew].name, c->name) != 0)
			continue;
		if (p->leaving)
			child_order(m, slot, ORDER_HAND_BACK, now_ms);
		else
			crew_dismiss(m, slot, now_ms);
	}
}

void crew_recycle(struct master *m, struct crew *c, int64_t now_ms)
{
	dismiss_all(m, c, now_ms);
	c->policy = (struct policy){0};
	c->owed = 0;
	judge_anew(c, on_board(m, c));
}

void crew_leave(struct master *m, struct crew *c, int64_t now_ms)
{
	dismiss_all(m, c, now_ms);
	c->conf = NULL;
	c->left_epoch = m->epoch;
	atomic_store(&on_board(m, c)->departure, QUEUE_LEFT);
}

void crew_order_all(struct master *m, struct crew *c, int64_t now_ms)
{
	enum order order = m->quiet || c->quiet ? ORDER_QUIET : ORDER_RUN;

	for (int slot = 0; slot < m->top; slot++)
		if (is_staff(m, c, slot) && !m->procs[slot].leaving)
			child_order(m, slot, order, now_ms);
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
