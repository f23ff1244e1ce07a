/*
 * fence = "kill": a handler ends before the lease can have expired, since from then on another worker may run its
 * message. The handler gets SIGTERM while there is time for kill_grace, and SIGKILL while there is time to die. If this
 * process stands still, the master kills the handler (supervisor/children/watch.c). This file does not settle the
 * message: the worker treats it as after a stop, and adopt.c finds out which process owns it.
 */
#include <sys/timerfd.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/worker.h"

#include "common/base/base.h"

static bool is_on(const struct worker *w)
{
	return w->fence.fd != -1;
}

void fence_init(struct worker *w)
{
	w->fence.fd = -1;
	if (w->env->conf->fence != CONF_FENCE_KILL)
		return;
	/* The lease uses this clock: the timeout of poll() stands still while the machine sleeps. */
	w->fence.fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (w->fence.fd == -1) {
		log_error("fence_failed", log_str("error", strerror(errno)));
		exit(1);
	}
}

void fence_free(struct worker *w)
{
	if (w->fence.fd != -1)
		close(w->fence.fd);
}

/* The time that a killed handler needs to die, and this worker to see it dead. */
static int64_t margin_ms(const struct worker *w)
{
	return w->env->child->conf->supervisor.lease_ms / 8;
}

static int64_t kill_at_ms(const struct worker *w)
{
	return w->session.lease.until_ms - margin_ms(w);
}

static int64_t term_at_ms(const struct worker *w)
{
	return kill_at_ms(w) - w->env->conf->kill_grace_ms;
}

void fence_claim_lost(struct fence *f)
{
	f->claim_gone = true;
}

void fence_claims_ended(struct fence *f)
{
	f->claim_gone = false;
}

bool fence_may_start(const struct worker *w)
{
	return !is_on(w) || clock_boottime_ms() < term_at_ms(w);
}

/* at_ms 0: disarms the timer. Called each turn; only a change, which each renewal of the lease makes, costs a system
 * call. */
static void set_timer(struct worker *w, int64_t at_ms)
{
	struct itimerspec at = { .it_value = { .tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000 } };

	if (at_ms == w->fence.at_ms)
		return;
	w->fence.at_ms = at_ms;
	timerfd_settime(w->fence.fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* Publishes when the handler must be dead, or the master kills it. The worker itself has the first half of the margin.
 * at_ms 0: nothing runs. */
static void show_deadline(struct worker *w, int64_t at_ms)
{
	if (atomic_load(&w->env->slot->fence_ms) != at_ms)
		atomic_store(&w->env->slot->fence_ms, at_ms);
}

static void log_fenced(struct worker *w, const char *reason)
{
	if (w->fence.fenced)
		return;
	w->fence.fenced = true;
	log_warning("handler_fenced", log_str("incarnation", w->session.incarnation), log_str("reason", reason),
	    log_int("messages", tray_count(&w->trays, ITEM_RUNNING)));
}

/* Returns when the next step is due; 0: there is none. */
static int64_t end_what_runs(struct worker *w, int64_t now_ms)
{
	int64_t now = clock_boottime_ms();

	if (w->fence.claim_gone || now >= kill_at_ms(w)) {
		log_fenced(w, w->fence.claim_gone ? "another took it" : "its lease runs out");
		w->starter.runner->kill(w, now_ms);
		return 0;
	}
	if (now < term_at_ms(w))
		return term_at_ms(w);
	log_fenced(w, "its lease runs out");
	w->starter.runner->stop(w, now_ms);
	return kill_at_ms(w);
}

void fence_announce(struct worker *w)
{
	if (is_on(w))
		show_deadline(w, w->session.lease.until_ms - margin_ms(w) / 2);
}

void fence_tick(struct worker *w, int64_t now_ms)
{
	if (!is_on(w))
		return;
	if (tray_count(&w->trays, ITEM_RUNNING) == 0) {
		w->fence.fenced = false;
		set_timer(w, 0);
		show_deadline(w, 0);
		return;
	}
	set_timer(w, end_what_runs(w, now_ms));
	fence_announce(w);
}

bool fence_pollfd(const struct worker *w, struct pollfd *p)
{
	*p = (struct pollfd){ .fd = w->fence.fd, .events = POLLIN };
	return is_on(w);
}

/*
 * Nothing that was fetched under an older name runs any more, so a sweeper that finds such a name on this server, with
 * messages that were not taken over, may return them at once.
 */
void fence_show_abandoned(struct worker *w)
{
	uint64_t before = atomic_load(&w->env->slot->abandoned);

	if (tray_count(&w->trays, ITEM_RUNNING) == 0)
		fence_claims_ended(&w->fence);
	if (!w->session.registered || w->fence.claim_gone || before == w->session.id.generation)
		return;
	atomic_store(&w->env->slot->abandoned, w->session.id.generation);
	if (before != 0)
		atomic_fetch_add(&w->env->board->workers.renamed, 1);
}
