/*
 * Makes the children of the master: no other file forks them, or calls worker_run() and sweeper_run(). Between fork()
 * and these calls the child closes what only the master uses, and marks itself, so that the next start of quredisd can
 * find its children.
 */
#include "supervisor/children/spawner.h"

#include <sys/prctl.h>
#include <sys/socket.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "common/base/base.h"
#include "common/log/log.h"
#include "supervisor/children/keeper.h"
#include "supervisor/children/rights.h"
#include "sweeper/sweeper.h"

#define FORK_DELAY_MS 1000
#define FORK_DELAY_MAX_MS 30000

static void close_fd(int *fd)
{
	if (*fd != -1)
		close(*fd);
	*fd = -1;
}

/* ---- what children inherit ---- */

void spawner_init(struct spawner *s, struct processes *ps, struct lock *lock, const struct spawner_master *of)
{
	*s = (struct spawner){ .processes = ps, .lock = lock, .of = *of, .cgroup_fd = -1, .life_fd = { -1, -1 },
	    .keeper_fd = { -1, -1 } };
	arc4random_buf(&s->boot, sizeof(s->boot));
}

static void name_cgroup(const struct spawner *s, char name[CGROUP_NAME_SIZE])
{
	char token[LEFTOVERS_TOKEN_SIZE];

	leftovers_token(s->lock->text.key, s->boot, token);
	cgroup_name(token, name);
}

/* Without a cgroup, the next start finds leftovers by their environment alone. */
static void open_cgroup(struct spawner *s)
{
	char name[CGROUP_NAME_SIZE];

	name_cgroup(s, name);
	s->cgroup_fd = cgroup_make(name);
	if (s->cgroup_fd == -1)
		log_debug("cgroup_missing", log_str("cgroup", name), log_str("reason", strerror(errno)));
}

int spawner_open(struct spawner *s, bool embedded, const char **what)
{
	*what = "pipe";
	if (pipe2(s->life_fd, O_CLOEXEC) == -1 || (embedded && pipe2(s->keeper_fd, O_CLOEXEC) == -1))
		return -1;
	open_cgroup(s);
	return 0;
}

void spawner_leave_keeper(struct spawner *s)
{
	close_fd(&s->keeper_fd[1]);
}

void spawner_close(struct spawner *s)
{
	char name[CGROUP_NAME_SIZE];

	name_cgroup(s, name);
	if (s->cgroup_fd != -1)
		cgroup_remove(s->cgroup_fd, name);
	s->cgroup_fd = -1;
}

/* ---- in the child ---- */

/* Closes the master's descriptors. The log, the lock, the read end of life_fd and the write end of keeper_fd stay. */
static void close_masters(struct spawner *s)
{
	s->of.close_masters(s->of.master);
	close_fd(&s->life_fd[1]);
	close_fd(&s->keeper_fd[0]);
	for (const struct process *p = NULL; (p = processes_next(s->processes, p, PROCESS_SWEEPER)) != NULL;)
		processes_close_socket(s->processes, processes_slot(s->processes, p));
}

/* After the rights were given up, which the kernel answers by forgetting both. */
static void follow_master(const struct child *child)
{
	process_hide_memory(!child->conf->supervisor.core);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != child->master_pid)
		/* the master died before the kernel knew that it must tell this child */
		_exit(CHILD_EXIT_DONE);
}

static _Noreturn void run_worker(struct child *child, const struct process_role *role, const struct spawner_worker *w)
{
	child->queue = w->conf;
	child->queue_index = role->queue;
	child->index = role->index;
	rights_of_worker(child->conf, w->conf);
	follow_master(child);
	worker_run(child);
}

/* The process ends when its sweeper does. It must not keep the lock from the next start. */
static _Noreturn void run_search(struct spawner *s, struct child *child, int fd)
{
	close(child->master_fd);
	lock_close(s->lock);
	rights_of_search(child->conf);
	process_hide_memory(!child->conf->supervisor.core);
	title_set("sweeper search");
	sweeper_search(child, fd);
}

/* Before the sweeper gives up root's rights. Without this process the sweeper is of no use, so the master tries both
 * again. */
static void fork_search(struct spawner *s, struct child *child)
{
	int pair[2];

	child->search_pid = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == -1 ? -1 : fork();
	if (child->search_pid == -1) {
		log_error("fork_failed", log_str("worker", "sweeper search"), log_str("reason", strerror(errno)));
		_exit(EX_OSERR);
	}
	if (child->search_pid == 0) {
		close(pair[0]);
		run_search(s, child, pair[1]);
	}
	close(pair[1]);
	child->search_fd = pair[0];
}

static _Noreturn void run_sweeper(struct spawner *s, struct child *child, int socket)
{
	close_fd(&s->life_fd[0]);	/* EOF on the sweeper's own socket says the same */
	child->lock_key = s->lock->text.key;
	child->handler_users = &s->lock->text.users;
	child->master_fd = socket;
	if (child->conf->supervisor.as.switch_user)
		fork_search(s, child);
	rights_of_sweeper(child->conf);
	follow_master(child);
	child->queue_index_of = s->of.queue_index_of;
	sweeper_run(child);
}

static _Noreturn void run_keeper(struct spawner *s, const struct child *child, int read_end)
{
	/* The keeper must not keep the lock from the next start, nor hold the pipe whose end tells it to exit. */
	lock_close(s->lock);
	close_fd(&s->life_fd[0]);
	close_fd(&s->keeper_fd[1]);
	rights_of_keeper(child->conf);
	process_hide_memory(!child->conf->supervisor.core);
	keeper_run(child->conf, child->board, child->slot, read_end);
}

/*
 * Marks the child's own children, so that the next start can find them if master and workers are killed. The keeper
 * needs no mark: its redis-server ends by itself.
 */
static void mark_family(struct spawner *s, enum process_kind kind)
{
	char token[LEFTOVERS_TOKEN_SIZE];

	if (kind == PROCESS_KEEPER) {
		close_fd(&s->cgroup_fd);
		return;
	}
	leftovers_token(s->lock->text.key, s->boot, token);
	setenv(LEFTOVERS_TOKEN_NAME, token, 1);
	if (s->cgroup_fd != -1 && cgroup_enter(s->cgroup_fd) == -1)
		log_warning("cgroup_not_entered", log_str("reason", strerror(errno)));
	close_fd(&s->cgroup_fd);
	if (kind != PROCESS_SWEEPER)
		lock_text_forget_key(&s->lock->text);
}

static void set_title(const struct process_role *role)
{
	char name[PROCESS_NAME_SIZE], title[PROCESS_NAME_SIZE + 16];

	snprintf(title, sizeof(title), "%s%s", role->kind == PROCESS_WORKER ? "worker " : "", process_name(role, name));
	title_set("%s", title);
	log_process(title);
}

/* socket: the sweeper's own end of its socket. w: NULL except for a worker. */
static _Noreturn void run_child(struct spawner *s, struct child *child, int socket, const struct spawner_worker *w)
{
	const struct process_role *role = &s->processes->items[child->slot].role;
	int keeper_read = -1;

	signals_child();
	if (role->kind == PROCESS_KEEPER) {
		keeper_read = s->keeper_fd[0];
		s->keeper_fd[0] = -1;
	} else {
		process_become_subreaper();
	}
	if (role->socket != -1)
		close(role->socket);	/* the master's end */
	close_masters(s);
	atomic_store(&child->board->slots[child->slot].pid, getpid());
	set_title(role);
	mark_family(s, role->kind);
	seal_share(&child->board->secrets);
	resolve_share(&child->board->addresses);
	if (role->kind == PROCESS_WORKER)
		run_worker(child, role, w);
	if (role->kind == PROCESS_SWEEPER)
		run_sweeper(s, child, socket);
	run_keeper(s, child, keeper_read);
}

/* ---- in the master ---- */

static int fork_failed(struct spawner *s, const struct process_role *role, int64_t now_ms)
{
	int64_t delay = FORK_DELAY_MS << (s->failures < 5 ? s->failures : 5);
	char name[PROCESS_NAME_SIZE];

	if (delay > FORK_DELAY_MAX_MS)
		delay = FORK_DELAY_MAX_MS;
	s->failures++;
	s->retry_at_ms = now_ms + delay;
	log_error("fork_failed", log_str("worker", process_name(role, name)), log_str("reason", strerror(errno)),
	    log_int("retry_ms", delay));
	return -1;
}

static int fork_one(struct spawner *s, const struct conf *conf, const struct process_role *role, int socket,
    const struct spawner_worker *w, int64_t now_ms)
{
	struct child child = {
		.conf = conf, .board = s->processes->board, .queue_index = -1, .master_fd = s->life_fd[0],
		.boot = s->boot, .lock_identity = s->lock->identity, .master_pid = getpid(),
	};
	pid_t pid;

	child.slot = processes_start(s->processes, role, w == NULL ? ORDER_RUN : w->order, now_ms);
	if (child.slot == -1)
		return fork_failed(s, role, now_ms);
	pid = fork();
	if (pid == 0)
		run_child(s, &child, socket, w);
	if (pid == -1) {
		processes_not_forked(s->processes, child.slot);
		return fork_failed(s, role, now_ms);
	}
	processes_forked(s->processes, child.slot, pid);
	s->failures = 0;
	return child.slot;
}

int spawner_fork_worker(struct spawner *s, const struct conf *conf, unsigned epoch, const struct spawner_worker *w,
    int64_t now_ms)
{
	struct process_role role = {
		.kind = PROCESS_WORKER, .queue = w->queue, .index = w->index, .kill_grace_ms = w->conf->kill_grace_ms,
		.fence_kills = w->conf->fence == CONF_FENCE_KILL, .successor = w->successor,
		.generation = w->handler_generation, .socket = -1, .epoch = epoch,
	};
	char name[PROCESS_NAME_SIZE];
	int slot;

	strlcpy(role.queue_name, w->conf->name, sizeof(role.queue_name));
	slot = fork_one(s, conf, &role, -1, w, now_ms);
	if (slot != -1)
		log_info("worker_started", log_str("queue", role.queue_name),
		    log_str("worker", process_name(&role, name)),
		    log_int("child", s->processes->items[slot].pid), log_int("slot", slot));
	return slot;
}

int spawner_fork_sweeper(struct spawner *s, const struct conf *conf, unsigned epoch, int64_t now_ms)
{
	struct process_role role = { .kind = PROCESS_SWEEPER, .queue = -1, .socket = -1, .epoch = epoch };
	int pair[2], slot;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == -1)
		return fork_failed(s, &role, now_ms);
	role.socket = pair[0];
	slot = fork_one(s, conf, &role, pair[1], NULL, now_ms);
	close(pair[1]);
	if (slot == -1) {
		close(pair[0]);
		return -1;
	}
	log_info("sweeper_started", log_int("child", s->processes->items[slot].pid), log_int("slot", slot));
	return slot;
}

int spawner_fork_keeper(struct spawner *s, const struct conf *conf, unsigned epoch, int64_t now_ms)
{
	const struct process_role role = { .kind = PROCESS_KEEPER, .queue = -1, .socket = -1, .epoch = epoch };
	int slot = fork_one(s, conf, &role, -1, NULL, now_ms);

	if (slot != -1)
		log_info("keeper_started", log_int("child", s->processes->items[slot].pid), log_int("slot", slot));
	return slot;
}
