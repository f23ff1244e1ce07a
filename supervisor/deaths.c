/*
 * From the death of a worker to the sweeper's word that its messages are back: first everything it left
 * running is killed and reaped, then the sweeper is told. Burying and policy are reap.c's.
 */
#include <sys/socket.h>

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "common/log.h"
#include "common/process.h"
#include "supervisor/child.h"
#include "supervisor/deaths.h"
#include "supervisor/master.h"
#include "supervisor/reap.h"

#define CLEAN_MS 5000		/* what cannot be killed by then sits in the kernel, and runs no more of its own code */
#define CLEAN_EVERY_MS 20
#define TELL_EVERY_MS 100	/* when the socket is full */
#define TOGETHER_MS 300		/* workers that die within this time died of one cause. The sweeper is told of a death only after it */

void deaths_left_behind(struct master *m, int64_t now_ms)
{
	m->deaths.cleaning = true;
	m->deaths.cleaning_ms = now_ms;
}

/* If another worker died at the same time, neither death is evidence against the message that its worker had in hand. */
static void share_blame(struct deaths *d, struct death *last)
{
	for (int i = 0; i < d->n; i++) {
		struct death *other = &d->items[i];

		if (other == last || last->died_ms - other->died_ms >= TOGETHER_MS)
			continue;
		if (other->told.blame == BLAME_WORKER)
			other->told.blame = BLAME_OUTAGE;
		if (last->told.blame == BLAME_WORKER)
			last->told.blame = BLAME_OUTAGE;
	}
}

void deaths_add(struct master *m, int slot, enum blame blame, int64_t now_ms)
{
	const struct proc *p = &m->procs[slot];
	struct death *d;

	deaths_left_behind(m, now_ms);
	if (m->deaths.n == DEATHS_MAX) {
		/* Its lease runs out all the same. */
		log_warning("death_untold", log_str("queue", m->crews[p->crew].name), log_int("slot", slot));
		return;
	}
	d = &m->deaths.items[m->deaths.n++];
	*d = (struct death){
		.told = { .serial = ++m->deaths.serial, .first_generation = p->first_generation,
			.generation = slot_generation(&m->board->slots[slot]), .slot = slot, .queue_index = p->crew, .blame = (int32_t)blame },
		.died_ms = now_ms,
		.epoch = p->epoch,
		.sweeper = -1,
	};
	strlcpy(d->told.queue, m->crews[p->crew].name, sizeof(d->told.queue));
	share_blame(&m->deaths, d);
}

static bool is_unconfirmed(const struct deaths *d, int slot)
{
	for (int i = 0; i < d->n; i++)
		if (d->items[i].told.slot == slot)
			return true;
	return false;
}

/*
 * Redis may return to a state in which a buried worker holds messages. The sweeper then takes them at once, without blame. So this waits until
 * each death in this slot is confirmed: until then the report of the death must reach the sweeper first, since it says whom to blame.
 */
static void bury_up_to(struct master *m, int slot, uint64_t generation)
{
	uint64_t *settled = &m->deaths.settled[slot];

	if (generation > *settled)
		*settled = generation;
	if (!is_unconfirmed(&m->deaths, slot))
		atomic_store(&m->board->buried[slot], *settled);
}

/* Does nothing while an adopted process may be alive: it may come from an earlier worker of this slot. */
void deaths_clean_exit(struct master *m, int slot)
{
	if (!m->deaths.cleaning)
		bury_up_to(m, slot, slot_generation(&m->board->slots[slot]));
}

static void clean(struct master *m, int64_t now_ms)
{
	size_t left;

	reap_adopted(m, now_ms);
	left = process_kill_children(reap_is_spared, m);
	if (left > 0 && now_ms - m->deaths.cleaning_ms < CLEAN_MS) {
		master_wake_at(m, now_ms + CLEAN_EVERY_MS);
		return;
	}
	if (left > 0)
		log_warning("orphans_left", log_int("count", (int64_t)left));
	m->deaths.cleaning = false;
}

/* The one of its own time, or the next younger: an older one does not know its keys. */
static int sweeper_for(const struct master *m, const struct death *d)
{
	int best = -1, newest = -1;

	for (int slot = 0; slot < m->top; slot++) {
		const struct proc *p = &m->procs[slot];

		if (p->pid == 0 || p->kind != PROC_SWEEPER || p->fd == -1 ||
		    atomic_load(&m->board->orders[slot]) >= ORDER_FINISH)
			continue;
		if (newest == -1 || p->epoch > m->procs[newest].epoch)
			newest = slot;
		if (p->epoch >= d->epoch && (best == -1 || p->epoch < m->procs[best].epoch))
			best = slot;
	}
	return best != -1 ? best : newest;
}

static void tell(struct master *m, struct death *d, int64_t now_ms)
{
	int slot = sweeper_for(m, d);

	if (slot == -1)
		return;
	if (send(m->procs[slot].fd, &d->told, sizeof(d->told), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(d->told))
		d->sweeper = slot;
	else
		master_wake_at(m, now_ms + TELL_EVERY_MS);
}

/* If not, nothing of the worker is in Redis: its death only shares blame. */
static bool registered(const struct death *d)
{
	return d->told.first_generation <= d->told.generation;
}

static void forget(struct deaths *d, struct death *one)
{
	*one = d->items[--d->n];
}

void deaths_step(struct master *m, int64_t now_ms)
{
	if (m->deaths.cleaning)
		clean(m, now_ms);
	if (m->deaths.cleaning)
		return;
	for (int i = m->deaths.n - 1; i >= 0; i--) {
		struct death *d = &m->deaths.items[i];

		if (d->sweeper == -1 && now_ms - d->died_ms < TOGETHER_MS)
			master_wake_at(m, d->died_ms + TOGETHER_MS);
		else if (!registered(d))
			forget(&m->deaths, d);
		else if (d->sweeper == -1)
			tell(m, d, now_ms);
	}
}

static void confirmed(struct master *m, uint64_t serial)
{
	struct deaths *d = &m->deaths;

	for (int i = 0; i < d->n; i++)
		if (d->items[i].told.serial == serial) {
			struct child_death told = d->items[i].told;

			log_debug("death_confirmed", log_str("queue", told.queue), log_int("slot", told.slot));
			forget(d, &d->items[i]);
			bury_up_to(m, told.slot, told.generation);
			return;
		}
}

void deaths_answer(struct master *m, int slot)
{
	struct child_death_answer answer;
	struct proc *p = &m->procs[slot];
	ssize_t n;

	while (p->fd != -1) {
		n = recv(p->fd, &answer, sizeof(answer), MSG_DONTWAIT);
		if (n == (ssize_t)sizeof(answer)) {
			confirmed(m, answer.serial);
			continue;
		}
		if (n == -1 && errno == EINTR)
			continue;
		if (n == -1 && errno == EAGAIN)
			return;
		close(p->fd);		/* it is gone, or talks nonsense */
		p->fd = -1;
		deaths_sweeper_gone(m, slot);
	}
}

void deaths_sweeper_gone(struct master *m, int slot)
{
	for (int i = 0; i < m->deaths.n; i++)
		if (m->deaths.items[i].sweeper == slot)
			m->deaths.items[i].sweeper = -1;
}

bool deaths_waiting_for(const struct master *m, int slot)
{
	for (int i = 0; i < m->deaths.n; i++)
		if (m->deaths.items[i].sweeper == slot || sweeper_for(m, &m->deaths.items[i]) == slot)
			return true;
	return false;
}
