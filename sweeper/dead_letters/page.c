/*
 * Reads a page of dead letters and records from their old end. Lua in Redis reads an entry by copying it, and the
 * sweeper and the child that writes the archive hold it several times. So the sweeper weighs the old end first. If the
 * oldest dead letter is too long to be read, it stays, and so do all newer ones, since only the order of list and log
 * tells which record belongs to which dead letter. The log and health show that until an operator has moved or deleted
 * the long one.
 */
#include "sweeper/dead_letters/page.h"

#include <inttypes.h>
#include <stdio.h>

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/dead_letters/bounds.h"
#include "sweeper/core/core.h"

#define STUCK_EVERY_MS (60 * 60 * 1000)

static int weigh_escape(struct sweeper *s, const struct sweeper_queue *q, struct queue_weight *weight)
{
	struct redis_reply reply;

	dead_letters_walk_weigh(&s->redis, &q->keys);
	if (connection_answer(s, &reply) == -1)
		return -1;
	return queue_weighed(&reply, weight) == 0 ? 0 : connection_unexpected(s);
}

static void note_stuck(struct sweeper_queue *q, bool too_long, int64_t memory)
{
	struct dead_letters_stuck *stuck = &bounds_of(q)->stuck;
	int64_t now_ms = clock_monotonic_ms();

	if (too_long && (!stuck->too_long || now_ms - stuck->logged_ms >= STUCK_EVERY_MS)) {
		log_warning("dead_letter_too_long", log_str("queue", q->keys.name), log_int("memory", memory),
		    log_int("limit", dead_letters_entry_max(q->conf->message_max)),
		    log_str("advice", "the oldest dead letter is not read: retry or delete it, or raise message_max; "
		    "until then none leaves escape"));
		stuck->logged_ms = now_ms;
	}
	if (!too_long && stuck->too_long)
		log_info("dead_letters_resumed", log_str("queue", q->keys.name));
	stuck->too_long = too_long;
}

int dead_letters_page_read(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters_walk *walk,
    struct queue_dead_letters_page *page)
{
	struct queue_weight weight;
	struct redis_reply reply;

	if (weigh_escape(s, q, &weight) == -1)
		return -1;
	note_stuck(q, dead_letters_is_too_long(weight.first, q->conf->message_max), weight.first);
	if (bounds_of(q)->stuck.too_long)
		return 0;
	if (walk != NULL)
		dead_letters_walk_ask(&s->redis, &q->keys, walk, weight.page);
	else
		queue_dead_letters_page(&s->redis, &q->keys, weight.page, DEAD_LETTERS_PAGE, DEAD_LETTERS_PAGE_BYTES);
	if (connection_answer(s, &reply) == -1)
		return -1;
	return queue_dead_letters_paged(&reply, page) == 0 ? 1 : connection_unexpected(s);
}
