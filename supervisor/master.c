/*
 * The master: one loop that forks children, learns of their ends, and takes orders from signals and the control socket.
 * It never talks to Redis or to a handler, and waits only in ppoll(2). This file has only the order of the steps;
 * master.h lists the files that take them.
 */
#include "supervisor/master.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/log/log.h"
#include "supervisor/reap.h"
#include "supervisor/request.h"
#include "supervisor/status.h"

#define LOOK_EVERY_MS 1000
#define SWEEPERS_POLLED 8
#define LAST_MS 2000		/* for processes that are left when the master ends */

static void wake_at(struct master *m, int64_t at_ms)
{
	if (at_ms < m->wake_ms)
		m->wake_ms = at_ms;
}

/* ---- signals ---- */

static void on_hup(struct master *m, int64_t now_ms)
{
	struct conf_report report;

	if (m->stop.phase != STOP_NOT)
		return;
	reload_run(m, &report, now_ms);
	conf_report_free(&report);
}

/* Children reopen their logs in their next turn: TERM only wakes them. */
static void on_usr1(struct master *m)
{
	if (log_follow(atomic_fetch_add(&m->board->master.log_epoch, 1) + 1) == -1)
		log_error("log_reopen_failed", log_str("reason", strerror(errno)));
	processes_signal_all(&m->processes, SIGTERM);
}

static void obey_signal(struct master *m, int sig, int64_t now_ms)
{
	if (sig == SIGTERM)
		stop_begin(m, false, "SIGTERM", now_ms);
	else if (sig == SIGQUIT)
		stop_begin(m, true, "SIGQUIT", now_ms);
	else if (sig == SIGINT)
		stop_interrupt(m, now_ms);
	else if (sig == SIGHUP)
		on_hup(m, now_ms);
	else if (sig == SIGUSR1)
		on_usr1(m);
	else if (sig == SIGUSR2)
		status_log(m, now_ms);
	else if ((sig == SIGTSTP || sig == SIGCONT) && m->stop.phase == STOP_NOT)
		queues_set_all_quiet(&m->queues, sig == SIGTSTP, now_ms);
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
		obey_signal(m, sig, now_ms);
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

static void await(struct master *m, struct polled *polled)
{
	int64_t now_ms = clock_monotonic_ms(), wait_ms = m->wake_ms - now_ms;
	struct timespec ts = {0};

	*polled = (struct polled){0};
	polled->fds[0] = (struct pollfd){ .fd = m->signal_fd, .events = POLLIN };
	for (const struct process *p = NULL;
	    polled->sweepers < SWEEPERS_POLLED && (p = processes_next(&m->processes, p, PROCESS_SWEEPER)) != NULL;)
		if (p->role.socket != -1) {
			polled->slots[polled->sweepers++] = processes_slot(&m->processes, p);
			polled->fds[polled->sweepers] = (struct pollfd){ .fd = p->role.socket, .events = POLLIN };
		}
	polled->n = 1 + polled->sweepers;
	polled->n += control_pollfds(&m->control, polled->fds + polled->n, now_ms);
	if (wait_ms > 0)
		ts = (struct timespec){ .tv_sec = wait_ms / 1000, .tv_nsec = wait_ms % 1000 * 1000000 };
	if (ppoll(polled->fds, polled->n, &ts, NULL) == -1) {
		clock_poll_failed();
		for (size_t i = 0; i < polled->n; i++)
			polled->fds[i].revents = 0;
	}
}

static void hear_sweepers(struct master *m, const struct polled *polled)
{
	for (size_t i = 0; i < polled->sweepers; i++)
		if (polled->fds[1 + i].revents != 0 &&
		    m->processes.items[polled->slots[i]].role.socket == polled->fds[1 + i].fd)
			deaths_answer(&m->deaths, polled->slots[i]);
}

/* ---- once a second ---- */

static void set_title(struct master *m)
{
	int workers = queues_count_workers(&m->queues);

	if (workers == m->titled)
		return;
	m->titled = workers;
	title_set("master (%d workers)", workers);
	notify_status(&m->notify, "%s: %d workers", m->stop.phase != STOP_NOT ? "stopping" : "running", workers);
}

/* Without the lock file another supervisor can start on this host with the same configuration, so the socket may be its
 * own. */
static void look_at_files(struct master *m)
{
	const char *lock = m->config.conf->supervisor.lock_file;
	bool removed = !lock_is_at(&m->lock, lock);

	if (removed && !m->lock_removed)
		log_error("lock_removed", log_str("path", lock),
		    log_str("advice", "another quredisd can start beside this one: restart this one"));
	m->lock_removed = removed;
	if (!removed && control_restore(&m->control))
		log_warning("control_restored", log_str("path", m->control.path),
		    log_str("reason", "another process had removed the socket"));
}

static void look_once_a_second(struct master *m, int64_t now_ms)
{
	set_title(m);
	if (now_ms >= m->look_ms) {
		look_at_files(m);
		watch_children(&m->processes, now_ms);
		queues_look(&m->queues, now_ms);
		m->look_ms = now_ms + LOOK_EVERY_MS;
	}
	wake_at(m, watch_fences(&m->processes, m->config.conf->supervisor.lease_ms, now_ms, clock_boottime_ms()));
	wake_at(m, m->look_ms);
}

static void announce(struct master *m)
{
	if (m->ready || m->stop.phase != STOP_NOT || !staffing_is_complete(m))
		return;
	m->ready = true;
	notify_ready(&m->notify);
	log_info("ready", log_str("version", QUREDIS_VERSION), log_str("node", m->config.conf->supervisor.node),
	    log_int("queues", (int64_t)m->config.conf->nqueues), log_int("workers", queues_count_workers(&m->queues)));
}

static void run_turn(struct master *m)
{
	struct polled polled;
	int64_t now_ms;

	await(m, &polled);
	now_ms = clock_monotonic_ms();
	m->wake_ms = now_ms + LOOK_EVERY_MS;
	/* Reaps dead children before the sweeper gets reports of them, and before an order could go to their pids. */
	take_signals(m, now_ms);
	hear_sweepers(m, &polled);
	queues_wake_opened(&m->queues);
	wake_at(m, reap_orphans(m, now_ms));
	wake_at(m, deaths_step(&m->deaths, now_ms));
	control_step(&m->control, polled.fds + 1 + polled.sweepers, polled.n - 1 - polled.sweepers, now_ms);
	/* Carries out what signals and requests have ordered: a stop first, since it forbids new workers. */
	wake_at(m, stop_step(m, now_ms));
	wake_at(m, staffing_step(m, now_ms));
	look_once_a_second(m, now_ms);
	announce(m);
	wake_at(m, notify_tick(&m->notify, m->stop.phase != STOP_NOT, now_ms));
}

/* ---- the first and the last ---- */

static struct master *of_sweeper;	/* in a sweeper: the master whose queues queue_index_of() searches */

static int queue_index_of(const char *name)
{
	return queues_find(&of_sweeper->queues, name);
}

static void close_in_child(void *master)
{
	struct master *m = master;

	of_sweeper = m;
	close(m->signal_fd);
	m->signal_fd = -1;
	control_close_in_child(&m->control);
	notify_close(&m->notify);
	pid_file_close(&m->pid_file);
}

int master_init(struct master *m)
{
	lock_init(&m->lock);
	pid_file_init(&m->pid_file);
	control_init(&m->control, request_answer, m);
	m->signal_fd = signals_open();
	if (m->signal_fd == -1)
		return -1;
	notify_open(&m->notify);
	return 0;
}

void master_connect(struct master *m)
{
	processes_init(&m->processes, m->board);
	orphans_init(&m->orphans, &m->processes);
	deaths_init(&m->deaths, &m->processes, &m->orphans);
	queues_init(&m->queues, &m->processes, &m->deaths);
	spawner_init(&m->spawner, &m->processes, &m->lock,
	    &(struct spawner_master){ .close_masters = close_in_child, .queue_index_of = queue_index_of, .master = m });
}

static int give_up(char *error, size_t size, const char *what, int status)
{
	snprintf(error, size, "%s: %s", what, strerror(errno));
	return status;
}

static int set_up(struct master *m, char *error, size_t size)
{
	const char *what;

	m->since_ms = clock_realtime_ms();
	m->started_ms = clock_monotonic_ms();
	m->titled = -1;
	m->board = scoreboard_new();
	if (m->board == NULL)
		return give_up(error, size, "scoreboard", EX_OSERR);
	if (reload_note_users(m, m->config.conf, error, size) == -1)
		return EX_CANTCREAT;
	atomic_store(&m->board->master.started_ms, m->since_ms);
	if (process_become_subreaper() == -1)
		return give_up(error, size, "subreaper", EX_OSERR);
	master_connect(m);
	if (spawner_open(&m->spawner, m->config.conf->redis.embedded, &what) == -1)
		return give_up(error, size, what, EX_OSERR);
	reload_first(m);
	return control_open(&m->control, m->config.conf->supervisor.control_socket,
	    m->config.conf->supervisor.control_gid, error, size);
}

static void tear_down(struct master *m)
{
	control_close(&m->control);
	/* The master may be PID 1, or may have adopted processes that outlived their worker by a moment: it leaves no
	 * process of its own. */
	orphans_kill_last(&m->orphans, LAST_MS);
	spawner_close(&m->spawner);
	log_info("stopped", log_int("uptime_ms", clock_monotonic_ms() - m->started_ms));
	notify_close(&m->notify);
}

int master_run(struct master *m, char *error, size_t size)
{
	int status = set_up(m, error, size);

	if (status == EX_OK) {
		while (m->stop.phase != STOP_GONE)
			run_turn(m);
		tear_down(m);
	}
	scoreboard_free(m->board);
	return status;
}
