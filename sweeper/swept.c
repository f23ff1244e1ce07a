/* The queues the sweeper sees to, and what it says of them on the board: gate, trouble, counters. */
#include <stdlib.h>
#include <string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"

/* Somebody of this master has recovered it before: its gate is no business of our own recovery. */
static bool was_recovered(const struct board_queue *b)
{
	return atomic_load(&b->recovered) == RECOVERED_ALL && atomic_load(&b->gate) != QUEUE_RECOVERING;
}

struct swept *swept_add(struct sweeper *s, struct queue_keys keys, const struct conf_queue *conf)
{
	struct swept *q = alloc_zero(1, sizeof(*q));
	int index = conf == NULL ? -1 : s->child->queue_index_of(keys.name);

	q->keys = keys;
	q->conf = conf;
	TAILQ_INIT(&q->rescues);
	TAILQ_INIT(&q->troubles);
	tasks_enter(q);
	q->board = index == -1 ? NULL : &s->child->board->queues[index];
	q->recovery = q->board == NULL ? RECOVERED : RECOVER_KEYS;
	q->was_recovered = q->board != NULL && was_recovered(q->board);
	q->published = q->board == NULL ? TROUBLE_NONE : (enum queue_trouble)atomic_load(&q->board->trouble);	/* as our predecessor left it */
	TAILQ_INSERT_TAIL(&s->queues, q, entry);
	return q;
}

void swept_init_all(struct sweeper *s)
{
	TAILQ_INIT(&s->queues);
	for (size_t i = 0; i < s->conf->nqueues; i++) {
		struct queue_keys keys;

		queue_keys_from_conf(&keys, s->conf->queues[i]);
		swept_add(s, keys, s->conf->queues[i]);
	}
}

void swept_drop(struct sweeper *s, struct swept *q)
{
	TAILQ_REMOVE(&s->queues, q, entry);
	rescue_free_all(q);
	while (!TAILQ_EMPTY(&q->troubles))
		trouble_forget(q, TAILQ_FIRST(&q->troubles));
	tasks_leave(q);
	free(q->absences);
	queue_keys_free(&q->keys);
	free(q);
}

void swept_free_all(struct sweeper *s)
{
	while (!TAILQ_EMPTY(&s->queues))
		swept_drop(s, TAILQ_FIRST(&s->queues));
}

/* ---- what task.h declares of one queue ---- */

void *task_state(const struct swept *q, enum task_id id)
{
	return q->tasks[id]->state;
}

int64_t task_at_ms(const struct swept *q, enum task_id id)
{
	return q->tasks[id]->at_ms;
}

void task_wake_at(struct swept *q, enum task_id id, int64_t at_ms)
{
	q->tasks[id]->at_ms = at_ms;
}

struct trouble *task_trouble(struct swept *q, enum task_id id)
{
	return &q->tasks[id]->trouble;
}

bool task_fails(const struct swept *q, enum task_id id)
{
	return q->tasks[id]->trouble.kind != TROUBLE_NONE;
}

struct swept *swept_find(struct sweeper *s, const char *name)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (strcmp(q->keys.name, name) == 0)
			return q;
	return NULL;
}

static void log_gate(const struct swept *q, enum queue_gate before, enum queue_gate gate)
{
	if (gate == QUEUE_PAUSED)
		log_info("queue_paused", log_str("queue", q->keys.name));
	else if (gate == QUEUE_OPEN && before == QUEUE_PAUSED)
		log_info("queue_resumed", log_str("queue", q->keys.name));
}

/* What is not known yet is left as our predecessor said. */
void swept_gate(struct sweeper *s, struct swept *q)
{
	enum queue_gate before, gate;

	if (q->board == NULL)
		return;
	before = (enum queue_gate)atomic_load(&q->board->gate);
	if (s->refusal != TROUBLE_NONE)
		gate = QUEUE_REFUSED;
	else if (q->recovery != RECOVERED && !q->was_recovered)
		gate = QUEUE_RECOVERING;
	else if (!q->polled)
		gate = before;
	else
		gate = q->paused ? QUEUE_PAUSED : QUEUE_OPEN;
	if (gate == before)
		return;
	atomic_store(&q->board->gate, gate);
	if (q->polled)
		log_gate(q, before, gate);
}

void swept_set_paused(struct sweeper *s, struct swept *q, bool paused)
{
	q->paused = paused;
	q->polled = true;
	swept_gate(s, q);
}

/* The periodic work is another host's once it leads the queue, and so is the trouble with it (lead.c). */
static enum queue_trouble trouble_of(const struct sweeper *s, const struct swept *q)
{
	enum queue_trouble kind = s->refusal;
	const struct trouble *t;

	TAILQ_FOREACH(t, &q->troubles, entry)
		if (lead_was_ours(q) || !t->leads)
			kind = trouble_worse(kind, t->kind);
	return kind;
}

/* What is configured here counts here. */
static void learn(struct swept *q, const struct queue_worker *w, size_t n)
{
	if (q->conf == NULL && queue_workers_share(w, n))
		q->keys.shared = true;
}

int swept_workers(struct sweeper *s, struct swept *q, struct redis_reply *reply, struct queue_worker **workers, size_t *n)
{
	queue_workers(&s->redis, &q->keys);
	if (connection_answer(s, reply) == -1)
		return -1;
	*n = queue_workers_parse(reply, workers);
	learn(q, *workers, *n);
	return 0;
}

/* A sweeper of before that still finishes writes the same word: the end of our trouble does not wipe away its own. */
static void publish(struct swept *q, enum queue_trouble kind)
{
	uint32_t ours = q->published;

	if (q->board == NULL || kind == q->published)
		return;
	if (kind != TROUBLE_NONE)
		atomic_store(&q->board->trouble, kind);
	else
		atomic_compare_exchange_strong(&q->board->trouble, &ours, TROUBLE_NONE);
	q->published = kind;
}

void swept_publish(struct sweeper *s, struct swept *q)
{
	publish(q, trouble_of(s, q));
}

void swept_publish_undecided(struct swept *q)
{
	const struct rescue *r;
	uint32_t word = 0;

	for (size_t i = 0; i < q->nabsences && word == 0; i++)
		if (q->absences[i].undecided)
			word = (uint32_t)q->absences[i].calm.doubt + 1;
	TAILQ_FOREACH(r, &q->rescues, entry)
		if (word == 0 && r->trouble.times >= TROUBLE_GOES_ON)
			word = DOUBT_MOVES + 1;
	if (q->board != NULL)
		atomic_store(&q->board->undecided, word);
}

void swept_publish_all(struct sweeper *s, enum queue_trouble kind)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		publish(q, kind != TROUBLE_NONE ? kind : trouble_of(s, q));
}

void swept_count(struct swept *q, enum counter counter, uint64_t n)
{
	if (q->board != NULL && n > 0)
		atomic_fetch_add(&q->board->swept[counter], n);
}

void swept_lag(struct swept *q, int64_t lag_ms)
{
	if (q->board != NULL)
		board_observe_lag(q->board, lag_ms);
}
