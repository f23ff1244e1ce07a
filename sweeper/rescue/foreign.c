/*
 * Queues that other hosts entered in the registry, and that are not configured here. If such a host dies, another host
 * must return the messages of its workers, although it does not serve the queue. So each round of looks (watch.c)
 * includes a few of those queues, in turn: a queue is added for the look, and the look removes it again unless it has
 * found work. The registry entry of a queue names its lists. If a look finds an owner without a lease, its host may be
 * dead, with owners in many queues: then the next turns go faster.
 */
#include "sweeper/rescue/foreign.h"

#include <string.h>

#include "common/queue/queue.h"
#include "sweeper/core/core.h"
#include "sweeper/registry/registry.h"
#include "sweeper/rescue/watch.h"

#define LOOKS 2			/* in a round, which takes half a lease */
/* one more look for so many workers of our own: to look at them costs more than these looks */
#define LOOKS_PER_WORKERS 8
#define LOOKS_ALARMED 50	/* looks per round after an owner without a lease was found */
#define ALARMED_TURNS 2		/* the rest of this turn, and a whole one */

extern const struct task foreign_task;

/* The own state of the task. */
struct foreign {
	int64_t turn_ms;		/* CLOCK_MONOTONIC when this turn through the registry began */
	struct registry_page page;
	size_t next;			/* entry of it; <= page.n */
	int looks;			/* how many more queues this round may look at */
	int alarmed;			/* turns, including this one, in which each round makes LOOKS_ALARMED looks */
};

static struct foreign *foreign_of(const struct sweeper *s)
{
	return task_own(s, &foreign_task);
}

static void count_workers(struct sweeper *s, struct sweeper_queue *q, void *sum)
{
	(void)s;
	*(int *)sum += q->conf == NULL ? 0 : q->conf->workers;
}

void foreign_round(struct sweeper *s)
{
	struct foreign *f = foreign_of(s);
	int workers = 0;

	sweeper_queues_each(s, count_workers, &workers);
	f->looks = (f->alarmed > 0 ? LOOKS_ALARMED : LOOKS) + workers / LOOKS_PER_WORKERS;
}

bool foreign_is_busy(const struct sweeper *s)
{
	return foreign_of(s)->looks > 0;
}

/* True: the entry used up one look. */
static bool look_at_entry(struct sweeper *s, const struct registered *e, int64_t now_ms)
{
	struct queue_keys keys;

	if (e->json == NULL || queue_registered_parse(&keys, s->conf->redis.prefix, e->name, e->json,
	    strlen(e->json)) == -1) {
		connection_set_error(s, QUEUE_ERROR_OTHER, "its entry in the registry names no lists");
		registry_note_error(s, e->name);
		return false;
	}
	if (sweeper_queue_has_transit(s, keys.transit)) {
		queue_keys_free(&keys);
		return false;
	}
	if (task_run_now(s, sweeper_queue_add(s, keys, NULL), &watch_task, now_ms))
		foreign_of(s)->alarmed = ALARMED_TURNS;
	return true;
}

/* A turn is over, and another one not due yet: a short registry needs no look all the time. */
static bool rests(const struct sweeper *s, int64_t now_ms)
{
	const struct foreign *f = foreign_of(s);

	return f->page.rank == 0 && f->turn_ms != 0 && now_ms - f->turn_ms < 2 * s->conf->supervisor.lease_ms;
}

static int next_page(struct sweeper *s, int64_t now_ms)
{
	struct foreign *f = foreign_of(s);

	if (f->page.rank == 0) {
		registry_end_turn(s);
		f->alarmed -= f->alarmed > 0 ? 1 : 0;
		f->turn_ms = now_ms;
	}
	f->next = 0;
	return registry_page_next(s, &f->page);
}

static bool run_foreign(struct sweeper *s, int budget, int64_t now_ms)
{
	struct foreign *f = foreign_of(s);

	while (f->looks > 0 && sweeper_goes_on(s)) {
		if (f->next == f->page.n && (rests(s, now_ms) || next_page(s, now_ms) == -1 || f->page.n == 0))
			break;
		if (budget-- == 0)
			return true;
		f->looks -= look_at_entry(s, &f->page.entries[f->next++], now_ms) ? 1 : 0;
	}
	f->looks = 0;
	return false;
}

static void free_own(struct sweeper *s)
{
	registry_page_drop(&foreign_of(s)->page);
}

const struct task foreign_task = { .name = "foreign", .budget = 32, .run = run_foreign,
    .own_size = sizeof(struct foreign), .free_own = free_own };
