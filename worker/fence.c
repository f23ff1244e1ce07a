/*
 * fence = "kill": what a handler has in work ends before the lease can have run out, since from then on
 * somebody else may run it. TERM while there is time for kill_grace, KILL while there is time to die; should
 * this process stand still, the master ends it (supervisor/watch.c). What becomes of the message is not
 * decided here: it is as after a stop, and adopt.c sees whose it is.
 */
#include <sys/timerfd.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/worker.h"

#include "common/clock.h"

static bool is_on(const struct worker *w)
{
	return w->fence_fd != -1;
}

void fence_init(struct worker *w)
{
	w->fence_fd = -1;
	if (w->conf->fence != CONF_FENCE_KILL)
		return;
	/* The clock of the lease: poll's own stands still while the machine sleeps. */
	w->fence_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
	if (w->fence_fd == -1) {
		log_error("fence_failed", log_str("queue", w->conf->name), log_str("worker", w->name), log_str("error", strerror(errno)));
		exit(1);
	}
}

void fence_free(struct worker *w)
{
	if (w->fence_fd != -1)
		close(w->fence_fd);
}

/* What it takes to die, and to be seen dead. */
static int64_t margin_ms(const struct worker *w)
{
	return w->child->conf->supervisor.lease_ms / 8;
}

static int64_t kill_at_ms(const struct worker *w)
{
	return w->lease_until_ms - margin_ms(w);
}

static int64_t term_at_ms(const struct worker *w)
{
	return kill_at_ms(w) - w->conf->kill_grace_ms;
}

bool fence_may_start(const struct worker *w)
{
	return !is_on(w) || clock_boottime_ms() < term_at_ms(w);
}

/* 0: not. The same again costs nothing: it changes with each renewal of the lease. */
static void wake_at(struct worker *w, int64_t at_ms)
{
	struct itimerspec at = { .it_value = { .tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000 } };

	if (at_ms == w->fence_at_ms)
		return;
	w->fence_at_ms = at_ms;
	timerfd_settime(w->fence_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

/* For the master: until half of the margin is left it is our own business. */
static void show_deadline(struct worker *w, int64_t at_ms)
{
	if (atomic_load(&w->slot->fence_ms) != at_ms)
		atomic_store(&w->slot->fence_ms, at_ms);
}

static void note(struct worker *w, const char *reason)
{
	if (w->fenced)
		return;
	w->fenced = true;
	log_warning("handler_fenced", log_str("queue", w->conf->name), log_str("worker", w->name),
	    log_str("incarnation", w->incarnation), log_str("reason", reason), log_int("messages", tray_count(w, ITEM_RUNNING)));
}

/* Returns when the next step is due; 0: there is none. */
static int64_t end_what_runs(struct worker *w, int64_t now_ms)
{
	int64_t now = clock_boottime_ms();

	if (w->claim_gone || now >= kill_at_ms(w)) {
		note(w, w->claim_gone ? "another took it" : "its lease runs out");
		w->runner->kill(w, now_ms);
		return 0;
	}
	if (now < term_at_ms(w))
		return term_at_ms(w);
	note(w, "its lease runs out");
	w->runner->stop(w, now_ms);
	return kill_at_ms(w);
}

void fence_announce(struct worker *w)
{
	if (is_on(w))
		show_deadline(w, w->lease_until_ms - margin_ms(w) / 2);
}

void fence_tick(struct worker *w, int64_t now_ms)
{
	if (!is_on(w))
		return;
	if (tray_count(w, ITEM_RUNNING) == 0) {
		w->fenced = false;
		wake_at(w, 0);
		show_deadline(w, 0);
		return;
	}
	wake_at(w, end_what_runs(w, now_ms));
	fence_announce(w);
}

bool fence_pollfd(const struct worker *w, struct pollfd *p)
{
	*p = (struct pollfd){ .fd = w->fence_fd, .events = POLLIN };
	return is_on(w);
}
