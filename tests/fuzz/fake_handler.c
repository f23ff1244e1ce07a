/* A handler in exec mode as the worker sees it: started, then ended in one of the ways it can. */
#include <errno.h>
#include <string.h>
#include <signal.h>
#include <unistd.h>

#include "tests/fuzz/fake_handler.h"

#include "common/base/alloc.h"
#include "common/handler/handler.h"
#include "common/base/nitems.h"

struct handler {
	const struct conf_queue *conf;
	bool running, finished;
	bool stopped;
	struct handler_result result;
	int64_t started_ms, now_ms, forgiven_ms;
};

static struct handler *the_handler;
static struct input *input;

void fake_handler_begin(struct input *in)
{
	input = in;
	the_handler = NULL;
}

bool fake_handler_runs(void)
{
	return the_handler != NULL && the_handler->running && !the_handler->finished;
}

struct handler *handler_new(const struct conf_queue *conf)
{
	struct handler *h = alloc_zero(1, sizeof(*h));

	h->conf = conf;
	the_handler = h;
	return h;
}

void handler_free(struct handler *h)
{
	free(h);
	the_handler = NULL;
}

int handler_start(struct handler *h, const struct handler_job *job, int64_t now_ms)
{
	FUZZ_ASSERT(!h->running && job->message->raw != NULL && job->attempt >= 1 && job->max_attempts >= 1);
	FUZZ_ASSERT(!job->message->unknown_version);
	if (input_byte(input) == 0xff) {
		errno = EAGAIN;
		return -1;
	}
	h->running = true;
	h->finished = h->stopped = false;
	h->started_ms = h->now_ms = now_ms;
	h->forgiven_ms = 0;
	return 0;
}

pid_t handler_pgid(const struct handler *h)
{
	return h->running ? getpid() : 0;
}

int64_t handler_deadline_ms(const struct handler *h)
{
	return h->finished ? h->now_ms : INT64_MAX;
}

int64_t handler_timeout_at_ms(const struct handler *h)
{
	return h->started_ms + 1000 + h->forgiven_ms;
}

void handler_forgive(struct handler *h, int64_t ms)
{
	h->forgiven_ms += ms;
}

const struct handler_reply *handler_progress(struct handler *h)
{
	static const struct handler_reply progress = { .verb = VERB_PROGRESS, .percent = 40, .reason = "page 2 \xff", .reason_len = 8 };

	(void)h;
	return &progress;
}

size_t handler_pollfds(const struct handler *h, struct pollfd *p)
{
	(void)h;
	(void)p;
	return 0;
}

void handler_io(struct handler *h, const struct pollfd *p, size_t n)
{
	(void)h;
	(void)p;
	(void)n;
}

void handler_tick(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
}

static void end(struct handler *h, struct handler_result result)
{
	if (!h->running || h->finished)
		return;
	h->finished = true;
	h->result = result;
	h->result.duration_ms = h->now_ms - h->started_ms;
}

void handler_cancel(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	end(h, (struct handler_result){ .end = HANDLER_CANCELLED, .code = -1, .signal = SIGTERM });
}

void handler_stop(struct handler *h, int64_t now_ms)
{
	h->now_ms = now_ms;
	if (input_byte(input) & 1)
		end(h, (struct handler_result){ .end = HANDLER_STOPPED, .code = 3, .exit_after_stop = true });
	else
		end(h, (struct handler_result){ .end = HANDLER_STOPPED, .code = -1, .signal = SIGTERM });
}

void handler_kill(struct handler *h)
{
	end(h, (struct handler_result){ .end = HANDLER_STOPPED, .code = -1, .signal = SIGKILL });
}

bool handler_finished(struct handler *h, struct handler_result *result)
{
	if (!h->finished)
		return false;
	*result = h->result;
	h->running = false;
	return true;
}

void fake_handler_act(void)
{
	static const char text[] = "first\nlast words \xff\r\n\n";
	static const struct handler_result ends[] = {
		{ .end = HANDLER_EXITED, .code = 0 }, { .end = HANDLER_EXITED, .code = 0 }, { .end = HANDLER_EXITED, .code = 1 },
		{ .end = HANDLER_EXITED, .code = 75 }, { .end = HANDLER_EXITED, .code = 65 }, { .end = HANDLER_EXITED, .code = 255 },
		{ .end = HANDLER_SIGNALED, .code = -1, .signal = SIGSEGV }, { .end = HANDLER_SIGNALED, .code = -1, .signal = 64 },
		{ .end = HANDLER_TIMED_OUT, .code = -1, .signal = SIGKILL }, { .end = HANDLER_TIMED_OUT, .code = 0 },
		{ .end = HANDLER_UNRUNNABLE, .code = -1, .error = ENOENT, .stage = "execve" },
		{ .end = HANDLER_UNRUNNABLE, .code = -1, .error = E2BIG, .stage = "execve" },
		{ .end = HANDLER_UNREPRESENTABLE, .code = -1 }, { .end = HANDLER_STOPPED, .code = 0, .exit_after_stop = true },
	};
	struct handler_result r = ends[input_below(input, nitems(ends))];

	static struct handler_reply verdict;
	unsigned verb = input_below(input, 3 * VERBS);

	verdict = (struct handler_reply){ .verb = (enum handler_verb)verb, .delay_ms = -1, .class = text, .class_len = 5 * (verb & 1), .reason = text,
		.reason_len = 5 * (verb >> 1 & 1) };
	if (verb == VERB_RETRY || verb == VERB_FAIL || verb == VERB_REJECT || verb == VERB_HOLD) {
		r.verdict = &verdict;
		r.exit_after_stop = false;
	}
	if (input_byte(input) & 1) {
		r.stderr_tail = text;
		r.stderr_len = strlen(text);
	}
	if (the_handler != NULL)
		end(the_handler, r);
}
