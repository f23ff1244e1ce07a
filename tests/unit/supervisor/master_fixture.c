/* The master that the tests of supervisor/ share, and the stand-ins for fork(2), kill(2) and the log. */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/unit/supervisor/master_fixture.h"

#include "common/log/log.h"
#include "sweeper/sweeper.h"

#define CONFS_MAX 8
#define SIGNALS_MAX 4096
#define EVENTS_MAX 256

struct master m;
struct master_forks master_forks;

static struct conf *confs[CONFS_MAX];
static size_t nconfs;
static char conf_path[64];
static struct { pid_t pid; int sig; } sent[SIGNALS_MAX];
static size_t nsent;
static struct { char event[64], text[1024]; } events[EVENTS_MAX];
static size_t nevents;

pid_t __real_fork(void);
pid_t __wrap_fork(void);
int __real_kill(pid_t pid, int sig);
int __wrap_kill(pid_t pid, int sig);
void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n);

/* ---- forks and signals ---- */

pid_t __wrap_fork(void)
{
	if (master_forks.error != 0) {
		master_forks.failed++;
		errno = master_forks.error;
		return -1;
	}
	master_forks.pid = master_forks.child != NULL ? __real_fork() : MASTER_PID + (pid_t)master_forks.n;
	master_forks.n++;
	return master_forks.pid;
}

static _Noreturn void run_child(const struct child *child)
{
	if (master_forks.child == NULL)
		abort();
	master_forks.child(child);
	_exit(CHILD_EXIT_DONE);
}

void worker_run(const struct child *child)
{
	run_child(child);
}

void sweeper_run(const struct child *child)
{
	run_child(child);
}

void sweeper_search(const struct child *child, int fd)
{
	(void)fd;
	run_child(child);
}

int __wrap_kill(pid_t pid, int sig)
{
	if (pid == getpid())		/* abort() */
		return __real_kill(pid, sig);
	assert_true(nsent < SIGNALS_MAX);
	sent[nsent].pid = pid;
	sent[nsent++].sig = sig;
	return 0;
}

size_t master_signals(pid_t pid, int sig)
{
	size_t n = 0;

	for (size_t i = 0; i < nsent; i++)
		n += (pid == 0 || sent[i].pid == pid) && (sig == 0 || sent[i].sig == sig);
	return n;
}

pid_t master_signalled(size_t i)
{
	assert_true(i < nsent);
	return sent[i].pid;
}

void master_forget_signals(void)
{
	nsent = 0;
}

bool master_aborts(void (*f)(void))
{
	pid_t pid = __real_fork();
	int status = 0;

	if (pid == 0) {
		close(STDERR_FILENO);
		f();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* ---- events ---- */

static int print_field(char *out, size_t size, const struct log_field *f)
{
	if (f->type == LOG_FIELD_INT)
		return snprintf(out, size, " %s=%" PRId64, f->key, f->value);
	if (f->data == NULL)
		return 0;
	return snprintf(out, size, " %s=%.*s", f->key, f->type == LOG_FIELD_BYTES ? (int)f->len : -1, f->data);
}

void __wrap_log_write(enum log_level level, const char *event, const struct log_field *fields, size_t n)
{
	static const char *const names[] = { "debug", "info", "warning", "error" };
	char *text = events[nevents].text;
	size_t len;

	assert_true(nevents < EVENTS_MAX);
	snprintf(events[nevents].event, sizeof(events[nevents].event), "%s", event);
	len = (size_t)snprintf(text, sizeof(events[0].text), "%s", names[level]);
	for (size_t i = 0; i < n; i++) {
		len += (size_t)print_field(text + len, sizeof(events[0].text) - len, &fields[i]);
		assert_true(len < sizeof(events[0].text));
	}
	nevents++;
}

const char *master_logged(const char *event)
{
	for (size_t i = nevents; i-- > 0;)
		if (strcmp(events[i].event, event) == 0)
			return events[i].text;
	return NULL;
}

size_t master_count_events(const char *event)
{
	size_t n = 0;

	for (size_t i = 0; i < nevents; i++)
		n += strcmp(events[i].event, event) == 0;
	return n;
}

void master_forget_events(void)
{
	nevents = 0;
}

/* ---- the master ---- */

void master_write_conf(const char *text)
{
	FILE *f = fopen(conf_path, "w");

	assert_non_null(f);
	assert_int_equal(fputs(text, f) >= 0, 1);
	assert_int_equal(fclose(f), 0);
}

struct conf *master_load(const char *text)
{
	struct conf_report report;
	struct conf *conf;

	master_write_conf(text);
	conf = conf_load(conf_path, CONF_LENIENT_HANDLERS, &report);
	if (conf == NULL)
		conf_report_print(&report, stderr);
	conf_report_free(&report);
	assert_non_null(conf);
	assert_true(nconfs < CONFS_MAX);
	return confs[nconfs++] = conf;
}

int master_setup(void **state)
{
	int fd;

	(void)state;
	memset(&m, 0, sizeof(m));
	master_forks = (struct master_forks){0};
	nsent = nevents = nconfs = 0;
	snprintf(conf_path, sizeof(conf_path), "/tmp/quredis-master.XXXXXX");
	fd = mkstemp(conf_path);
	if (fd == -1)
		return -1;
	close(fd);
	m.board = scoreboard_new();
	m.config.path = conf_path;
	m.config.conf = master_load(MASTER_CONF);
	nconfs = 0;		/* it is the master's, and a reload frees it */
	m.lock.fd = m.pid_file.fd = m.notify.fd = m.signal_fd = -1;
	control_init(&m.control, NULL, NULL);
	master_connect(&m);
	m.spawner.boot = 0xb0;
	reload_first(&m);
	return 0;
}

int master_teardown(void **state)
{
	bool ours = false;

	(void)state;
	for (size_t i = 0; i < nconfs; i++) {
		ours = ours || confs[i] == m.config.conf;
		conf_free(confs[i]);
	}
	if (!ours)
		conf_free(m.config.conf);
	free(m.config.failed.reason);
	for (int slot = 0; slot < m.processes.top; slot++)
		processes_close_socket(&m.processes, slot);
	scoreboard_free(m.board);
	lock_text_free(&m.lock.text);
	return unlink(conf_path);
}

static int add(const struct process_role *role, enum order order, int64_t now_ms)
{
	int slot = processes_start(&m.processes, role, order, now_ms);

	assert_int_not_equal(slot, -1);
	processes_forked(&m.processes, slot, MASTER_PID + (pid_t)master_forks.n++);
	return slot;
}

int master_add_worker(int queue, int index, int64_t now_ms)
{
	struct process_role role = {
		.kind = PROCESS_WORKER, .queue = queue, .index = index, .kill_grace_ms = 500, .socket = -1, .epoch = m.config.epoch,
	};
	int slot;

	snprintf(role.queue_name, sizeof(role.queue_name), "%s", m.queues.items[queue].name);
	slot = add(&role, queues_first_order(&m.queues, queue), now_ms);
	queues_worker_forked(&m.queues, queue, now_ms);
	return slot;
}

int master_add_sweeper(unsigned epoch, int64_t now_ms)
{
	const struct process_role role = { .kind = PROCESS_SWEEPER, .queue = -1, .socket = -1, .epoch = epoch };

	return add(&role, ORDER_RUN, now_ms);
}

int master_add_keeper(int64_t now_ms)
{
	const struct process_role role = { .kind = PROCESS_KEEPER, .queue = -1, .socket = -1 };

	return add(&role, ORDER_RUN, now_ms);
}

void master_end_worker(int slot, bool died, int64_t now_ms)
{
	renewal_ended(&m.queues, &m.processes.items[slot]);
	queues_worker_ended(&m.queues, slot, died, now_ms, 0);
	processes_release(&m.processes, slot);
}

int master_count(enum process_kind kind, enum process_state state)
{
	int n = 0;

	for (const struct process *p = NULL; (p = processes_next(&m.processes, p, kind)) != NULL;)
		n += p->state == state;
	return n;
}
