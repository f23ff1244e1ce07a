/*
 * One run of a handler: start, feed, time, end. The order of the end is what matters here: leader
 * reaped, group killed, adopted killed, and only then outputs drained and the run finished, so
 * that nothing of it is left when the message is settled. What an end means for the message is the
 * worker's; spawning, environment, output and processes have files of their own.
 */
#include <sys/wait.h>

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/clock.h"
#include "common/handler.h"
#include "common/handler_env.h"
#include "common/handler_family.h"
#include "common/handler_input.h"
#include "common/handler_output.h"
#include "common/handler_pipes.h"
#include "common/handler_spawn.h"
#include "common/log.h"
#include "common/nitems.h"

#define UNKILLABLE_MS 10000		/* SIGKILL without effect for so long: given up */
#define LOOK_MAX_MS 50			/* between looks at those that die; SIGCHLD comes sooner */

enum phase {
	IDLE,			/* never started */
	RUNNING,
	TERMINATING,		/* TERM sent */
	KILLING,		/* KILL sent, the leader is not reaped yet */
	CLEARING,		/* the leader is reaped, adopted processes may be left */
	FINISHED
};

struct handler {
	const struct conf_queue *conf;
	char *worker;
	char **argv;
	size_t argc;
	int failure_pipe[2];		/* for every run; -1: not open */
	struct handler_env env;
	struct handler_input input;
	struct handler_output output;
	struct handler_family family;

	/* of the current run */
	enum phase phase;
	const struct handler_job *job;
	pid_t leader;			/* also when it is reaped */
	struct handler_failure failure;
	bool timed_out, stopped, unrepresentable;
	bool collected;			/* FINISHED, and the result was taken */
	int64_t now_ms, started_ms;
	int64_t due_ms;			/* of the next step of this phase; INT64_MAX: none */
	int64_t give_up_ms;		/* CLEARING */
	int64_t look_ms;		/* CLEARING: pause before the next look */
	int64_t duration_ms;
};

struct handler *handler_new(const struct conf_queue *conf, const char *worker_name)
{
	struct handler *h = alloc_zero(1, sizeof(*h));

	h->conf = conf;
	h->worker = alloc_string(worker_name);
	while (conf->handler[h->argc] != NULL)
		h->argc++;
	h->argv = alloc_zero(h->argc + 2, sizeof(*h->argv));
	memcpy(h->argv, conf->handler, h->argc * sizeof(*h->argv));
	h->failure_pipe[0] = h->failure_pipe[1] = -1;
	handler_input_init(&h->input);
	handler_env_init(&h->env, conf, environ);
	handler_output_init(&h->output, conf->name, h->worker, conf->stderr_tail);
	return h;
}

void handler_free(struct handler *h)
{
	if (h == NULL)
		return;
	handler_kill(h);
	handler_fd_close(&h->failure_pipe[0]);
	handler_fd_close(&h->failure_pipe[1]);
	handler_input_free(&h->input);
	handler_env_free(&h->env);
	handler_output_free(&h->output);
	handler_family_free(&h->family);
	free(h->argv);
	free(h->worker);
	free(h);
}

/* ---- start ---- */

static int64_t realtime_deadline_ms(const struct handler_job *job)
{
	return job->timeout_ms == -1 ? -1 : clock_realtime_ms() + job->timeout_ms;
}

static pid_t spawn(struct handler *h, const struct handler_pipes *p)
{
	struct handler_plan plan = {
		.conf = h->conf,
		.argv = h->argv,
		.envp = handler_env_for(&h->env, h->conf->name, h->job, realtime_deadline_ms(h->job)),
		.stdio = { p->in[0] == -1 ? h->input.null_fd : p->in[0], p->out[1], p->err[1] },
		.failure_fd = h->failure_pipe[1],
		.parent = getpid(),
	};

	return handler_spawn(&plan);
}

static int64_t after(int64_t now_ms, int64_t wait_ms)
{
	return wait_ms < 0 || wait_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + wait_ms;
}

/*
 * The child's last words, if it did not get as far as the executable. They are there when vfork
 * returns, or, where that is a fork, when the leader has ended.
 */
static void read_failure(struct handler *h, pid_t leader)
{
	struct handler_failure f;

	while (read(h->failure_pipe[0], &f, sizeof(f)) == sizeof(f))
		if (f.pid == leader && f.stage >= 0 && f.stage < HANDLER_STAGES)
			h->failure = f;
}

static void begin_run(struct handler *h, const struct handler_job *job, int64_t now_ms)
{
	h->phase = IDLE;
	h->collected = false;
	h->job = job;
	h->now_ms = h->started_ms = now_ms;
	h->duration_ms = 0;
	h->failure = (struct handler_failure){0};
	h->timed_out = h->stopped = h->unrepresentable = false;
}

/* Our ends are taken out of p, which then holds the handler's. */
static void take_ends(struct handler *h, struct handler_pipes *p, pid_t leader)
{
	h->leader = leader;
	handler_family_begin(&h->family, leader);
	handler_output_begin(&h->output, p->out[0], p->err[0], h->job->message, h->now_ms);
	p->out[0] = p->err[0] = -1;
	handler_pipes_close(p);
}

static int open_all(struct handler *h, struct handler_pipes *p)
{
	bool with_stdin = h->conf->input == CONF_INPUT_STDIN;

	if (h->failure_pipe[0] == -1 && handler_pipe_open(h->failure_pipe, 0) == -1)
		return -1;
	if (!with_stdin && handler_input_null(&h->input) == -1)
		return -1;
	return handler_pipes_open(p, with_stdin);
}

static int start_process(struct handler *h)
{
	struct handler_pipes p;
	pid_t leader;

	if (open_all(h, &p) == -1)
		return -1;
	handler_input_begin(&h->input, p.in[1], h->job->message);
	p.in[1] = -1;
	leader = spawn(h, &p);
	if (leader == -1) {
		handler_pipes_close(&p);
		handler_input_end(&h->input);
		return -1;
	}
	take_ends(h, &p, leader);
	read_failure(h, leader);
	if (h->failure.error == 0 && handler_limit_late(h->conf, leader) == -1 && errno != ENOENT)
		log_warning("handler_not_limited", log_str("queue", h->conf->name), log_str("worker", h->worker),
		    log_str("limit", "oom_score_adj"), log_str("error", strerror(errno)));
	return 0;
}

/* false: the message cannot be an argument. */
static bool make_argument(struct handler *h)
{
	if (h->conf->input == CONF_INPUT_ARGV)
		h->argv[h->argc] = handler_input_argument(&h->input, h->job->message);
	return h->conf->input != CONF_INPUT_ARGV || h->argv[h->argc] != NULL;
}

int handler_start(struct handler *h, const struct handler_job *job, int64_t now_ms)
{
	begin_run(h, job, now_ms);
	if (!make_argument(h)) {
		handler_output_begin(&h->output, -1, -1, job->message, now_ms);
		h->unrepresentable = true;
		h->phase = FINISHED;
		return 0;
	}
	if (start_process(h) == -1)
		return -1;
	h->phase = RUNNING;
	h->due_ms = after(now_ms, job->timeout_ms);
	return 0;
}

/* ---- descriptors ---- */

pid_t handler_pgid(const struct handler *h)
{
	return h->family.leader;
}

static bool active(const struct handler *h)
{
	return h->phase != IDLE && h->phase != FINISHED;
}

static size_t add_pollfd(struct pollfd *p, size_t n, int fd, short events)
{
	if (fd == -1)
		return n;
	p[n] = (struct pollfd){ .fd = fd, .events = events };
	return n + 1;
}

size_t handler_pollfds(const struct handler *h, struct pollfd *p)
{
	size_t n = 0;

	n = add_pollfd(p, n, h->input.fd, POLLOUT);
	for (size_t i = 0; i < nitems(h->output.streams); i++)
		n = add_pollfd(p, n, h->output.streams[i].fd, POLLIN);
	return n;
}

static void take_event(struct handler *h, int fd)
{
	if (fd == h->input.fd)
		handler_input_feed(&h->input);
	for (size_t i = 0; i < nitems(h->output.streams); i++)
		if (fd == h->output.streams[i].fd)
			handler_output_read(&h->output, &h->output.streams[i]);
}

void handler_io(struct handler *h, const struct pollfd *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (p[i].revents != 0 && p[i].fd != -1)
			take_event(h, p[i].fd);
}

/* ---- end ---- */

int64_t handler_deadline_ms(const struct handler *h)
{
	if (h->phase == FINISHED)
		return h->collected ? INT64_MAX : h->now_ms;
	return h->phase == IDLE ? INT64_MAX : h->due_ms;
}

static void finish(struct handler *h)
{
	read_failure(h, h->leader);
	handler_input_end(&h->input);
	handler_output_end(&h->output);
	h->phase = FINISHED;
}

static void log_processes(const struct handler *h, enum log_level level, const char *event, size_t n)
{
	log_event(level, event, log_str("queue", h->conf->name), log_str("id", message_id(h->job->message)),
	    log_str("worker", h->worker), log_int("processes", (int64_t)n));
}

static void abandon(struct handler *h)
{
	log_processes(h, LOG_LEVEL_ERROR, "handler_unkillable", handler_family_abandon(&h->family));
	finish(h);
}

/* Also a stopped one is to hear of it. */
static void terminate(struct handler *h)
{
	handler_family_signal(&h->family, SIGTERM);
	handler_family_signal(&h->family, SIGCONT);
	h->phase = TERMINATING;
	h->due_ms = after(h->now_ms, h->conf->kill_grace_ms);
}

static void force(struct handler *h)
{
	handler_family_signal(&h->family, SIGKILL);
	h->phase = KILLING;
	h->due_ms = after(h->now_ms, UNKILLABLE_MS);
}

static void escalate(struct handler *h)
{
	if (h->phase == RUNNING) {
		h->timed_out = true;
		terminate(h);
	} else if (h->phase == TERMINATING) {
		force(h);
	} else {
		h->family.status = SIGKILL;
		h->duration_ms = h->now_ms - h->started_ms;
		abandon(h);
	}
}

static void leader_ended(struct handler *h)
{
	h->duration_ms = h->now_ms - h->started_ms;
	h->phase = CLEARING;
	h->give_up_ms = after(h->now_ms, UNKILLABLE_MS);
	h->look_ms = 1;
}

static void clear(struct handler *h)
{
	if (handler_family_clear(&h->family)) {
		if (h->family.left > 0)
			log_processes(h, LOG_LEVEL_INFO, "handler_left_processes", h->family.left);
		finish(h);
	} else if (h->now_ms >= h->give_up_ms) {
		abandon(h);
	} else {
		h->due_ms = after(h->now_ms, h->look_ms);
		h->look_ms = h->look_ms * 2 > LOOK_MAX_MS ? LOOK_MAX_MS : h->look_ms * 2;
	}
}

void handler_tick(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	if (!active(h) && h->family.nabandoned == 0)
		return;
	handler_family_reap(&h->family);
	if (!active(h))
		return;
	handler_output_credit(&h->output, now_ms);
	if (h->phase != CLEARING && h->family.leader == 0)
		leader_ended(h);
	if (h->phase == CLEARING)
		clear(h);
	else if (now_ms >= h->due_ms)
		escalate(h);
}

void handler_stop(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	if (h->phase != RUNNING)
		return;
	h->stopped = true;
	terminate(h);
}

void handler_kill(struct handler *h)
{
	if (h->phase != RUNNING && h->phase != TERMINATING)
		return;
	h->stopped = !h->timed_out;
	force(h);
}

static enum handler_end end_of(const struct handler *h, bool exited, int code)
{
	if (h->unrepresentable)
		return HANDLER_UNREPRESENTABLE;
	if (h->failure.error != 0)
		return HANDLER_UNRUNNABLE;
	if (h->timed_out)
		return HANDLER_TIMED_OUT;
	if (h->stopped && !(exited && h->conf->exit_codes[code] == CONF_OUTCOME_DONE))
		return HANDLER_STOPPED;
	return exited ? HANDLER_EXITED : HANDLER_SIGNALED;
}

bool handler_finished(struct handler *h, struct handler_result *result)
{
	bool ran = !h->unrepresentable && h->failure.error == 0;
	bool exited = ran && WIFEXITED(h->family.status);
	int code = exited ? WEXITSTATUS(h->family.status) : -1;

	if (h->phase != FINISHED)
		return false;
	*result = (struct handler_result){
		.end = end_of(h, exited, code),
		.code = code,
		.signal = ran && !exited ? WTERMSIG(h->family.status) : 0,
		.error = h->failure.error,
		.stage = h->failure.error == 0 ? NULL : handler_stage_names[h->failure.stage],
		.duration_ms = h->duration_ms,
		.exit_after_stop = h->stopped && exited,
	};
	h->collected = true;
	result->stderr_tail = handler_output_tail(&h->output, &result->stderr_len);
	return true;
}
