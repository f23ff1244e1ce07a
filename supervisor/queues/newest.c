/* Publishes on the scoreboard which handler of a queue is the newest, whether it works, or what is known against it. */
#include <stdio.h>
#include <string.h>

#include "common/handler/handler.h"
#include "supervisor/queues/queues.h"

static void set_not_ready(struct queues *qs, int queue, enum queue_not_ready state, const char *why)
{
	struct queue_master *words = &qs->board->queues[queue].master;

	qs->items[queue].not_ready = state == NOT_READY_NEW;
	if (why != NULL)
		slot_text_set(&words->not_ready_why, 0, why, strlen(why), SLOT_TEXT_MAX);
	if (atomic_load(&words->not_ready) != (uint32_t)state)
		atomic_store(&words->not_ready, state);
}

void queues_set_not_ready(struct queues *qs, int queue, const char *why, int64_t tried_ms)
{
	qs->items[queue].tried_ms = tried_ms;
	set_not_ready(qs, queue, why == NULL ? NOT_READY_NONE : NOT_READY_NEW, why);
}

void queues_widen_not_ready(struct queues *qs, int queue)
{
	set_not_ready(qs, queue, NOT_READY_ALL, NULL);
}

bool queues_know_not_ready(const struct queues *qs, int queue)
{
	return atomic_load(&qs->board->queues[queue].master.not_ready) != NOT_READY_NONE;
}

void queues_note_conf(struct queues *qs, int queue)
{
	atomic_store(&qs->board->queues[queue].master.conf_generation, qs->items[queue].handler_generation + 1);
}

void queues_note_files(struct queues *qs, int queue)
{
	qs->items[queue].files = conf_handler_files(qs->items[queue].conf);
}

/*
 * Workers load what is there when they start their handler, so one that had to start it again may run another file. One
 * that has loaded nothing, as for a program for each message, does not count; nor, among those with another file, one
 * that waits for its successor. A reload tries a failed load again: that of a handler that is not READY, or whose
 * breaker is open.
 */
static void count_loaded(const struct queues *qs, int queue, uint64_t files, int *same, int *other)
{
	bool ready = qs->items[queue].conf->ready;

	*same = *other = 0;
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;) {
		const struct slot *s = &qs->board->slots[processes_slot(qs->processes, p)];
		uint64_t loaded = atomic_load(&s->handler_files);

		if (p->role.queue != queue || p->state != PROCESS_SERVING)
			continue;
		*same += loaded == files && (!ready || atomic_load(&s->ready) != 0);
		*other += loaded != 0 && loaded != files &&
		    atomic_load(&s->handler_generation) == qs->items[queue].handler_generation;
	}
}

bool queues_have_older_files(const struct queues *qs, int queue, const struct conf_queue *conf)
{
	uint64_t files = conf_handler_files(conf);
	bool fails = atomic_load(&qs->board->queues[queue].workers.breaker.step) != 0;
	int same, other;

	if (files == 0)
		return false;
	count_loaded(qs, queue, files, &same, &other);
	return other > 0 || (files != qs->items[queue].files &&
	    (fails || same == 0 || same != qs->items[queue].serving));
}

/* Nothing is known against this one. What is known against the one before shows until a handler is READY. */
void queues_want_handler(struct queues *qs, int queue)
{
	queues_note_files(qs, queue);
	qs->items[queue].handler_generation++;
	atomic_store(&qs->board->queues[queue].master.newest_generation, qs->items[queue].handler_generation);
	qs->items[queue].not_ready = false;
}

/* The handler that failed. NULL: not known, since the one that failed may be that of an earlier configuration. */
static char *const *failed_handler(const struct queues *qs, int queue)
{
	const struct queue_master *words = &qs->board->queues[queue].master;
	uint32_t ahead = atomic_load(&words->conf_generation) - atomic_load(&words->handler_generation);

	return (int32_t)ahead > 0 ? NULL : qs->items[queue].conf->handler;
}

/* Why the breaker is open, with the words of the handler that failed last. */
static void describe_breaker(const struct queues *qs, int queue, char out[RENEWAL_WHY_SIZE])
{
	const struct board_queue *b = &qs->board->queues[queue];
	const struct slot *failed = NULL;
	struct slot_text_seen words;

	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;) {
		const struct slot *s = &qs->board->slots[processes_slot(qs->processes, p)];

		if (p->role.queue == queue && atomic_load(&s->failed_ms) > (failed == NULL ? 0
		    : atomic_load(&failed->failed_ms)))
			failed = s;
	}
	handler_cause_text(atomic_load(&b->workers.breaker.cause), failed_handler(qs, queue), out);
	if (failed == NULL || !handler_cause_has_words(atomic_load(&b->workers.breaker.cause)))
		return;
	words = slot_text_read(&failed->failure);
	if (words.number != -1 && words.text[0] != '\0')
		snprintf(out + strlen(out), RENEWAL_WHY_SIZE - strlen(out), ": %s", words.text);
}

void queues_adopt_handler(struct queues *qs, int queue, bool proven)
{
	struct board_queue *b = &qs->board->queues[queue];
	char why[RENEWAL_WHY_SIZE];

	if (atomic_load(&b->master.handler_generation) == qs->items[queue].handler_generation)
		return;
	/* The new breaker is closed, so the queue would seem to work. */
	if (!proven && atomic_load(&b->workers.breaker.step) != 0 && !queues_know_not_ready(qs, queue)) {
		describe_breaker(qs, queue, why);
		set_not_ready(qs, queue, NOT_READY_ALL, why);
	}
	scoreboard_new_handler(b, qs->items[queue].handler_generation);
}
