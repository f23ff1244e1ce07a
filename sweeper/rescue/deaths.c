/*
 * Deaths that the master reports. The sweeper answers a report only when all trays of all incarnations of the dead
 * worker are empty. If the sweeper dies before, the master sends the report to the next one.
 */
#include <sys/socket.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <bsd/sys/tree.h>

#include "sweeper/core/core.h"
#include "sweeper/rescue/rescue.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

extern const struct task deaths_task;

/* A death that the master reported and this sweeper has not answered. */
struct death {
	RB_ENTRY(death) entry;
	struct child_death reported;
	bool registered;		/* its last name is */
	bool looked_up;			/* rescues of its incarnations have begun */
	struct task_error error;
};

/* The own state of the task: all deaths by their serial, so that a report that comes again is found without a walk. */
RB_HEAD(deaths, death);

static int compare_serials(const struct death *a, const struct death *b)
{
	return (a->reported.serial > b->reported.serial) - (a->reported.serial < b->reported.serial);
}

RB_PROTOTYPE(deaths, death, entry, compare_serials)
RB_GENERATE(deaths, death, entry, compare_serials)

static struct deaths *deaths_of(const struct sweeper *s)
{
	return task_own(s, &deaths_task);
}

/* ---- the socket ---- */

static void add_death(struct sweeper *s, const struct child_death *reported)
{
	struct death *d = alloc_zero(1, sizeof(*d));

	d->reported = *reported;
	d->reported.queue[sizeof(d->reported.queue) - 1] = '\0';
	if (RB_INSERT(deaths, deaths_of(s), d) != NULL)
		free(d);
}

static void receive(struct sweeper *s, int64_t now_ms)
{
	struct child_death reported;
	ssize_t n;

	(void)now_ms;
	while (!s->loop.master_gone) {
		n = recv(s->child->master_fd, &reported, sizeof(reported), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(reported))
			add_death(s, &reported);
		else if (n == 0 || (n == -1 && errno != EAGAIN && errno != EINTR))
			sweeper_lost_master(s);
		else if (n == -1 && errno == EAGAIN)
			return;
	}
}

static void free_own(struct sweeper *s)
{
	struct death *d;

	while ((d = RB_ROOT(deaths_of(s))) != NULL) {
		RB_REMOVE(deaths, deaths_of(s), d);
		free(d);
	}
}

/* -1: the socket is full; try again later. */
static int send_answer(struct sweeper *s, const struct death *d)
{
	const struct child_death_answer a = { .serial = d->reported.serial };

	return send(s->child->master_fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(a) ? 0 : -1;
}

/* ---- the trays of a dead worker ---- */

/* Deaths in one queue that are looked up together, by slot and generation: one read of the registrations serves all. */
struct group {
	struct death **of;
	size_t n;
};

static int compare_deaths(const void *a, const void *b)
{
	const struct child_death *x = &(*(struct death *const *)a)->reported,
	    *y = &(*(struct death *const *)b)->reported;

	if (x->slot != y->slot)
		return x->slot < y->slot ? -1 : 1;
	return (x->first_generation > y->first_generation) - (x->first_generation < y->first_generation);
}

static struct group group_of(struct sweeper *s, const char *queue)
{
	struct group g = {0};
	struct death *d;
	size_t all = 0;

	RB_FOREACH(d, deaths, deaths_of(s))
		all++;
	g.of = alloc_zero(all + 1, sizeof(struct death *));
	RB_FOREACH(d, deaths, deaths_of(s))
		if (!d->looked_up && strcmp(d->reported.queue, queue) == 0)
			g.of[g.n++] = d;
	qsort(g.of, g.n, sizeof(struct death *), compare_deaths);
	return g;
}

/* The death of the process that had this name; NULL: of none. The processes of a slot follow each other, so their
 * generations do not overlap. */
static struct death *death_of(const struct sweeper *s, const struct group *g, const struct incarnation *i)
{
	size_t low = 0, high = g->n;

	if (i->boot != s->child->boot || strcmp(i->node, s->conf->supervisor.node) != 0)
		return NULL;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		const struct child_death *r = &g->of[middle]->reported;

		if (r->slot < i->slot || (r->slot == i->slot && r->first_generation <= i->generation))
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || g->of[low - 1]->reported.slot != i->slot || g->of[low - 1]->reported.generation < i->generation)
		return NULL;
	return g->of[low - 1];
}

static struct incarnation last_of(const struct sweeper *s, const struct child_death *reported,
    char name[INCARNATION_SIZE])
{
	struct incarnation last = { .boot = s->child->boot, .slot = reported->slot,
	    .generation = reported->generation };

	strlcpy(last.node, s->conf->supervisor.node, sizeof(last.node));
	incarnation_format(&last, name);
	return last;
}

static int add_rescues(struct sweeper *s, struct sweeper_queue *q, const struct redis_reply *reply,
    const struct queue_worker *workers, size_t n, void *group)
{
	const struct group *g = group;
	char name[INCARNATION_SIZE];

	(void)reply;
	for (size_t i = 0; i < n; i++) {
		struct incarnation who;
		struct death *d = incarnation_parse(&who, workers[i].incarnation) == -1 ? NULL : death_of(s, g, &who);

		if (d == NULL)
			continue;
		last_of(s, &d->reported, name);
		d->registered = d->registered || strcmp(workers[i].incarnation, name) == 0;
		rescue_add_owner(q, &workers[i], "reported", (enum blame)d->reported.blame, false);
	}
	for (size_t i = 0; i < g->n; i++) {
		last_of(s, &g->of[i]->reported, name);
		if (!g->of[i]->registered)
			rescue_add(q, name, "reported", (enum blame)g->of[i]->reported.blame, false);
	}
	return 0;
}

/* Reads the queue's lists from the registry; without an entry they have the default names. */
static int read_registry(struct sweeper *s, const char *name, struct queue_keys *keys)
{
	struct redis_reply reply;

	queue_registered(&s->redis, name);
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (reply.type == REDIS_STRING && queue_registered_parse(keys, s->conf->redis.prefix, name, reply.str,
	    reply.len) == 0)
		return 0;
	queue_keys_default(keys, s->conf->redis.prefix, name);
	log_warning("queue_unknown", log_str("queue", name), log_str("transit", keys->transit),
	    log_str("advice",
	    "its worker died, but neither configuration nor registry know its lists: the default names are taken"));
	return 0;
}

static void look_up_rescues(struct sweeper *s, struct death *d, int64_t now_ms)
{
	struct sweeper_queue *q = sweeper_queue_find(s, d->reported.queue);
	struct queue_keys keys;
	struct group g;

	if (q == NULL && read_registry(s, d->reported.queue, &keys) == 0)
		q = sweeper_queue_add(s, keys, NULL);
	if (q == NULL) {
		task_error_retry_at(&d->error, now_ms + 1000);
		return;
	}
	g = group_of(s, d->reported.queue);
	if (sweeper_queue_use_workers(s, q, add_rescues, &g) == -1)
		task_error_note(s, q, &d->error, "workers", now_ms);
	else
		for (size_t i = 0; i < g.n; i++) {
			task_error_clear(s, q, &g.of[i]->error);
			g.of[i]->looked_up = true;
		}
	free(g.of);
}

static bool is_returned(struct sweeper *s, const struct death *d)
{
	struct sweeper_queue *q = sweeper_queue_find(s, d->reported.queue);
	char name[INCARNATION_SIZE];
	struct incarnation last = last_of(s, &d->reported, name);

	/* without q: the queue is not configured here, and was removed when its rescues were over */
	return q == NULL || !rescue_covers(q, &last, d->reported.first_generation);
}

static bool run_deaths(struct sweeper *s, int budget, int64_t now_ms)
{
	struct death *d, *next;
	bool more = false;

	RB_FOREACH_SAFE(d, deaths, deaths_of(s), next) {
		if (!d->looked_up && budget-- > 0 && !task_error_waits(&d->error, now_ms) && sweeper_goes_on(s)) {
			look_up_rescues(s, d, now_ms);
			more = more || d->looked_up;
			continue;
		}
		if (!d->looked_up || !is_returned(s, d) || send_answer(s, d) == -1)
			continue;
		RB_REMOVE(deaths, deaths_of(s), d);
		free(d);
	}
	return more;
}

static bool is_pending(struct sweeper *s)
{
	return !RB_EMPTY(deaths_of(s));
}

const struct task deaths_task = { .name = "deaths", .budget = 64, .finishing = true, .run = run_deaths,
	.each_turn = receive, .is_pending = is_pending,
	.own_size = sizeof(struct deaths), .free_own = free_own };
