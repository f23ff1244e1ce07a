/*
 * A persistent handler: starts its process, and gives it jobs. The other parts: persistent_answers.c takes its answers,
 * persistent_life.c ends it, persistent_input.c writes frames, lines.c reads lines, reply.c parses them,
 * persistent_window.c keeps the unanswered jobs, and handler/process.c owns the process as in exec mode. The worker
 * decides what happens to a message. A job costs no allocation, no system call of its own, and no reading of a clock.
 */
#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/handler/persistent_state.h"

#include "common/base/base.h"
#include "common/handler/spawn.h"

#define PENDING_LONG (128 * 1024)	/* with so many unwritten bytes, no more jobs are given */

struct persistent *persistent_new(const struct conf_queue *conf)
{
	struct persistent *p = alloc_zero(1, sizeof(*p));

	p->conf = conf;
	p->lines = message_keys_of(conf->ingress, conf->headers);
	handler_env_init(&p->env, conf, environ);
	handler_process_init(&p->process, conf);
	handler_output_init(&p->output, conf->stderr_tail);
	persistent_input_init(&p->input);
	handler_lines_init(&p->replies);
	persistent_window_init(&p->window, conf->window);
	persistent_oldest_began(p);
	return p;
}

void persistent_free(struct persistent *p)
{
	if (p == NULL)
		return;
	if (p->process.phase == HANDLER_RUNNING || p->process.phase == HANDLER_TERMINATING)
		handler_process_force(&p->process, p->now_ms);
	handler_process_free(&p->process);
	handler_env_free(&p->env);
	handler_output_free(&p->output);
	persistent_input_free(&p->input);
	handler_lines_free(&p->replies);
	persistent_window_free(&p->window);
	persistent_answers_free(p);
	free(p);
}

/* ---- state and time ---- */

void persistent_enter(struct persistent *p, enum persistent_state state)
{
	assert(state == (p->state + 1) % (FINISHED + 1));
	p->state = state;
}

void persistent_turn(struct persistent *p, int64_t now_ms)
{
	p->now_ms = now_ms;
}

/* ---- start ---- */

struct pipes {
	int in[2], out[2], err[2], reply[2];	/* reply: only with reply_fd */
};

static void close_pipes(struct pipes *pipes)
{
	handler_pipe_close(pipes->in);
	handler_pipe_close(pipes->out);
	handler_pipe_close(pipes->err);
	handler_pipe_close(pipes->reply);
}

static int open_pipes(const struct persistent *p, struct pipes *pipes)
{
	*pipes = (struct pipes){ { -1, -1 }, { -1, -1 }, { -1, -1 }, { -1, -1 } };
	if (handler_pipe_open(pipes->in, 1) == 0 && handler_pipe_open(pipes->out, 0) == 0 &&
	    handler_pipe_open(pipes->err, 0) == 0 &&
	    (!handler_has_reply_fd(p->conf) || handler_reply_pipe_open(pipes->reply) == 0))
		return 0;
	close_pipes(pipes);
	return -1;
}

static int taken(int *fd)
{
	int mine = *fd;

	*fd = -1;
	return mine;
}

static void begin_process(struct persistent *p, struct pipes *pipes, int64_t now_ms)
{
	persistent_enter(p, ACTIVE);
	persistent_turn(p, now_ms);
	p->given = 0;
	persistent_window_clear(&p->window);
	persistent_oldest_began(p);
	persistent_answers_begin(p);
	persistent_life_begin(p);
	persistent_input_begin(&p->input, taken(&pipes->in[1]));
	handler_lines_begin(&p->replies, taken(handler_has_reply_fd(p->conf) ? &pipes->reply[0] : &pipes->out[0]));
	handler_output_begin(&p->output, taken(&pipes->out[0]), taken(&pipes->err[0]), NULL, now_ms);
}

int persistent_start(struct persistent *p, const char *incarnation, int64_t now_ms)
{
	struct pipes pipes;
	struct handler_plan plan = {
		.argv = p->conf->handler,
		.envp = handler_env_of_persistent(&p->env, incarnation),
	};

	assert(p->state == IDLE);
	if (handler_process_prepare(&p->process) == -1 || open_pipes(p, &pipes) == -1)
		return -1;
	plan.stdio[0] = pipes.in[0];
	plan.stdio[1] = pipes.out[1];
	plan.stdio[2] = pipes.err[1];
	plan.reply_end = pipes.reply[1];
	if (handler_process_start(&p->process, &plan, now_ms) == -1) {
		close_pipes(&pipes);
		return -1;
	}
	begin_process(p, &pipes, now_ms);
	close_pipes(&pipes);
	handler_process_learn(&p->process);
	return 0;
}

/* ---- capacity ---- */

bool persistent_running(const struct persistent *p)
{
	return p->state != IDLE;
}

bool persistent_loads(const struct persistent *p)
{
	return p->conf->ready && !p->answers.ready;
}

bool persistent_ready(const struct persistent *p)
{
	if (p->state != ACTIVE)
		return false;
	if (p->conf->ready)
		return p->answers.ready && p->process.phase == HANDLER_RUNNING;
	return p->answers.any || p->life.has_read;
}

bool persistent_alive(const struct persistent *p)
{
	return p->state == ACTIVE && p->process.phase == HANDLER_RUNNING && p->process.failure.error == 0 &&
	    !p->life.drained && !p->life.recycled && p->input.fd != -1 && p->replies.fd != -1;
}

int persistent_unanswered(const struct persistent *p)
{
	return p->window.n;
}

bool persistent_fresh(const struct persistent *p)
{
	return p->given == 0;
}

int persistent_room(const struct persistent *p)
{
	int64_t left = p->conf->recycle.jobs < 0 || p->kept ? INT64_MAX : p->conf->recycle.jobs - p->given;
	int room = p->conf->window - p->window.n;

	if (!persistent_alive(p) || persistent_loads(p) || p->input.large != NULL ||
	    persistent_input_pending(&p->input) >= PENDING_LONG)
		return 0;
	return left < room ? (int)left : room;
}

void persistent_keep(struct persistent *p, bool keep)
{
	p->kept = keep;
}

pid_t persistent_pgid(const struct persistent *p)
{
	return p->process.family.leader;
}

int64_t persistent_timeout_at_ms(const struct persistent *p)
{
	return p->oldest.timeout_at_ms;
}

/* ---- jobs ---- */

void persistent_oldest_beats(struct persistent *p)
{
	p->oldest.timeout_at_ms = p->window.n == 0 ? INT64_MAX
	    : handler_after(p->now_ms, persistent_window_at(&p->window, 0)->timeout_ms);
	if (p->window.n > 0 && p->conf->max_duration_ms > 0)
		p->oldest.timeout_at_ms = handler_sooner(p->oldest.timeout_at_ms,
		    handler_after(p->oldest.since_ms + p->oldest.forgiven_ms, p->conf->max_duration_ms));
	if (p->oldest.timeout_at_ms > p->now_ms)	/* beyond max_duration a sign of life gives no further turn */
		p->oldest.reprieved = false;
}

void persistent_oldest_began(struct persistent *p)
{
	p->oldest.since_ms = p->now_ms;
	p->oldest.forgiven_ms = 0;
	p->oldest.forgiven = 0;
	p->oldest.stderr_mark = p->output.stderr_total;
	persistent_oldest_beats(p);
}

void persistent_forgive(struct persistent *p, int64_t ms)
{
	if (p->oldest.forgiven == HANDLER_FORGIVEN_MAX)
		return;
	p->oldest.forgiven++;
	p->oldest.forgiven_ms += ms;
	p->oldest.timeout_at_ms = handler_after(p->oldest.timeout_at_ms, ms);
	p->life.exit_by_ms = handler_after(p->life.exit_by_ms, ms);
	handler_process_forgive(&p->process, ms);
}

bool persistent_oldest_reprieve(struct persistent *p)
{
	if (p->oldest.reprieved)
		return false;
	p->oldest.reprieved = true;
	return true;
}

void persistent_give(struct persistent *p, uint64_t serial, const struct handler_job *job, int64_t now_ms)
{
	uint64_t begin = p->input.total;
	struct token token;

	assert(persistent_room(p) > 0);
	persistent_turn(p, now_ms);
	p->given++;
	token_draw(&p->tokens, &token);
	persistent_input_add(&p->input, &token, job,
	    job->timeout_ms < 0 ? -1 : now_ms + p->life.realtime_ms + job->timeout_ms);
	persistent_window_add(&p->window, &(struct persistent_job){
		.serial = serial,
		.token = token,
		.raw = job->message->raw,
		.raw_len = job->message->raw_len,
		.timeout_ms = job->timeout_ms,
		.given_ms = now_ms,
		.begin = begin,
		.end = p->input.total,
	});
	if (p->window.n == 1)
		persistent_oldest_began(p);
}

void persistent_flush(struct persistent *p)
{
	if (p->process.phase == HANDLER_RUNNING)
		persistent_input_flush(&p->input);
}

bool persistent_unwritten(const struct persistent *p)
{
	return p->process.phase == HANDLER_RUNNING && p->input.fd != -1 && persistent_input_pending(&p->input) > 0;
}

uint64_t persistent_recall(struct persistent *p)
{
	uint64_t written = p->input.total - persistent_input_pending(&p->input), serial;
	int n = p->window.n;

	while (n > 0 && persistent_window_at(&p->window, n - 1)->begin >= written)
		n--;
	if (n == p->window.n)
		return UINT64_MAX;
	serial = persistent_window_at(&p->window, n)->serial;
	persistent_input_recall(&p->input, persistent_window_at(&p->window, n)->begin);
	p->given -= p->window.n - n;
	persistent_answers_hush(p);
	persistent_window_cut(&p->window, n);
	if (n == 0)
		persistent_oldest_began(p);
	return serial;
}
