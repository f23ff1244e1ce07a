/* The queues of the sweeper, and what the scoreboard shows of them: gate, error, counters. */
#include <sys/socket.h>

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"

/* An earlier sweeper of this master has recovered the queue: its workers may fetch while this sweeper recovers it
 * again. */
static bool was_recovered(const struct board_queue *b)
{
	return atomic_load(&b->sweeper.recovered) == RECOVERED_ALL && atomic_load(&b->sweeper.gate) != QUEUE_RECOVERING;
}

/* ---- names. The registry may give a queue the name of another one: the configured one comes first ---- */

static int compare_places(const struct sweeper_queue *a, const struct sweeper_queue *b)
{
	int order = (a->conf == NULL) - (b->conf == NULL);

	return order == 0 ? ((uintptr_t)a > (uintptr_t)b) - ((uintptr_t)a < (uintptr_t)b) : order;
}

static int compare_names(const struct sweeper_queue *a, const struct sweeper_queue *b)
{
	int order = strcmp(a->keys.name, b->keys.name);

	return order == 0 ? compare_places(a, b) : order;
}

static int compare_transits(const struct sweeper_queue *a, const struct sweeper_queue *b)
{
	int order = strcmp(a->keys.transit, b->keys.transit);

	return order == 0 ? compare_places(a, b) : order;
}

RB_PROTOTYPE(sweeper_queue_names, sweeper_queue, by_name, compare_names)
RB_GENERATE(sweeper_queue_names, sweeper_queue, by_name, compare_names)
RB_PROTOTYPE(sweeper_queue_transits, sweeper_queue, by_transit, compare_transits)
RB_GENERATE(sweeper_queue_transits, sweeper_queue, by_transit, compare_transits)

/* ---- all of them ---- */

struct sweeper_queue *sweeper_queue_add(struct sweeper *s, struct queue_keys keys, const struct conf_queue *conf)
{
	struct sweeper_queue *q = alloc_zero(1, sizeof(*q));
	int index = conf == NULL ? -1 : s->child->queue_index_of(keys.name);

	q->keys = keys;
	q->conf = conf;
	task_error_list_init(&q->errors);
	tasks_enter(s, q);
	q->board = index == -1 ? NULL : &s->child->board->queues[index];
	q->recovered = q->board == NULL;
	q->was_recovered = q->board != NULL && was_recovered(q->board);
	/* the predecessor's */
	q->published = q->board == NULL ? QUEUE_ERROR_NONE : atomic_load(&q->board->sweeper.error);
	TAILQ_INSERT_TAIL(&s->queues, q, entry);
	RB_INSERT(sweeper_queue_names, &s->queues_by_name, q);
	RB_INSERT(sweeper_queue_transits, &s->queues_by_transit, q);
	return q;
}

void sweeper_queues_init(struct sweeper *s)
{
	TAILQ_INIT(&s->queues);
	for (size_t i = 0; i < s->conf->nqueues; i++) {
		struct queue_keys keys;

		queue_keys_from_conf(&keys, s->conf, s->conf->queues[i]);
		sweeper_queue_add(s, keys, s->conf->queues[i]);
	}
}

void sweeper_queue_remove(struct sweeper *s, struct sweeper_queue *q)
{
	TAILQ_REMOVE(&s->queues, q, entry);
	RB_REMOVE(sweeper_queue_names, &s->queues_by_name, q);
	RB_REMOVE(sweeper_queue_transits, &s->queues_by_transit, q);
	task_error_list_forget(&q->errors);
	tasks_leave(q);
	queue_keys_free(&q->keys);
	free(q);
}

void sweeper_queues_free(struct sweeper *s)
{
	while (!TAILQ_EMPTY(&s->queues))
		sweeper_queue_remove(s, TAILQ_FIRST(&s->queues));
}

struct sweeper_queue *sweeper_queue_find(struct sweeper *s, const char *name)
{
	struct sweeper_queue *q = RB_ROOT(&s->queues_by_name), *found = NULL;

	while (q != NULL) {
		int order = strcmp(name, q->keys.name);

		if (order == 0)
			found = q;
		q = order <= 0 ? RB_LEFT(q, by_name) : RB_RIGHT(q, by_name);
	}
	return found;
}

struct sweeper_queue *sweeper_queue_of_board(struct sweeper *s, int64_t index)
{
	struct sweeper_queue *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (index >= 0 && q->board == &s->child->board->queues[index])
			return q;
	return NULL;
}

bool sweeper_queue_has_transit(const struct sweeper *s, const char *transit)
{
	const struct sweeper_queue *q = RB_ROOT(&s->queues_by_transit);
	int order = 1;

	while (q != NULL && (order = strcmp(transit, q->keys.transit)) != 0)
		q = order < 0 ? RB_LEFT(q, by_transit) : RB_RIGHT(q, by_transit);
	return q != NULL;
}

void sweeper_queues_each(struct sweeper *s, void (*visit)(struct sweeper *s, struct sweeper_queue *q, void *arg),
    void *arg)
{
	struct sweeper_queue *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		visit(s, q, arg);
}

static void log_gate(const struct sweeper_queue *q, enum queue_gate before, enum queue_gate gate)
{
	if (gate == QUEUE_PAUSED)
		log_info("queue_paused", log_str("queue", q->keys.name));
	else if (gate == QUEUE_OPEN && before == QUEUE_PAUSED)
		log_info("queue_resumed", log_str("queue", q->keys.name));
}

/* Its workers sleep while it is shut, whatever they saw of a change before this one: so the word counts openings. */
static void wake_workers(struct sweeper *s, struct sweeper_queue *q)
{
	const struct child_death_answer opened = { .serial = CHILD_GATE_OPENED };

	atomic_fetch_add(&q->board->sweeper.openings, 1);
	send(s->child->master_fd, &opened, sizeof(opened), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* While this sweeper does not know the state of server or queue yet, the gate stays as the previous sweeper left it. */
void sweeper_queue_update_gate(struct sweeper *s, struct sweeper_queue *q)
{
	enum queue_gate before, gate;

	if (q->board == NULL)
		return;
	before = (enum queue_gate)atomic_load(&q->board->sweeper.gate);
	if (s->server.refusal != QUEUE_ERROR_NONE)
		gate = QUEUE_REFUSED;
	else if (!q->recovered && !q->was_recovered)
		gate = QUEUE_RECOVERING;
	else if (!q->polled)
		gate = before;
	else
		gate = q->paused ? QUEUE_PAUSED : QUEUE_OPEN;
	if (gate == before)
		return;
	atomic_store(&q->board->sweeper.gate, gate);
	if (gate == QUEUE_OPEN)
		wake_workers(s, q);
	if (q->polled)
		log_gate(q, before, gate);
}

void sweeper_queue_set_recovered(struct sweeper *s, struct sweeper_queue *q)
{
	q->recovered = true;
	sweeper_queue_update_gate(s, q);
}

void sweeper_queue_set_paused(struct sweeper *s, struct sweeper_queue *q, bool paused)
{
	q->paused = paused;
	q->polled = true;
	sweeper_queue_update_gate(s, q);
}

int64_t core_hold_seen(const struct sweeper_queue *q)
{
	return q->board == NULL ? 0 : atomic_load(&q->board->workers.held_until_ms);
}

static void show_hold(struct sweeper_queue *q, const struct queue_hold *hold)
{
	char text[sizeof(hold->until) + sizeof(hold->reason) + sizeof("until : ")];

	snprintf(text, sizeof(text), "until %s%s%s", hold->until, hold->reason[0] == '\0' ? "" : ": ", hold->reason);
	if (strcmp(q->hold.until, hold->until) == 0 && strcmp(q->hold.reason, hold->reason) == 0)
		return;
	slot_text_set(&q->board->sweeper.held, 0, text, strlen(text), SLOT_TEXT_MAX);
	log_info("queue_held", log_str("queue", q->keys.name), log_str("until", hold->until),
	    log_str("by", hold->node), log_str("reason", hold->reason[0] == '\0' ? NULL : hold->reason));
	q->hold = *hold;
}

/* An earlier sweeper may have left its text on the scoreboard. goes_on: by a hold whose words Redis does not know. */
static void end_hold(struct sweeper_queue *q, bool goes_on)
{
	bool was_shown = q->hold.until[0] != '\0';

	if (slot_text_read(&q->board->sweeper.held).number != -1)
		slot_text_clear(&q->board->sweeper.held);
	q->hold.until[0] = '\0';
	if (was_shown && !goes_on)
		log_info("queue_resumed", log_str("queue", q->keys.name));
}

/* A worker whose handler has asked for a hold since the question, or whose move has no answer, knows better. */
void core_set_hold(struct sweeper *s, struct sweeper_queue *q, int64_t seen, int64_t until_ms,
    const struct queue_hold *hold)
{
	int64_t counts_ms = q->board == NULL ? -1 : board_set_hold(s->child->board, q->board, seen,
	    until_ms, clock_monotonic_ms());

	if (counts_ms == -1)
		return;
	if (counts_ms == until_ms && hold != NULL)
		show_hold(q, hold);
	else
		end_hold(q, counts_ms != 0);
	if (counts_ms < seen)
		wake_workers(s, q);	/* they sleep until the end that they know */
}

void sweeper_queue_set_cancels(struct sweeper *s, struct sweeper_queue *q, int64_t n)
{
	if (q->board != NULL && atomic_exchange(&q->board->sweeper.cancels, n > 0) == 0 && n > 0)
		wake_workers(s, q);
}

/* Errors of periodic work count only while this host leads: later the new leader shows its own (lead.c). */
static uint32_t error_of(const struct sweeper *s, const struct sweeper_queue *q, const char **why)
{
	enum queue_error kind = s->server.refusal;
	const struct task_error *t = task_error_list_worst(&q->errors, lead_was_ours(q));
	const char *text = kind == QUEUE_ERROR_SECRET ? queue_secret_lost() : "";

	if (t != NULL && queue_error_worse(kind, t->kind) != kind) {
		kind = t->kind;
		text = t->text;
	}
	*why = text;
	return queue_error_word(kind, queue_refused_command(text));
}

/* Registrations of workers show whether a queue is shared if it is not configured here. Otherwise the configuration
 * decides. */
static void learn_shared(struct sweeper_queue *q, const struct queue_worker *w, size_t n)
{
	if (q->conf == NULL && queue_workers_share(w, n))
		q->keys.shared = true;
}

int sweeper_queue_use_workers(struct sweeper *s, struct sweeper_queue *q, use_workers *use, void *arg)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	size_t n;
	int rc;

	queue_workers(&s->redis, &q->keys);
	if (connection_answer(s, &reply) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	learn_shared(q, workers, n);
	rc = use(s, q, &reply, workers, n, arg);
	queue_workers_free(workers, n);
	return rc;
}

void core_publish_why(struct sweeper_queue *q, enum queue_error error, const char *why)
{
	struct slot_text_seen seen;

	if (q->board == NULL)
		return;
	seen = slot_text_read(&q->board->sweeper.why);
	if (why[0] == '\0' && seen.number == (int)error)
		slot_text_clear(&q->board->sweeper.why);
	else if (why[0] != '\0' && (seen.number != (int)error || strncmp(seen.text, why, SLOT_TEXT_MAX) != 0))
		slot_text_set(&q->board->sweeper.why, (int)error, why, strlen(why), SLOT_TEXT_MAX);
}

/* An older sweeper that still finishes writes the same word: the end of this sweeper's error must not clear the other
 * one's. */
static void publish_error(struct sweeper_queue *q, uint32_t word, const char *why)
{
	uint32_t ours = q->published;

	if (queue_error_in(word) != QUEUE_ERROR_WRONG_TYPE)	/* types.c publishes the key */
		core_publish_why(q, queue_error_in(word), why);
	if (q->board == NULL || word == q->published)
		return;
	if (word != QUEUE_ERROR_NONE)
		atomic_store(&q->board->sweeper.error, word);
	else
		atomic_compare_exchange_strong(&q->board->sweeper.error, &ours, QUEUE_ERROR_NONE);
	q->published = word;
}

void sweeper_queue_publish_error(struct sweeper *s, struct sweeper_queue *q)
{
	const char *why;
	uint32_t word = error_of(s, q, &why);

	publish_error(q, word, why);
}

/* A sweeper that ended the wait itself has no connection either. */
void core_publish_loss(struct sweeper *s)
{
	enum redis_error_class class = s->redis.error_class;
	enum queue_error kind = class == REDIS_ERROR_NONE ? QUEUE_ERROR_NO_REDIS : queue_error_of(class);
	struct sweeper_queue *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		publish_error(q, queue_error_word(kind, queue_refused_command(s->redis.error)), redis_why(&s->redis));
}

void sweeper_queue_count(struct sweeper_queue *q, enum counter counter, uint64_t n)
{
	assert(counter < COUNTERS);
	if (q->board != NULL && n > 0)
		atomic_fetch_add(&q->board->sweeper.swept[counter], n);
}

void sweeper_queue_observe_lag(struct sweeper_queue *q, int64_t lag_ms)
{
	if (q->board != NULL)
		board_observe_lag(q->board, lag_ms);
}
