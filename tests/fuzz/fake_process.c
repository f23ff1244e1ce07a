/*
 * A handler's process as its owner sees it, played by the input. What starts, signals and reaps real ones is
 * tests/unit/test_handler*.c's and tests/unit/test_persistent*.c's.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/fake_process.h"

#include "common/handler/spawn.h"
#include "common/handler/process.h"
#include "common/handler/reply.h"
#include "common/base/nitems.h"

#define GIVE_UP_MS 10000
#define FRAMES_MAX 512
#define FD_LEAST 200		/* apart from those under test */

/* A frame that it has read; both are views into self.frames. */
struct frame {
	const char *token, *payload;
	size_t len;
};

static struct fake_process self;
static struct handler_process *of;	/* its owner's view; NULL: none */

const struct fake_process *fake_process_look(void)
{
	return &self;
}

static void close_ends(void)
{
	if (self.reply != self.out)
		handler_fd_close(&self.reply);
	self.reply = -1;
	handler_fd_close(&self.in);
	handler_fd_close(&self.out);
	handler_fd_close(&self.err);
}

/* ---- what its owner calls ---- */

void handler_process_init(struct handler_process *p, const struct conf_queue *conf)
{
	*p = (struct handler_process){ .conf = conf, .failure_pipe = { -1, -1 }, .due_ms = INT64_MAX };
}

void handler_process_free(struct handler_process *p)
{
	(void)p;
}

int64_t handler_after(int64_t now_ms, int64_t wait_ms)
{
	return wait_ms < 0 || wait_ms > INT64_MAX - now_ms ? INT64_MAX : now_ms + wait_ms;
}

int handler_process_prepare(struct handler_process *p)
{
	(void)p;
	return 0;
}

void handler_process_learn(struct handler_process *p)
{
	(void)p;
}

/* As the child would have it, but that nothing here may block. */
static int own(int fd)
{
	int mine = fd == -1 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FD_LEAST);

	if (mine != -1)
		fcntl(mine, F_SETFL, O_NONBLOCK);
	return mine;
}

int handler_process_start(struct handler_process *p, struct handler_plan *plan, int64_t now_ms)
{
	FUZZ_ASSERT(!self.started);
	FUZZ_ASSERT(plan->argv[0] != NULL && plan->envp != NULL);
	close_ends();
	self.in = own(plan->stdio[0]);
	self.out = own(plan->stdio[1]);
	self.err = own(plan->stdio[2]);
	self.reply = plan->reply_end == -1 ? self.out : own(plan->reply_end);
	self.started = true;
	self.ended = self.cleared = self.deaf = self.orphan = false;
	self.read = 0;
	buffer_clear(&self.frames);
	buffer_clear(&self.said);
	of = p;
	p->phase = HANDLER_RUNNING;
	p->failure = (struct handler_failure){0};
	p->now_ms = p->started_ms = now_ms;
	p->leader = p->family.leader = getpid();
	p->due_ms = INT64_MAX;
	return 0;
}

static bool is_active(const struct handler_process *p)
{
	return p->phase != HANDLER_IDLE && p->phase != HANDLER_GONE;
}

void handler_process_tick(struct handler_process *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	if (!is_active(p))
		return;
	if (p->phase == HANDLER_TERMINATING && now_ms >= p->due_ms)
		handler_process_force(p, now_ms);
	if (self.ended && p->phase != HANDLER_CLEARING) {
		p->family.status = self.status;
		p->family.leader = 0;
		p->duration_ms = now_ms - p->started_ms;
		p->phase = HANDLER_CLEARING;
		p->due_ms = now_ms + 1;
		p->give_up_ms = now_ms + GIVE_UP_MS;
	}
	/* What cannot be killed is given up after a while, and may go on. */
	if (p->phase == HANDLER_CLEARING && (self.cleared || now_ms >= p->give_up_ms)) {
		p->phase = HANDLER_GONE;
		p->due_ms = INT64_MAX;
		self.started = false;
	}
}

void handler_process_forgive(struct handler_process *p, int64_t ms)
{
	if (p->phase == HANDLER_TERMINATING)
		p->due_ms = handler_after(p->due_ms, ms);
	if (p->phase == HANDLER_CLEARING)
		p->give_up_ms = handler_after(p->give_up_ms, ms);
}

void handler_process_terminate(struct handler_process *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	p->phase = HANDLER_TERMINATING;
	p->due_ms = handler_after(now_ms, p->conf->kill_grace_ms);
	if (!self.deaf)
		fake_process_end(SIGTERM);
}

void handler_process_show(struct handler_process *p, struct message *message)
{
	p->message = message;
}

void handler_process_force(struct handler_process *p, int64_t now_ms)
{
	p->now_ms = now_ms;
	p->phase = HANDLER_KILLING;
	p->due_ms = handler_after(now_ms, 10000);
	fake_process_end(SIGKILL);
	self.cleared = true;
}

int handler_process_code(const struct handler_process *p)
{
	return p->failure.error == 0 && WIFEXITED(p->family.status) ? WEXITSTATUS(p->family.status) : -1;
}

int handler_process_signal(const struct handler_process *p)
{
	return p->failure.error == 0 && !WIFEXITED(p->family.status) ? WTERMSIG(p->family.status) : 0;
}

/* ---- what it does ---- */

void fake_process_begin(void)
{
	self = (struct fake_process){ .in = -1, .out = -1, .err = -1, .reply = -1 };
	of = NULL;
}

void fake_process_end(int status)
{
	if (self.ended)
		return;
	self.ended = true;
	self.cleared = !self.orphan;
	self.status = status;
	if (!self.orphan)
		close_ends();
}

void fake_process_finish(void)
{
	close_ends();
	buffer_free(&self.frames);
	buffer_free(&self.said);
	self.started = false;
}

static void read_input(size_t most)
{
	char data[4096];
	ssize_t n;

	while (most > 0 && self.in != -1 && (n = read(self.in, data, most < sizeof(data) ? most : sizeof(data))) > 0) {
		buffer_append(&self.frames, data, (size_t)n);
		self.read += (uint64_t)n;
		most -= (size_t)n;
	}
}

static void say(int fd, const void *data, size_t len)
{
	ssize_t n = fd == -1 ? -1 : write(fd, data, len);

	if (n > 0 && fd == self.reply)
		buffer_append(&self.said, data, (size_t)n);
}

/* Finds the frame that is `back` frames before the last whole one that it has read. False: there is none. */
static bool find_frame(unsigned back, struct frame *out)
{
	const char *at = self.frames.data, *end = at + self.frames.len;
	struct frame frames[FRAMES_MAX];
	size_t n = 0;

	while (at < end && n < FRAMES_MAX) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		struct frame f = { .token = at + 4 };

		if (newline == NULL || sscanf(f.token + HANDLER_TOKEN_LEN, " %*u %zu", &f.len) != 1 || (size_t)(end - newline) < f.len + 2)
			break;
		f.payload = newline + 1;
		at = f.payload + f.len + 1;
		frames[n++] = f;
	}
	if (back >= n)
		return false;
	*out = frames[n - 1 - back];
	return true;
}

/* A handler that prints a message where its answers go. */
static void echo_something(struct input *in)
{
	struct frame f;

	if (find_frame(input_below(in, 8), &f))
		say(self.reply, f.payload, f.len < 4096 ? f.len : 4096);
	say(self.reply, "\n", 1);
}

/* "OK 1234567890123456\n" and the like: of a job that it has or has had, or of none. */
static void reply_something(struct input *in)
{
	static const struct {
		const char *before, *behind;
	} forms[] = {
		{ "OK ", "\n" }, { "OK ", "\n" }, { "FAIL ", " no\n" }, { "RETRY ", " 5s later\n" }, { "RETRY ", "\n" },
		{ "BEAT ", "\n" }, { "OK ", "" }, { "OK ", " requests served\n" }, { "OK ", "\r\n" }, { "ok ", "\n" },
		{ "OK 0", "\n" }, { "FAIL ", "" }, { "OK ", "\nOK 0\n" },
		{ "EMIT ", " one 5\nhel\no\n" }, { "EMIT ", " one 0 delay=1s\n\n" }, { "EMIT ", " one 9\nhello\n" }, { "EMIT ", " two 1\nx\n" },
	};
	unsigned which = input_below(in, nitems(forms));
	char line[64];
	struct frame f = { .token = "1234567890123456" };

	if ((input_byte(in) & 7) != 0 && !find_frame(input_below(in, 16), &f))
		return;
	say(self.reply, line, (size_t)snprintf(line, sizeof(line), "%s%.*s%s", forms[which].before, HANDLER_TOKEN_LEN, f.token,
	    forms[which].behind));
}

static void say_much(int fd)
{
	static const char filler[4096];

	for (int i = 0; i < 20; i++)
		say(fd, filler, sizeof(filler));
}

static void ends_somehow(struct input *in)
{
	static const int statuses[] = { 0, 1 << 8, 75 << 8, 65 << 8, 255 << 8, SIGSEGV, SIGKILL };

	self.orphan = (input_byte(in) & 1) != 0;
	fake_process_end(statuses[input_below(in, nitems(statuses))]);
}

/* It never became the handler: so it has read and said nothing. */
static void cannot_be_executed(void)
{
	if (self.ended || self.read > 0 || self.said.len > 0)
		return;
	of->failure = (struct handler_failure){ .pid = of->leader, .error = ENOENT, .stage = HANDLER_STAGE_EXECVE };
	fake_process_end(127 << 8);
}

void fake_process_act(struct input *in)
{
	const char *bytes;
	size_t len;

	if (!self.started)
		return;
	switch (input_below(in, 16)) {
	case 0:
	case 1:
	case 2:
		reply_something(in);
		break;
	case 14:
		echo_something(in);
		break;
	case 3:
		read_input(SIZE_MAX);
		break;
	case 4:
		read_input(input_byte(in));
		break;
	case 5:
		bytes = input_bytes(in, &len);
		say(self.reply, bytes, len);
		break;
	case 6:
		bytes = input_bytes(in, &len);
		say(self.err, bytes, len);
		break;
	case 7:
		bytes = input_bytes(in, &len);
		say(self.out, bytes, len);
		break;
	case 8:
		say_much(input_byte(in) & 1 ? self.err : self.reply);
		break;
	case 9:
		handler_fd_close(&self.in);
		break;
	case 10:
		if (self.reply == self.out)
			self.out = -1;
		handler_fd_close(&self.reply);
		break;
	case 11:
		self.deaf = true;
		break;
	case 12:
		self.cleared = self.ended;
		break;
	case 13:
		cannot_be_executed();
		break;
	default:
		ends_somehow(in);
		break;
	}
}
