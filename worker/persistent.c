/*
 * A handler that stays: jobs in, answers out, and an end. What becomes of a message is the worker's; the
 * frames are persistent_input.c's, lines and their meaning persistent_lines.c's and persistent_reply.c's,
 * what is unanswered persistent_window.c's, and the process the same as in exec mode (handler_process.c).
 * Per job there is no allocation, no system call of its own, and no look at a clock.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/persistent.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/handler_env.h"
#include "common/handler_output.h"
#include "common/handler_pipes.h"
#include "common/handler_process.h"
#include "common/log.h"
#include "common/nitems.h"
#include "worker/persistent_input.h"
#include "worker/persistent_lines.h"
#include "worker/persistent_window.h"

#define PENDING_LONG (128 * 1024)	/* so many unwritten bytes: no more jobs */
#define LOOK_MS 1000			/* between looks at memory and the clocks */
#define REAP_MS 100			/* a busy handler is asked after its death no more often */
#define EXIT_MS 100			/* what an end takes, even where kill_grace is less */

struct persistent {
	const struct conf_queue *conf;
	char *worker;
	struct handler_env env;
	struct handler_process process;
	struct handler_output output;		/* stdout only with reply_fd; else what is no reply is handed to it */
	struct persistent_input input;
	struct persistent_lines replies;
	struct persistent_window window;
	struct message shown;			/* the oldest unanswered, for the log */
	uint64_t shown_serial;			/* UINT64_MAX: none is parsed */

	/* of the current process */
	enum { IDLE, ACTIVE, LAST_WORDS, FINISHED } state;	/* LAST_WORDS: nothing of it is left but answers in the pipe */
	bool drained, recycled;			/* told to go */
	bool timed_out, stopped, desync;
	bool reprieved;				/* past the deadline, but an answer may be in the pipe */
	bool dropping;				/* the rest of an answer too long */
	bool answered_any;
	bool quiet;				/* a poll found nothing: a signal may have ended it */
	uint64_t timed_out_serial;
	int64_t given;				/* jobs */
	int64_t now_ms;
	int64_t oldest_since_ms;
	int64_t timeout_at_ms;			/* of the oldest; INT64_MAX: none, or never */
	int64_t exit_by_ms;			/* else it is told to; INT64_MAX: may stay */
	int64_t looked_ms, reaped_ms;
	int64_t looked_given;			/* `given` at that look */
	int64_t realtime_ms;			/* CLOCK_REALTIME less CLOCK_MONOTONIC */
	uint64_t stderr_mark;			/* what stderr had said when the oldest became that, or a little before */
	uint64_t stderr_before;			/* before the last io */
};

struct persistent *persistent_new(const struct conf_queue *conf, const char *worker_name)
{
	struct persistent *p = alloc_zero(1, sizeof(*p));

	p->conf = conf;
	p->worker = alloc_string(worker_name);
	handler_env_init(&p->env, conf, environ);
	handler_process_init(&p->process, conf, p->worker);
	handler_output_init(&p->output, conf->name, p->worker, conf->stderr_tail);
	persistent_input_init(&p->input);
	persistent_lines_init(&p->replies);
	persistent_window_init(&p->window, conf->window);
	p->timeout_at_ms = p->exit_by_ms = INT64_MAX;
	return p;
}

void persistent_free(struct persistent *p)
{
	if (p == NULL)
		return;
	if (p->process.phase == HANDLER_RUNNING || p->process.phase == HANDLER_TERMINATING)
		handler_process_force(&p->process);
	handler_process_free(&p->process);
	handler_env_free(&p->env);
	handler_output_free(&p->output);
	persistent_input_free(&p->input);
	persistent_lines_free(&p->replies);
	persistent_window_free(&p->window);
	free(p->worker);
	free(p);
}

/* ---- start ---- */

struct pipes {
	int in[2], out[2], err[2], reply[2];	/* reply: only with reply_fd */
};

static bool has_reply_fd(const struct persistent *p)
{
	return p->conf->reply_fd > STDERR_FILENO;
}

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
	if (handler_pipe_open(pipes->in, 1) == 0 && handler_pipe_open(pipes->out, 0) == 0 && handler_pipe_open(pipes->err, 0) == 0 &&
	    (!has_reply_fd(p) || (handler_pipe_open(pipes->reply, 0) == 0 && handler_fd_move(&pipes->reply[1], HANDLER_FD_SAFE) == 0)))
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

static void begin(struct persistent *p, struct pipes *pipes, int64_t now_ms)
{
	p->state = ACTIVE;
	p->drained = p->recycled = p->timed_out = p->stopped = p->desync = p->dropping = p->answered_any = p->quiet = false;
	p->given = p->looked_given = 0;
	p->shown_serial = UINT64_MAX;
	p->now_ms = p->looked_ms = p->reaped_ms = p->oldest_since_ms = now_ms;
	p->timeout_at_ms = p->exit_by_ms = INT64_MAX;
	p->realtime_ms = clock_realtime_ms() - now_ms;
	p->stderr_mark = p->stderr_before = p->output.stderr_total;
	persistent_window_clear(&p->window);
	persistent_input_begin(&p->input, taken(&pipes->in[1]));
	persistent_lines_begin(&p->replies, taken(has_reply_fd(p) ? &pipes->reply[0] : &pipes->out[0]));
	handler_output_begin(&p->output, taken(&pipes->out[0]), taken(&pipes->err[0]), NULL, now_ms);
}

int persistent_start(struct persistent *p, const char *incarnation, int64_t now_ms)
{
	struct pipes pipes;
	struct handler_plan plan = {
		.argv = p->conf->handler,
		.envp = handler_env_of_persistent(&p->env, p->conf, incarnation),
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
	begin(p, &pipes, now_ms);
	close_pipes(&pipes);
	handler_process_learn(&p->process);
	return 0;
}

/* ---- what it can take ---- */

bool persistent_running(const struct persistent *p)
{
	return p->state != IDLE;
}

bool persistent_alive(const struct persistent *p)
{
	return p->state == ACTIVE && p->process.phase == HANDLER_RUNNING && p->process.failure.error == 0 && !p->drained &&
	    !p->recycled && p->input.fd != -1 && p->replies.fd != -1;
}

int persistent_unanswered(const struct persistent *p)
{
	return p->window.n;
}

int persistent_room(const struct persistent *p)
{
	int64_t left = p->conf->recycle.jobs < 0 ? INT64_MAX : p->conf->recycle.jobs - p->given;
	int room = p->conf->window - p->window.n;

	if (!persistent_alive(p) || p->input.large != NULL || persistent_input_pending(&p->input) >= PENDING_LONG)
		return 0;
	return left < room ? (int)left : room;
}

/* ---- jobs ---- */

/* Its time counts from now. Of one that was there before, stderr may have spoken in this turn already. */
static void oldest_began(struct persistent *p, uint64_t stderr_mark)
{
	p->oldest_since_ms = p->now_ms;
	p->stderr_mark = stderr_mark;
	p->reprieved = false;
	p->timeout_at_ms = p->window.n == 0 ? INT64_MAX :
	    handler_after(p->now_ms, persistent_window_at(&p->window, 0)->timeout_ms);
}

void persistent_give(struct persistent *p, uint64_t serial, const struct handler_job *job, int64_t now_ms)
{
	uint64_t begin = p->input.total;

	assert(persistent_room(p) > 0);
	p->now_ms = now_ms;
	p->given++;
	persistent_input_add(&p->input, serial, job, job->timeout_ms < 0 ? -1 : now_ms + p->realtime_ms + job->timeout_ms);
	persistent_window_add(&p->window, &(struct persistent_job){
		.serial = serial,
		.raw = job->message->raw,
		.raw_len = job->message->raw_len,
		.timeout_ms = job->timeout_ms,
		.given_ms = now_ms,
		.begin = begin,
		.end = p->input.total,
	});
	if (p->window.n == 1)
		oldest_began(p, p->output.stderr_total);
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
	persistent_window_cut(&p->window, n);
	if (n == 0)
		oldest_began(p, p->output.stderr_total);
	return serial;
}

/* Whatever is logged now is about the oldest one. */
static void show_oldest(struct persistent *p)
{
	const struct persistent_job *oldest = p->window.n == 0 ? NULL : persistent_window_at(&p->window, 0);

	p->output.message = p->process.message = oldest == NULL ? NULL : &p->shown;
	if (oldest == NULL || oldest->serial == p->shown_serial)
		return;
	message_parse(&p->shown, oldest->raw, oldest->raw_len);
	p->shown_serial = oldest->serial;
}

/* ---- descriptors ---- */

static size_t add_pollfd(struct pollfd *fds, size_t n, int fd, short events)
{
	if (fd == -1)
		return n;
	fds[n] = (struct pollfd){ .fd = fd, .events = events };
	return n + 1;
}

/* stdin without an event: to hear that it was closed. stderr first, so that what it said of a job is there before the answer. */
size_t persistent_pollfds(const struct persistent *p, struct pollfd *fds)
{
	size_t n = 0;

	for (size_t i = nitems(p->output.streams); i-- > 0;)
		n = add_pollfd(fds, n, p->output.streams[i].fd, POLLIN);
	if (persistent_lines_room(&p->replies))
		n = add_pollfd(fds, n, p->replies.fd, POLLIN);
	if (p->process.phase == HANDLER_RUNNING)
		n = add_pollfd(fds, n, p->input.fd, persistent_input_pending(&p->input) > 0 ? POLLOUT : 0);
	return n;
}

static void take_event(struct persistent *p, const struct pollfd *event)
{
	if (event->fd == p->replies.fd) {
		persistent_lines_read(&p->replies);
	} else if (event->fd == p->input.fd) {
		if ((event->revents & POLLERR) != 0)
			persistent_input_close(&p->input, false);
		persistent_input_flush(&p->input);
	} else {
		show_oldest(p);
		for (size_t i = 0; i < nitems(p->output.streams); i++)
			if (event->fd == p->output.streams[i].fd)
				handler_output_read(&p->output, &p->output.streams[i]);
	}
}

void persistent_io(struct persistent *p, const struct pollfd *fds, size_t n, int64_t now_ms)
{
	p->now_ms = now_ms;
	p->stderr_before = p->output.stderr_total;
	for (size_t i = 0; i < n; i++) {
		if (fds[i].revents == 0 || fds[i].fd == -1)
			continue;
		take_event(p, &fds[i]);
	}
}

void persistent_quiet(struct persistent *p)
{
	p->quiet = true;
}

bool persistent_read(struct persistent *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	p->stderr_before = p->output.stderr_total;
	return persistent_lines_read(&p->replies);
}

/* ---- answers ---- */

/* It can be trusted with nothing any more. */
static void lose_step(struct persistent *p, const char *why, const char *line, size_t len)
{
	show_oldest(p);
	log_error("handler_desync", log_str("queue", p->conf->name), log_str("worker", p->worker), log_str("error", why),
	    log_bytes("line", line, len));
	p->desync = true;
	if (p->process.phase == HANDLER_RUNNING)
		handler_process_terminate(&p->process, p->now_ms);
}

static void heard(struct persistent *p, uint64_t serial)
{
	if (p->window.n > 0 && persistent_window_at(&p->window, 0)->serial == serial && !p->timed_out) {
		p->reprieved = false;
		p->timeout_at_ms = handler_after(p->now_ms, persistent_window_at(&p->window, 0)->timeout_ms);
	}
}

static void fill_in(struct persistent *p, int i, struct persistent_reply *r)
{
	r->duration_ms = p->now_ms - (i == 0 ? p->oldest_since_ms : persistent_window_at(&p->window, i)->given_ms);
	r->stderr_tail = NULL;
	r->stderr_len = 0;
	if (r->verdict == PERSISTENT_OK)
		return;
	show_oldest(p);
	if (p->output.streams[HANDLER_STREAM_STDERR].fd != -1)
		handler_output_read(&p->output, &p->output.streams[HANDLER_STREAM_STDERR]);
	r->stderr_tail = handler_output_tail_since(&p->output, p->stderr_mark, &r->stderr_len);
}

/* True: it is for the caller. A BEAT that comes late is no harm: a thread of its own may send it. */
static bool take_reply(struct persistent *p, struct persistent_reply *r, const char *line, size_t len)
{
	int i;

	if (p->desync)
		return false;
	if (r->verdict == PERSISTENT_BEAT) {
		heard(p, r->serial);
		return false;
	}
	i = persistent_window_find(&p->window, r->serial);
	if (i == -1) {
		lose_step(p, "an answer to a job that is not outstanding", line, len);
		return false;
	}
	if (p->timed_out && r->serial == p->timed_out_serial)
		return false;		/* too late */
	fill_in(p, i, r);
	persistent_window_remove(&p->window, i);
	p->answered_any = true;
	if (i == 0)
		oldest_began(p, p->window.n == 0 ? p->output.stderr_total : p->stderr_before);
	return true;
}

static void take_output(struct persistent *p, const char *data, size_t len)
{
	show_oldest(p);
	handler_output_take(&p->output, &p->output.streams[has_reply_fd(p) ? HANDLER_STREAM_REPLY : HANDLER_STREAM_STDOUT], data, len);
}

static bool take_line(struct persistent *p, enum persistent_line kind, const char *line, size_t len, struct persistent_reply *out)
{
	bool first = kind == PERSISTENT_LINE_WHOLE || kind == PERSISTENT_LINE_BEGIN;
	bool newline = kind == PERSISTENT_LINE_WHOLE || kind == PERSISTENT_LINE_END;

	if (first && persistent_reply_parse(out, line, len)) {
		p->dropping = !newline;
		return take_reply(p, out, line, len);
	}
	if (first)
		p->dropping = false;
	if (!p->dropping)
		take_output(p, line, len + newline);
	return false;
}

static void finish(struct persistent *p)
{
	const char *rest;
	size_t len = persistent_lines_rest(&p->replies, &rest);

	if (len > 0 && !p->dropping)
		take_output(p, rest, len);
	show_oldest(p);
	handler_output_end(&p->output);
	persistent_lines_close(&p->replies);
	p->state = FINISHED;
}

bool persistent_reply(struct persistent *p, struct persistent_reply *out)
{
	enum persistent_line kind;
	const char *line;
	size_t len;

	do {
		while ((kind = persistent_lines_next(&p->replies, &line, &len)) != PERSISTENT_LINE_NONE)
			if (take_line(p, kind, line, len, out))
				return true;
	} while (p->state == LAST_WORDS && persistent_lines_read(&p->replies));
	if (p->state == LAST_WORDS)
		finish(p);
	return false;
}

/* ---- time ---- */

static void terminate(struct persistent *p)
{
	handler_process_terminate(&p->process, p->now_ms);
}

/* Resident memory of the leader; -1: not to be seen. */
static int64_t resident_bytes(pid_t pid)
{
	char path[64], text[128];
	long long pages = -1;
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd == -1)
		return -1;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return sscanf(text, "%*d %lld", &pages) == 1 ? pages * sysconf(_SC_PAGESIZE) : -1;
}

/* Why it is to be replaced; NULL: it is not. */
static const char *worn_out(struct persistent *p)
{
	if (p->conf->recycle.jobs >= 0 && p->given >= p->conf->recycle.jobs)
		return "jobs";
	if (p->conf->recycle.age_ms >= 0 && p->now_ms - p->process.started_ms >= p->conf->recycle.age_ms)
		return "age";
	if (p->now_ms - p->looked_ms < LOOK_MS)
		return NULL;
	p->looked_ms = p->now_ms;
	p->realtime_ms = clock_realtime_ms() - p->now_ms;
	if (p->conf->recycle.rss < 0 || p->given == p->looked_given)
		return NULL;
	p->looked_given = p->given;
	return resident_bytes(p->process.leader) >= p->conf->recycle.rss ? "rss" : NULL;
}

static void recycle(struct persistent *p)
{
	const char *why = p->recycled || p->drained ? NULL : worn_out(p);

	if (why == NULL)
		return;
	log_info("handler_recycled", log_str("queue", p->conf->name), log_str("worker", p->worker), log_str("reason", why),
	    log_int("jobs", p->given));
	p->recycled = true;
}

/* Told to go it gets EOF: when it has all its jobs, or, to be replaced, when it has done them. */
static void close_stdin(struct persistent *p)
{
	if ((p->drained && persistent_input_pending(&p->input) == 0) || (p->recycled && p->window.n == 0))
		persistent_input_close(&p->input, true);
}

/* Nothing more is to come of it: it has answered all that it read and can read no more, or can answer no more. */
static bool is_over(const struct persistent *p)
{
	if (p->replies.fd == -1)
		return true;
	return p->input.fd == -1 && (p->window.n == 0 || persistent_window_at(&p->window, 0)->end > p->input.taken);
}

static void await_exit(struct persistent *p)
{
	int64_t grace = p->conf->kill_grace_ms;

	if (p->exit_by_ms == INT64_MAX)
		p->exit_by_ms = handler_after(p->now_ms, grace >= 0 && grace < EXIT_MS ? EXIT_MS : grace);
	if (p->now_ms < p->exit_by_ms)
		return;
	if (p->window.n > 0)
		lose_step(p, "it closed its end while jobs were unanswered, and stayed", NULL, 0);
	else
		terminate(p);
}

/* One turn more, in case the answer came while we were not looking. */
static void time_out(struct persistent *p)
{
	if (!p->reprieved) {
		p->reprieved = true;
		return;
	}
	p->timed_out = true;
	p->timed_out_serial = persistent_window_at(&p->window, 0)->serial;
	terminate(p);
}

static void serve(struct persistent *p)
{
	recycle(p);
	close_stdin(p);
	if (is_over(p))
		await_exit(p);
	else if (p->now_ms >= p->timeout_at_ms)
		time_out(p);
}

/* SIGCHLD stays pending until a poll finds nothing else: to ask after each event would be a call a message for nothing. */
static bool reaping_is_due(struct persistent *p)
{
	bool due = p->quiet || p->process.phase != HANDLER_RUNNING || p->replies.fd == -1 || p->input.fd == -1 ||
	    p->now_ms - p->reaped_ms >= REAP_MS;

	p->quiet = false;
	if (due)
		p->reaped_ms = p->now_ms;
	return due;
}

void persistent_tick(struct persistent *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	if (reaping_is_due(p)) {
		show_oldest(p);
		handler_process_tick(&p->process, now_ms);
	}
	if (p->state != ACTIVE)
		return;
	handler_output_credit(&p->output, now_ms);
	if (p->process.phase == HANDLER_GONE) {
		persistent_input_close(&p->input, false);
		p->state = LAST_WORDS;
	} else if (p->process.phase == HANDLER_RUNNING) {
		serve(p);
	}
}

void persistent_drain(struct persistent *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	if (p->state != ACTIVE || p->process.phase != HANDLER_RUNNING)
		return;
	p->drained = true;
	close_stdin(p);
}

void persistent_stop(struct persistent *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	if (p->state != ACTIVE || p->process.phase != HANDLER_RUNNING)
		return;
	p->stopped = true;
	terminate(p);
}

void persistent_kill(struct persistent *p)
{
	if (p->process.phase != HANDLER_RUNNING && p->process.phase != HANDLER_TERMINATING)
		return;
	p->stopped = !p->timed_out && !p->desync;
	p->process.now_ms = p->now_ms;
	handler_process_force(&p->process);
}

pid_t persistent_pgid(const struct persistent *p)
{
	return p->process.family.leader;
}

int64_t persistent_timeout_at_ms(const struct persistent *p)
{
	return p->timeout_at_ms;
}

static int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int64_t persistent_deadline_ms(const struct persistent *p)
{
	int64_t at;

	if (p->state == LAST_WORDS || p->state == FINISHED)
		return p->now_ms;
	if (p->state == IDLE || p->process.phase != HANDLER_RUNNING)
		return p->process.due_ms;
	at = is_over(p) ? least(p->exit_by_ms, p->now_ms + EXIT_MS) : p->timeout_at_ms;
	if (p->conf->recycle.age_ms >= 0 && !p->recycled && !p->drained)
		at = least(at, handler_after(p->process.started_ms, p->conf->recycle.age_ms));
	return at;
}

/* ---- end ---- */

static enum persistent_how how_of(const struct persistent *p)
{
	if (p->process.failure.error != 0)
		return PERSISTENT_UNRUNNABLE;
	if (p->desync)
		return PERSISTENT_DESYNC;
	if (p->timed_out)
		return PERSISTENT_TIMED_OUT;
	if (p->stopped)
		return PERSISTENT_STOPPED;
	return handler_process_code(&p->process) != -1 ? PERSISTENT_EXITED : PERSISTENT_SIGNALED;
}

static uint64_t unread_from(const struct persistent *p)
{
	for (int i = 0; i < p->window.n; i++)
		if (persistent_window_at(&p->window, i)->begin >= p->input.taken)
			return persistent_window_at(&p->window, i)->serial;
	return UINT64_MAX;
}

bool persistent_ended(struct persistent *p, struct persistent_end *out)
{
	const struct handler_process *process = &p->process;

	if (p->state != FINISHED)
		return false;
	*out = (struct persistent_end){
		.how = how_of(p),
		.code = handler_process_code(process),
		.signal = handler_process_signal(process),
		.error = process->failure.error,
		.stage = process->failure.error == 0 ? NULL : handler_stage_names[process->failure.stage],
		.asked = p->drained || p->recycled,
		.answered_any = p->answered_any,
		.unanswered = p->window.n,
		.oldest = p->window.n == 0 ? 0 : persistent_window_at(&p->window, 0)->serial,
		.unread_from = unread_from(p),
		.duration_ms = p->window.n == 0 ? 0 : p->now_ms - p->oldest_since_ms,
		.lived_ms = process->duration_ms,
	};
	out->stderr_tail = handler_output_tail_since(&p->output, p->stderr_mark, &out->stderr_len);
	persistent_window_clear(&p->window);
	p->timeout_at_ms = p->exit_by_ms = INT64_MAX;
	p->state = IDLE;
	return true;
}
