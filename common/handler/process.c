/*
 * The process of a handler: start, signals, end. The order at the end matters: the leader is reaped, then its group is
 * killed, then the adopted processes are killed, and only then is the process gone. handler/spawn.c creates the child,
 * and handler/family.c finds the processes that belong to it.
 */
#include <sys/wait.h>

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "common/handler/process.h"

#include "common/base/base.h"
#include "common/handler/spawn.h"
#include "common/log/log.h"

#define UNKILLABLE_MS 10000		/* a process that survives SIGKILL for so long is given up */
#define LOOK_MAX_MS 50			/* between checks of processes that were killed; SIGCHLD comes sooner */

void handler_process_init(struct handler_process *p, const struct conf_queue *conf)
{
	*p = (struct handler_process){ .conf = conf, .failure_pipe = { -1, -1 }, .due_ms = INT64_MAX };
	p->has_script = conf_find_script(conf->handler, &p->script);
}

void handler_process_free(struct handler_process *p)
{
	handler_fd_close(&p->failure_pipe[0]);
	handler_fd_close(&p->failure_pipe[1]);
	handler_family_free(&p->family);
}

/*
 * The only place that changes the phase. A handler may be killed or end in any phase; TERM is sent only once, to one
 * that runs; only a process that is gone, or never was, may be started.
 */
static void enter_phase(struct handler_process *p, enum handler_phase next)
{
#define FROM(phase) (1u << HANDLER_##phase)
	static const unsigned from[HANDLER_PHASES] = {
		[HANDLER_IDLE] = FROM(IDLE) | FROM(GONE),
		[HANDLER_RUNNING] = FROM(IDLE),
		[HANDLER_TERMINATING] = FROM(RUNNING),
		[HANDLER_KILLING] = FROM(RUNNING) | FROM(TERMINATING),
		[HANDLER_CLEARING] = FROM(RUNNING) | FROM(TERMINATING) | FROM(KILLING),
		[HANDLER_GONE] = FROM(KILLING) | FROM(CLEARING),
	};
#undef FROM

	assert((from[next] & 1u << p->phase) != 0);
	p->phase = next;
}

int64_t handler_after(int64_t now_ms, int64_t wait_ms)
{
	return wait_ms < 0 || wait_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + wait_ms;
}

int handler_process_prepare(struct handler_process *p)
{
	if (p->failure_pipe[0] != -1)
		return 0;
	p->signals = process_changed_signals();
	p->self = getpid();
	if (handler_pipe_open(p->failure_pipe, 0) == 0 && handler_fd_move(&p->failure_pipe[1], HANDLER_FD_SAFE) == 0)
		return 0;
	handler_fd_close(&p->failure_pipe[0]);
	handler_fd_close(&p->failure_pipe[1]);
	return -1;
}

void handler_process_show(struct handler_process *p, struct message *message)
{
	p->message = message;
}

void handler_process_learn(struct handler_process *p)
{
	struct handler_failure f;

	while (read(p->failure_pipe[0], &f, sizeof(f)) == sizeof(f))
		if (f.pid == p->leader && f.stage >= 0 && f.stage < HANDLER_STAGES)
			p->failure = f;
}

static void limit_late(struct handler_process *p)
{
	if (!p->conf->limits.oom_score_adj_set)
		return;
	handler_process_learn(p);
	if (p->failure.error == 0 && handler_limit_late(p->conf, p->leader) == -1 && errno != ENOENT)
		log_warning("handler_not_limited", log_str("limit", "oom_score_adj"),
		    log_str("error", strerror(errno)));
}

static bool is_shortage(int error)
{
	return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
}

/*
 * True: the host had no process, descriptor or memory for the child, which has exited. Such a child is no evidence
 * against the handler: the start failed as if there had been no fork. The kernel refuses a process to another user only
 * in execve. Where vfork is a fork, the report may come too late.
 */
static bool take_back_start(struct handler_process *p)
{
	handler_process_learn(p);
	if (!is_shortage(p->failure.error))
		return false;
	while (waitpid(p->leader, NULL, 0) == -1 && errno == EINTR)
		;
	errno = p->failure.error;
	return true;
}

int handler_process_start(struct handler_process *p, struct handler_plan *plan, int64_t now_ms)
{
	pid_t leader;

	enter_phase(p, HANDLER_IDLE);
	p->failure = (struct handler_failure){0};
	p->now_ms = p->started_ms = now_ms;
	p->duration_ms = 0;
	plan->conf = p->conf;
	plan->script = p->has_script ? &p->script : NULL;
	plan->failure_fd = p->failure_pipe[1];
	plan->signals = p->signals;
	plan->parent = p->self;
	leader = handler_spawn(plan);
	if (leader == -1)
		return -1;
	p->leader = leader;
	if (take_back_start(p))
		return -1;
	enter_phase(p, HANDLER_RUNNING);
	p->due_ms = INT64_MAX;
	handler_family_begin(&p->family, leader);
	limit_late(p);
	return 0;
}

/* Started and not GONE. */
static bool is_active(const struct handler_process *p)
{
	return p->phase != HANDLER_IDLE && p->phase != HANDLER_GONE;
}

/* ---- end ---- */

/* A child that wrote to the failure pipe exits with HANDLER_SPAWN_FAILED, if it was not killed before. */
static void become_gone(struct handler_process *p)
{
	enter_phase(p, HANDLER_GONE);
	p->due_ms = INT64_MAX;
	if (!WIFEXITED(p->family.status) || WEXITSTATUS(p->family.status) == HANDLER_SPAWN_FAILED)
		handler_process_learn(p);
}

static void log_processes(struct handler_process *p, enum log_level level, const char *event, size_t n)
{
	const char *id = p->message == NULL ? NULL : message_id(p->message);

	log_event(level, event, log_str("id", id), log_int("processes", (int64_t)n));
}

static void abandon(struct handler_process *p)
{
	log_processes(p, LOG_LEVEL_ERROR, "handler_unkillable", handler_family_abandon(&p->family));
	become_gone(p);
}

/* CONT follows, so that a stopped process gets the TERM, too. */
void handler_process_terminate(struct handler_process *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	enter_phase(p, HANDLER_TERMINATING);
	handler_family_signal(&p->family, SIGTERM);
	handler_family_signal(&p->family, SIGCONT);
	p->due_ms = handler_after(now_ms, p->conf->kill_grace_ms);
}

void handler_process_force(struct handler_process *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	enter_phase(p, HANDLER_KILLING);
	handler_family_signal(&p->family, SIGKILL);
	p->due_ms = handler_after(now_ms, UNKILLABLE_MS);
}

void handler_process_forgive(struct handler_process *p, int64_t ms)
{
	if (p->phase == HANDLER_TERMINATING || p->phase == HANDLER_KILLING)
		p->due_ms = handler_after(p->due_ms, ms);
	if (p->phase == HANDLER_CLEARING)
		p->give_up_ms = handler_after(p->give_up_ms, ms);
}

static void escalate(struct handler_process *p)
{
	if (p->phase == HANDLER_TERMINATING) {
		handler_process_force(p, p->now_ms);
	} else if (p->phase == HANDLER_KILLING) {
		p->duration_ms = p->now_ms - p->started_ms;
		abandon(p);
	}
}

static void leader_ended(struct handler_process *p)
{
	p->duration_ms = p->now_ms - p->started_ms;
	enter_phase(p, HANDLER_CLEARING);
	p->give_up_ms = handler_after(p->now_ms, UNKILLABLE_MS);
	p->look_ms = 1;
}

static void clear_family(struct handler_process *p)
{
	if (handler_family_clear(&p->family)) {
		if (p->family.left > 0)
			log_processes(p, LOG_LEVEL_INFO, "handler_left_processes", p->family.left);
		become_gone(p);
	} else if (p->now_ms >= p->give_up_ms) {
		abandon(p);
	} else {
		p->due_ms = handler_after(p->now_ms, p->look_ms);
		p->look_ms = p->look_ms * 2 > LOOK_MAX_MS ? LOOK_MAX_MS : p->look_ms * 2;
	}
}

void handler_process_tick(struct handler_process *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	if (!is_active(p) && p->family.nabandoned == 0)
		return;
	handler_family_reap(&p->family);
	if (!is_active(p))
		return;
	if (p->phase != HANDLER_CLEARING && p->family.leader == 0)
		leader_ended(p);
	if (p->phase == HANDLER_CLEARING)
		clear_family(p);
	else if (now_ms >= p->due_ms)
		escalate(p);
}

int handler_process_code(const struct handler_process *p)
{
	return p->failure.error == 0 && WIFEXITED(p->family.status) ? WEXITSTATUS(p->family.status) : -1;
}

int handler_process_signal(const struct handler_process *p)
{
	return p->failure.error == 0 && !WIFEXITED(p->family.status) ? WTERMSIG(p->family.status) : 0;
}
