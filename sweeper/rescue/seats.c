/*
 * Gives back seats (max_in_flight) that a dead worker has left. As a rule the rescue of its trays does so, in the
 * script that marks it dead. This task finds the rest: a rescuer that does not have the limit in its configuration, a
 * name that a worker left right before it died, a Redis that went back to a state before. It frees a seat only if the
 * registration says that its owner is dead, after its trays were emptied; no clock does, and a name that is in no
 * registry is unknown, not dead: doctor names it.
 */
#include <stdlib.h>
#include <string.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define EVERY_MS 5000
/* With a lease, so long after a death a worker that takes a new name has told what it has. */
#define SURE_MS 10000
#define STRANGE "%s has a field that quredis does not write, %s: HDEL it, and find the program that writes there"

extern const struct task seats_task;

struct seat_owner {
	char *incarnation, *queue, *value;	/* owned */
};

struct seat_owners {
	struct seat_owner *of;
	size_t n, room;
};

static void collect_owner(void *arg, const char *incarnation, int64_t n, const char *queue, const char *value)
{
	struct seat_owners *all = arg;

	(void)n;
	if (all->n == all->room) {
		all->room = all->room == 0 ? 16 : 2 * all->room;
		all->of = alloc_resize(all->of, all->room, sizeof(*all->of));
	}
	all->of[all->n++] = (struct seat_owner){ alloc_string(incarnation), alloc_string(queue), alloc_string(value) };
}

static void free_owners(struct seat_owners *all)
{
	for (size_t i = 0; i < all->n; i++) {
		free(all->of[i].incarnation);
		free(all->of[i].queue);
		free(all->of[i].value);
	}
	free(all->of);
}

/* Reads the hash, and keeps it. -1: error */
static int read_owners(struct sweeper *s, struct sweeper_queue *q, struct queue_seats_seen *seen,
    struct seat_owners *all)
{
	struct redis_reply reply;

	queue_seats_read(&s->redis, &q->keys);
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (queue_seats_each(&reply, seen, collect_owner, all) == -1)
		return connection_unexpected(s);
	if (seen->taken == 0)
		return 0;
	queue_seats_keep(&s->redis, &q->keys);
	return connection_answer(s, &reply);
}

/* The process of this name lives under a later one, to which it moves its seats. */
static bool lives_on(const struct queue_worker *dead, const struct queue_worker *workers, size_t n)
{
	struct incarnation own, other;

	if (incarnation_parse(&own, dead->incarnation) == -1)
		return true;
	for (size_t i = 0; i < n; i++)
		if (workers[i].died_at_ms == 0 && workers[i].pid == dead->pid &&
		    incarnation_parse(&other, workers[i].incarnation) == 0 && other.boot == own.boot &&
		    other.slot == own.slot && other.generation > own.generation && strcmp(other.node, own.node) == 0)
			return true;
	return false;
}

/* A death that was registered before the clock of Redis was set counts from then. */
static bool died_long_ago(const struct queue_worker *w, const struct age_clock *clock)
{
	int64_t since_ms = w->died_at_ms < clock->since_ms || w->died_at_ms > clock->latest_ms ? clock->since_ms
	    : w->died_at_ms;

	return w->died_at_ms != 0 && since_ms < clock->now_ms - w->lease_ms - SURE_MS;
}

/* Those of one queue. -1: error */
static int free_seats(struct sweeper *s, struct sweeper_queue *q, const struct queue_keys *of,
    const struct seat_owners *all, const struct age_clock *clock)
{
	struct queue_worker *workers;
	struct redis_reply reply;
	int rc = 0;
	size_t n;

	queue_workers(&s->redis, of);
	if (connection_answer(s, &reply) == -1)
		return -1;
	n = queue_workers_parse(&reply, &workers);
	for (size_t i = 0; i < all->n && rc == 0; i++) {
		const struct seat_owner *o = &all->of[i];
		const struct queue_worker *w = strcmp(o->queue, of->name) != 0 ? NULL
		    : queue_workers_find(workers, n, o->incarnation);
		int64_t freed;

		if (w == NULL || !died_long_ago(w, clock) || lives_on(w, workers, n))
			continue;
		queue_seats_leave(&s->redis, &q->keys, of->workers, o->incarnation, w->died_at_ms, o->value);
		rc = connection_integer(s, &freed);
		if (rc == 0 && freed == 1)
			log_info("seats_freed", log_str("queue", of->name), log_str("incarnation", o->incarnation));
	}
	queue_workers_free(workers, n);
	return rc;
}

static bool is_first(const struct seat_owners *all, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (strcmp(all->of[k].queue, all->of[i].queue) == 0)
			return false;
	return true;
}

static bool serves_seats(const struct sweeper_queue *of, const struct sweeper_queue *q)
{
	return of != NULL && of->conf != NULL && of->keys.seats != NULL && strcmp(of->keys.seats, q->keys.seats) == 0;
}

/* Another queue of the throttle has its own turn; one that left the configuration has none. -1: error */
static int free_of_queue(struct sweeper *s, struct sweeper_queue *q, const struct seat_owners *all, size_t i,
    const struct age_clock *clock)
{
	struct sweeper_queue *of = sweeper_queue_find(s, all->of[i].queue);
	struct queue_keys keys;
	int rc;

	if (of != NULL)
		return of != q && serves_seats(of, q) ? 0 : free_seats(s, q, &of->keys, all, clock);
	queue_keys_default(&keys, s->conf->redis.prefix, all->of[i].queue);
	rc = free_seats(s, q, &keys, all, clock);
	queue_keys_free(&keys);
	return rc;
}

static enum task_end run_seats(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct seat_owners all = {0};
	struct queue_seats_seen seen;
	struct age_clock clock;
	int rc = read_owners(s, q, &seen, &all);

	(void)budget, (void)now_ms;
	if (!server_clock_age(&s->clock, clock_boottime_ms(), &clock))
		clock.now_ms = 0;
	for (size_t i = 0; i < all.n && rc == 0 && clock.now_ms > 0; i++)
		if (is_first(&all, i))
			rc = free_of_queue(s, q, &all, i, &clock);
	free_owners(&all);
	if (rc == 0 && seen.foreign) {
		char *why = alloc_format(STRANGE, q->keys.seats, seen.strange);

		connection_set_error(s, QUEUE_ERROR_OTHER, why);
		free(why);
		rc = -1;
	}
	return rc == 0 ? TASK_DONE : TASK_FAILED;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->keys.seats != NULL;
}

const struct task seats_task = { .name = "seats", .interval_ms = EVERY_MS, .budget = 1, .leads = true,
	.configured = true, .unsealed = true, .wanted = is_wanted, .run_queue = run_seats };
