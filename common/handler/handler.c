/*
 * One run of an exec handler: start, input, timeout, end. The run is finished when no process of it is left and its
 * outputs are drained. handler/process.c owns the process; env.c, input.c and output.c have the environment, input and
 * output. The worker decides what an end means for the message. The output pipes serve every run.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/handler/env.h"
#include "common/handler/handler.h"
#include "common/handler/input.h"
#include "common/handler/output.h"
#include "common/handler/replies.h"
#include "common/handler/spawn.h"
#include "common/handler/process.h"

#define ARGUMENT_SHORT 4096	/* bytes: a message up to this length is never taken for the cause of E2BIG */

struct handler {
	const struct conf_queue *conf;
	char **argv;
	size_t argc;
	struct handler_env env;
	struct handler_input input;
	struct handler_output output;
	struct handler_replies replies;
	int out[2], err[2];		/* -1: not open */
	struct handler_process process;

	/* state of the current run */
	enum { IDLE, ACTIVE, FINISHED } state;
	const struct handler_job *job;
	bool timed_out, cancelled, stopped, unrepresentable;
	const char *limit;		/* NULL: it has not timed out */
	bool collected;			/* FINISHED, and the result was taken */
	int64_t now_ms;
	int64_t timeout_at_ms;		/* INT64_MAX: never */
	int64_t forgiven_ms;		/* of this run: handler_forgive() */
	int forgiven;			/* so often; 0 to HANDLER_FORGIVEN_MAX */
};

struct handler *handler_new(const struct conf_queue *conf)
{
	struct handler *h = alloc_zero(1, sizeof(*h));

	h->conf = conf;
	while (conf->handler[h->argc] != NULL)
		h->argc++;
	h->argv = alloc_zero(h->argc + 2, sizeof(*h->argv));
	memcpy(h->argv, conf->handler, h->argc * sizeof(*h->argv));
	h->out[0] = h->out[1] = h->err[0] = h->err[1] = -1;
	handler_process_init(&h->process, conf);
	handler_input_init(&h->input);
	handler_env_init(&h->env, conf, environ);
	handler_output_init(&h->output, conf->stderr_tail);
	handler_output_lend(&h->output);
	handler_replies_init(&h->replies, conf);
	return h;
}

static void close_outputs(struct handler *h)
{
	handler_pipe_close(h->out);
	handler_pipe_close(h->err);
}

void handler_free(struct handler *h)
{
	if (h == NULL)
		return;
	handler_kill(h);
	handler_process_free(&h->process);
	handler_input_free(&h->input);
	handler_env_free(&h->env);
	handler_output_free(&h->output);
	handler_replies_free(&h->replies);
	close_outputs(h);
	free(h->argv);
	free(h);
}

/* ---- start ---- */

static int64_t realtime_deadline_ms(const struct handler_job *job)
{
	return job->timeout_ms == -1 ? -1 : clock_realtime_ms() + job->timeout_ms;
}

/* Restores the flags that a new pipe has. The last run may have changed them: libuv, for one, makes its outputs
 * non-blocking. */
static int output_pipe(int pair[2])
{
	if (pair[0] == -1)
		return handler_pipe_open(pair, 0);
	return fcntl(pair[1], F_SETFL, 0);
}

/* If an empty pipe takes the whole payload, the pipe need not be non-blocking. */
static int input_pipe(struct handler *h, int pair[2])
{
	if (h->conf->input == CONF_INPUT_ARGV)
		return handler_input_null(&h->input);
	return handler_pipe_open(pair, message_payload_len(h->job->message) > PIPE_BUF ? 1 : -1);
}

static int spawn(struct handler *h, const int in[2], int reply_end)
{
	struct handler_plan plan = {
		.argv = h->argv,
		.envp = handler_env_for(&h->env, h->job, realtime_deadline_ms(h->job)),
		.stdio = { in[0] == -1 ? h->input.null_fd : in[0], h->out[1], h->err[1] },
		.reply_end = reply_end,
	};

	return handler_process_start(&h->process, &plan, h->now_ms);
}

static int start_process(struct handler *h)
{
	int in[2] = { -1, -1 }, reply[2] = { -1, -1 }, result = -1;

	if (handler_process_prepare(&h->process) == -1 || output_pipe(h->out) == -1 || output_pipe(h->err) == -1 ||
	    input_pipe(h, in) == -1 || (handler_has_reply_fd(h->conf) && handler_reply_pipe_open(reply) == -1))
		goto out;
	if (in[1] != -1)
		handler_input_begin(&h->input, in[1], h->job->message);
	in[1] = -1;
	result = spawn(h, in, reply[1]);
	if (result == -1) {
		handler_input_end(&h->input);
	} else {
		handler_output_begin(&h->output, h->out[0], h->err[0], h->job->message, h->now_ms);
		handler_replies_begin(&h->replies, reply[0]);
		reply[0] = -1;
	}
out:
	handler_pipe_close(in);
	handler_pipe_close(reply);
	return result;
}

/* false: the message cannot be an argument. */
static bool make_argument(struct handler *h)
{
	if (h->conf->input == CONF_INPUT_ARGV)
		h->argv[h->argc] = handler_input_argument(&h->input, h->job->message);
	return h->conf->input != CONF_INPUT_ARGV || h->argv[h->argc] != NULL;
}

static void begin_run(struct handler *h, const struct handler_job *job, int64_t now_ms)
{
	h->state = IDLE;
	h->collected = false;
	h->job = job;
	handler_process_show(&h->process, job->message);
	h->now_ms = now_ms;
	h->timeout_at_ms = handler_after(now_ms, job->timeout_ms);
	h->timed_out = h->cancelled = h->stopped = h->unrepresentable = false;
	h->forgiven_ms = 0;
	h->forgiven = 0;
	h->limit = NULL;
}

int handler_start(struct handler *h, const struct handler_job *job, int64_t now_ms)
{
	begin_run(h, job, now_ms);
	if (!make_argument(h)) {
		handler_output_begin(&h->output, -1, -1, job->message, now_ms);
		h->unrepresentable = true;
		h->state = FINISHED;
		return 0;
	}
	if (start_process(h) == -1)
		return -1;
	h->state = ACTIVE;
	return 0;
}

/* ---- descriptors ---- */

pid_t handler_pgid(const struct handler *h)
{
	return h->process.family.leader;
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
	return add_pollfd(p, n, h->replies.lines.fd, POLLIN);
}

static void take_event(struct handler *h, int fd)
{
	if (fd == h->input.fd)
		handler_input_feed(&h->input);
	if (fd == h->replies.lines.fd)
		handler_replies_read(&h->replies, &h->output);
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
	if (h->state == FINISHED)
		return h->collected ? INT64_MAX : h->now_ms;
	if (h->state == IDLE)
		return INT64_MAX;
	return h->process.phase == HANDLER_RUNNING ? h->timeout_at_ms : h->process.due_ms;
}

int64_t handler_timeout_at_ms(const struct handler *h)
{
	return h->timeout_at_ms;
}

const struct handler_reply *handler_progress(struct handler *h)
{
	return handler_replies_progress(&h->replies);
}

/* A process that was given up may still hold the outputs: the next run gets new ones. */
static void finish_run(struct handler *h)
{
	handler_input_end(&h->input);
	handler_replies_end(&h->replies, &h->output);
	handler_output_end(&h->output);
	if (h->process.family.nabandoned > 0)
		close_outputs(h);
	h->state = FINISHED;
}

/* With max_duration, timeout is the time between signs of life. */
static void extend_timeout(struct handler *h)
{
	if (h->conf->max_duration_ms > 0)
		h->timeout_at_ms = handler_sooner(handler_after(h->now_ms, h->job->timeout_ms),
		    handler_after(h->process.started_ms + h->forgiven_ms, h->conf->max_duration_ms));
}

void handler_forgive(struct handler *h, int64_t ms)
{
	if (h->state != ACTIVE || h->forgiven == HANDLER_FORGIVEN_MAX)
		return;
	h->forgiven++;
	h->forgiven_ms += ms;
	h->timeout_at_ms = handler_after(h->timeout_at_ms, ms);
	handler_process_forgive(&h->process, ms);
}

void handler_tick(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	handler_process_tick(&h->process, now_ms);
	if (h->state != ACTIVE)
		return;
	handler_output_credit(&h->output, now_ms);
	if (handler_replies_alive(&h->replies))
		extend_timeout(h);
	if (h->process.phase == HANDLER_GONE) {
		finish_run(h);
	} else if (h->process.phase == HANDLER_RUNNING && now_ms >= h->timeout_at_ms) {
		h->timed_out = true;
		h->limit = handler_limit_text(h->conf, h->process.started_ms + h->forgiven_ms, h->timeout_at_ms);
		handler_process_terminate(&h->process, now_ms);
	}
}

void handler_stop(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	if (h->state != ACTIVE || h->process.phase != HANDLER_RUNNING)
		return;
	h->stopped = true;
	handler_process_terminate(&h->process, now_ms);
}

void handler_cancel(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	if (h->state != ACTIVE || h->process.phase != HANDLER_RUNNING)
		return;
	h->cancelled = true;
	handler_process_terminate(&h->process, now_ms);
}

void handler_kill(struct handler *h)
{
	if (h->process.phase != HANDLER_RUNNING && h->process.phase != HANDLER_TERMINATING)
		return;
	h->stopped = !h->timed_out && !h->cancelled;
	handler_process_force(&h->process, h->now_ms);
}

/*
 * E2BIG has two causes. A long argument: the message. Otherwise the handler's own arguments and environment, which no
 * message can help: then the breaker opens.
 */
static bool message_is_too_long(const struct handler *h)
{
	return h->conf->input == CONF_INPUT_ARGV && h->process.failure.error == E2BIG &&
	    message_payload_len(h->job->message) > ARGUMENT_SHORT;
}

static enum handler_end end_of(const struct handler *h, int code)
{
	if (h->unrepresentable || message_is_too_long(h))
		return HANDLER_UNREPRESENTABLE;
	if (h->process.failure.error != 0)
		return HANDLER_UNRUNNABLE;
	if (h->timed_out)
		return HANDLER_TIMED_OUT;
	if (h->cancelled)
		return HANDLER_CANCELLED;
	if (h->stopped && !(code != -1 && h->conf->exit_codes[code] == CONF_OUTCOME_DONE &&
	    handler_replies_verdict(&h->replies) == NULL))
		return HANDLER_STOPPED;
	return code != -1 ? HANDLER_EXITED : HANDLER_SIGNALED;
}

bool handler_finished(struct handler *h, struct handler_result *result)
{
	const struct handler_process *p = &h->process;
	bool ran = !h->unrepresentable;
	const struct handler_reply *verdict = ran ? handler_replies_verdict(&h->replies) : NULL;
	int code = ran ? handler_process_code(p) : -1;

	if (h->state != FINISHED)
		return false;
	*result = (struct handler_result){
		.end = end_of(h, code),
		.code = code,
		.signal = ran ? handler_process_signal(p) : 0,
		.limit = h->limit,
		.error = ran ? p->failure.error : 0,
		.stage = ran && p->failure.error != 0 ? handler_stage_names[p->failure.stage] : NULL,
		.duration_ms = ran ? p->duration_ms : 0,
		.exit_after_stop = h->stopped && code != -1 && verdict == NULL,
		.verdict = verdict,
		.emitted = h->replies.emitted,
	};
	h->collected = true;
	result->stderr_tail = handler_output_tail(&h->output, &result->stderr_len);
	return true;
}
