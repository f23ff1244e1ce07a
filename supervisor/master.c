/*
 * The master: one loop that forks children, hears of their ends, and takes orders from signals and the
 * control socket. It knows no Redis and no handlers, and waits for nothing but ppoll. What each step
 * does is in the file of its name; here is only their order.
 */
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/stdlib.h>

#include "supervisor/master.h"

#include "common/cgroup.h"
#include "common/clock.h"
#include "common/log.h"
#include "common/process.h"
#include "supervisor/reap.h"
#include "supervisor/reload.h"
#include "supervisor/signals.h"
#include "supervisor/staff.h"
#include "supervisor/status.h"
#include "supervisor/title.h"
#include "supervisor/watch.h"

#define LOOK_EVERY_MS 1000
#define SWEEPERS_POLLED 8
#define LAST_MS 2000		/* for what is left when we go */

void master_wake_at(struct master *m, int64_t at_ms)
{
	if (at_ms < m->wake_ms)
		m->wake_ms = at_ms;
}

void master_set_quiet(struct master *m, bool quiet, int64_t now_ms)
{
	m->quiet = quiet;
	for (int i = 0; i < m->ncrews; i++)
		if (m->crews[i].conf != NULL)
			crew_order_all(m, &m->crews[i], now_ms);
}

/* ---- signals ---- */

static void on_int(struct master *m, int64_t now_ms)
{
	m->stop.interrupts++;
	stop_begin(m, m->stop.interrupts > 1, "SIGINT", now_ms);
}

static void on_hup(struct master *m, int64_t now_ms)
{
	struct conf_report report;

	if (m->stop.phase != STOP_NOT)
		return;
	reload_run(m, &report, now_ms);
	conf_report_free(&report);
}

/* Children follow at their next turn: TERM only makes them look. */
static void on_usr1(struct master *m)
{
	if (log_reopen() == -1)
		log_error("log_reopen_failed", log_str("reason", strerror(errno)));
	atomic_fetch_add(&m->board->log_epoch, 1);
	for (int slot = 0; slot < m->top; slot++)
		if (m->procs[slot].pid > 0)
			kill(m->procs[slot].pid, SIGTERM);
}

static void obey(struct master *m, int sig, int64_t now_ms)
{
	if (sig == SIGTERM)
		stop_begin(m, false, "SIGTERM", now_ms);
	else if (sig == SIGQUIT)
		stop_begin(m, true, "SIGQUIT", now_ms);
	else if (sig == SIGINT)
		on_int(m, now_ms);
	else if (sig == SIGHUP)
		on_hup(m, now_ms);
	else if (sig == SIGUSR1)
		on_usr1(m);
	else if (sig == SIGUSR2)
		status_log(m, now_ms);
	else if ((sig == SIGTSTP || sig == SIGCONT) && m->stop.phase == STOP_NOT)
		master_set_quiet(m, sig == SIGTSTP, now_ms);
}

static void take_signals(struct master *m, int64_t now_ms)
{
	bool child = false;
	int sig;

	while ((sig = signals_next(m->signal_fd)) != 0) {
		if (sig == SIGCHLD) {
			child = true;
			continue;
		}
		log_info("signal_received", log_str("signal", process_signal_name(sig)));
		obey(m, sig, now_ms);
	}
	if (child)
		reap_children(m, now_ms);
}

/* ---- waiting ---- */

struct polled {
	struct pollfd fds[1 + SWEEPERS_POLLED + CONTROL_POLLFDS];
	int slots[SWEEPERS_POLLED];	/* of fds[1 + i] */
	size_t sweepers, n;
};

static void await(struct master *m, struct polled *p)
{
	int64_t now_ms = clock_monotonic_ms(), wait_ms = m->wake_ms - now_ms;
	struct timespec ts = {0};

	*p = (struct polled){0};
	p->fds[0] = (struct pollfd){ .fd = m->signal_fd, .events = POLLIN };
	for (int slot = 0; slot < m->top && p->sweepers < SWEEPERS_POLLED; slot++)
		if (m->procs[slot].fd != -1) {
			p->slots[p->sweepers++] = slot;
			p->fds[p->sweepers] = (struct pollfd){ .fd = m->procs[slot].fd, .events = POLLIN };
		}
	p->n = 1 + p->sweepers;
	p->n += control_pollfds(&m->control, p->fds + p->n, now_ms);
	if (wait_ms > 0)
		ts = (struct timespec){ .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
	if (ppoll(p->fds, p->n, &ts, NULL) == -1) {
		clock_poll_failed();
		for (size_t i = 0; i < p->n; i++)
			p->fds[i].revents = 0;
	}
}

static void hear_sweepers(struct master *m, const struct polled *p)
{
	for (size_t i = 0; i < p->sweepers; i++)
		if (p->fds[1 + i].revents != 0 && m->procs[p->slots[i]].fd == p->fds[1 + i].fd)
			deaths_answer(m, p->slots[i]);
}

/* ---- what is looked at once a second ---- */

static void entitle(struct master *m)
{
	int workers = staff_count(m);

	if (workers == m->titled)
		return;
	m->titled = workers;
	title_set("master (%d workers)", workers);
	notify_status(&m->notify, "%s: %d workers", m->stop.phase != STOP_NOT ? "stopping" : "running", workers);
}

static void look(struct master *m, int64_t now_ms)
{
	entitle(m);
	if (now_ms >= m->look_ms) {
		watch_children(m, now_ms);
		crews_look(m, now_ms);
		m->look_ms = now_ms + LOOK_EVERY_MS;
	}
	watch_fences(m, now_ms, clock_boottime_ms());
	master_wake_at(m, m->look_ms);
}

static void announce(struct master *m)
{
	if (m->ready || m->stop.phase != STOP_NOT || !staff_is_complete(m))
		return;
	m->ready = true;
	notify_ready(&m->notify);
	log_info("ready", log_str("version", QUREDIS_VERSION), log_str("node", m->conf->supervisor.node),
	    log_int("queues", (int64_t)m->conf->nqueues), log_int("workers", staff_count(m)));
}

static void turn(struct master *m)
{
	struct polled p;
	int64_t now_ms;

	await(m, &p);
	now_ms = clock_monotonic_ms();
	m->wake_ms = now_ms + LOOK_EVERY_MS;
	/* The dead are buried before anybody is told of them, and before orders could go to their pids. */
	take_signals(m, now_ms);
	hear_sweepers(m, &p);
	deaths_step(m, now_ms);
	control_step(m, p.fds + 1 + p.sweepers, p.n - 1 - p.sweepers, now_ms);
	/* What signals and requests changed is carried out: stopping first, since it forbids new workers. */
	stop_step(m, now_ms);
	staff_step(m, now_ms);
	look(m, now_ms);
	announce(m);
	master_wake_at(m, notify_tick(&m->notify, m->stop.phase != STOP_NOT, now_ms));
}

/* ---- the first and the last ---- */

static int give_up(char *error, size_t size, const char *what, int status)
{
	snprintf(error, size, "%s: %s", what, strerror(errno));
	return status;
}

static void name_cgroup(const struct master *m, char name[CGROUP_NAME_SIZE])
{
	char token[LEFTOVERS_TOKEN_SIZE];

	leftovers_token(m->lock.key, m->boot, token);
	cgroup_name(token, name);
}

/* Where it cannot be made, leftovers are found by their environment alone. */
static void open_cgroup(struct master *m)
{
	char name[CGROUP_NAME_SIZE];

	name_cgroup(m, name);
	m->cgroup_fd = cgroup_make(name);
	if (m->cgroup_fd == -1)
		log_debug("cgroup_missing", log_str("cgroup", name), log_str("reason", strerror(errno)));
}

static void close_cgroup(struct master *m)
{
	char name[CGROUP_NAME_SIZE];

	name_cgroup(m, name);
	if (m->cgroup_fd != -1)
		cgroup_remove(m->cgroup_fd, name);
	m->cgroup_fd = -1;
}

static int set_up(struct master *m, char *error, size_t size)
{
	arc4random_buf(&m->boot, sizeof(m->boot));
	m->since_ms = clock_realtime_ms();
	m->started_ms = clock_monotonic_ms();
	m->titled = -1;
	m->board = scoreboard_new();
	if (m->board == NULL)
		return give_up(error, size, "scoreboard", EX_OSERR);
	if (reload_note_users(m, m->conf, error, size) == -1)
		return EX_CANTCREAT;
	atomic_store(&m->board->started_ms, m->since_ms);
	if (process_become_subreaper() == -1)
		return give_up(error, size, "subreaper", EX_OSERR);
	reap_note_inherited(m);
	if (pipe2(m->life_fd, O_CLOEXEC) == -1 || (m->conf->redis.embedded && pipe2(m->keeper_fd, O_CLOEXEC) == -1))
		return give_up(error, size, "pipe", EX_OSERR);
	open_cgroup(m);
	reload_first(m);
	return control_open(&m->control, m->conf->supervisor.control_socket, error, size) == -1 ? EX_CANTCREAT : EX_OK;
}

static void tear_down(struct master *m)
{
	control_close(&m->control);
	/* As PID 1, or of what outlived its worker by a moment: nothing of ours stays. */
	process_kill_children_wait(reap_is_spared, m, LAST_MS);
	close_cgroup(m);
	log_info("stopped", log_int("uptime_ms", clock_monotonic_ms() - m->started_ms));
	notify_close(&m->notify);
}

int master_run(struct master *m, char *error, size_t size)
{
	int status = set_up(m, error, size);

	if (status == EX_OK) {
		while (m->stop.phase != STOP_GONE)
			turn(m);
		tear_down(m);
	}
	scoreboard_free(m->board);
	return status;
}
