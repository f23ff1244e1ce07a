/*
 * Reports deaths of workers, until the sweeper confirms that their messages are returned. First orphans.c kills
 * everything that the worker left running, and the master reaps it; then the sweeper gets the report. queues.c decides
 * what a death means for the queue.
 */
#include "supervisor/children/deaths.h"

#include <sys/socket.h>

#include <assert.h>
#include <errno.h>
#include <string.h>

#include <bsd/string.h>

#include "common/log/log.h"

#define REPORT_EVERY_MS 100	/* when the socket is full */
#define TOGETHER_MS 300		/* workers that die within this time died of one cause, so a report waits as long */

void deaths_init(struct deaths *d, struct processes *ps, const struct orphans *o)
{
	d->processes = ps;
	d->board = ps->board;
	d->orphans = o;
	d->n = 0;
}

/* ---- adding ---- */

/* If another worker died at the same time, neither death is evidence against the message that its worker ran. */
static void share_blame(struct deaths *d, struct death *last)
{
	for (int i = 0; i < d->n; i++) {
		struct death *other = &d->items[i];

		if (other == last || last->died_ms - other->died_ms >= TOGETHER_MS)
			continue;
		if (other->report.blame == BLAME_WORKER)
			other->report.blame = BLAME_OUTAGE;
		if (last->report.blame == BLAME_WORKER)
			last->report.blame = BLAME_OUTAGE;
	}
}

void deaths_add(struct deaths *d, int slot, enum blame blame, int64_t now_ms)
{
	const struct process *p = &d->processes->items[slot];
	struct death *one;

	assert(p->role.kind == PROCESS_WORKER);
	if (d->n == DEATHS_MAX) {
		/* The sweeper rescues the messages of this worker when its lease expires. */
		log_warning("death_not_reported", log_str("queue", p->role.queue_name), log_int("slot", slot));
		return;
	}
	one = &d->items[d->n++];
	*one = (struct death){
		.report = { .serial = ++d->serial, .first_generation = p->first_generation, .slot = slot,
			.queue_index = p->role.queue,
			.generation = slot_generation(&d->board->slots[slot]), .blame = (int32_t)blame },
		.died_ms = now_ms,
		.epoch = p->role.epoch,
		.sweeper = -1,
	};
	strlcpy(one->report.queue, p->role.queue_name, sizeof(one->report.queue));
	share_blame(d, one);
}

static bool is_unconfirmed(const struct deaths *d, int slot)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].report.slot == slot)
			return true;
	return false;
}

/*
 * Publishes that all workers of this slot up to this generation have ended and left nothing in Redis. If Redis returns
 * to an earlier state in which such a worker holds messages, the sweeper returns them at once and charges none. So this
 * waits until each death in this slot is confirmed: an unconfirmed death must reach the sweeper as a report, which says
 * what the death charges.
 */
static void bury_up_to(struct deaths *d, int slot, uint64_t generation)
{
	if (generation > d->settled[slot])
		d->settled[slot] = generation;
	if (is_unconfirmed(d, slot))
		return;
	assert(atomic_load(&d->board->master.buried[slot]) <= d->settled[slot]);
	atomic_store(&d->board->master.buried[slot], d->settled[slot]);
}

/* Does nothing while an orphan may be alive: it may come from an earlier worker of this slot. */
void deaths_clean_exit(struct deaths *d, int slot)
{
	if (!d->orphans->pending)
		bury_up_to(d, slot, slot_generation(&d->board->slots[slot]));
}

/* ---- reporting ---- */

/* Returns the sweeper of the worker's own configuration, or of the next later one: an earlier one does not know the
 * keys of the queue. */
static int find_sweeper(const struct deaths *d, const struct death *one)
{
	const struct process *best = NULL, *newest = NULL;

	for (const struct process *p = NULL; (p = processes_next(d->processes, p, PROCESS_SWEEPER)) != NULL;) {
		if (p->role.socket == -1 || processes_is_finishing(d->processes, processes_slot(d->processes, p)))
			continue;
		if (newest == NULL || p->role.epoch > newest->role.epoch)
			newest = p;
		if (p->role.epoch >= one->epoch && (best == NULL || p->role.epoch < best->role.epoch))
			best = p;
	}
	if (best == NULL)
		best = newest;
	return best == NULL ? -1 : processes_slot(d->processes, best);
}

/* Returns when to try again. If there is no sweeper, the report waits for the next one. */
static int64_t send_report(struct deaths *d, struct death *one, int64_t now_ms)
{
	int slot = find_sweeper(d, one);

	if (slot == -1)
		return INT64_MAX;
	if (send(d->processes->items[slot].role.socket, &one->report, sizeof(one->report),
	    MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(one->report))
		return now_ms + REPORT_EVERY_MS;
	one->sweeper = slot;
	return INT64_MAX;
}

/* A worker that never registered has nothing in Redis. Its death needs no report, but can make other deaths an
 * outage. */
static bool was_registered(const struct death *one)
{
	return one->report.first_generation <= one->report.generation;
}

static void forget_death(struct deaths *d, struct death *one)
{
	assert(d->n > 0);
	*one = d->items[--d->n];
}

int64_t deaths_step(struct deaths *d, int64_t now_ms)
{
	int64_t due_ms = INT64_MAX, again_ms;

	if (d->orphans->pending)
		return INT64_MAX;
	for (int i = d->n - 1; i >= 0; i--) {
		struct death *one = &d->items[i];

		again_ms = INT64_MAX;
		if (one->sweeper == -1 && now_ms - one->died_ms < TOGETHER_MS)
			again_ms = one->died_ms + TOGETHER_MS;
		else if (!was_registered(one))
			forget_death(d, one);
		else if (one->sweeper == -1)
			again_ms = send_report(d, one, now_ms);
		if (again_ms < due_ms)
			due_ms = again_ms;
	}
	return due_ms;
}

/* ---- answers ---- */

static void confirm(struct deaths *d, uint64_t serial)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].report.serial == serial) {
			struct child_death report = d->items[i].report;

			log_debug("death_confirmed", log_str("queue", report.queue), log_int("slot", report.slot));
			forget_death(d, &d->items[i]);
			bury_up_to(d, report.slot, report.generation);
			return;
		}
}

void deaths_answer(struct deaths *d, int slot)
{
	const struct process *p = &d->processes->items[slot];
	struct child_death_answer answer;
	ssize_t n;

	while (p->role.socket != -1) {
		n = recv(p->role.socket, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(answer)) {
			confirm(d, answer.serial);
			continue;
		}
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		/* the sweeper is gone, or its answer has a wrong size */
		processes_close_socket(d->processes, slot);
		deaths_sweeper_gone(d, slot);
	}
}

void deaths_sweeper_gone(struct deaths *d, int slot)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].sweeper == slot)
			d->items[i].sweeper = -1;
}

bool deaths_need_sweeper(const struct deaths *d, int slot)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].sweeper == slot || find_sweeper(d, &d->items[i]) == slot)
			return true;
	return false;
}

bool deaths_concern_queue(const struct deaths *d, int queue)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].report.queue_index == queue)
			return true;
	return false;
}

bool deaths_are_settled(const struct deaths *d)
{
	return d->n == 0 && !d->orphans->pending;
}
