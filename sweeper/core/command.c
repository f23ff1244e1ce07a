/*
 * Runs a command of the configuration below a subprocess of its own, since handler.c needs a process without other
 * children.
 */
#include "sweeper/core/command.h"

#include <sys/wait.h>

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "sweeper/core/core.h"

#define TIMEOUT_MS 10000
/* from SIGTERM to SIGKILL. Shorter than the queue's kill_grace, because other commands wait for this one */
#define GRACE_MS 1000
/* limit for the whole subprocess; handler.c gives up a process that does not die long before that */
#define SUBPROCESS_MS 45000
#define SAID_MAX 200		/* bytes of the first line of its stderr that are logged */
#define FAILED_MIN 126		/* exit status of a shell that could not execute something */

/* The subprocess gets a copy of it. */
struct run {
	struct conf_queue conf;		/* the queue's, with the command for its handler */
	char *worker;			/* for the log */
	struct message message;		/* with the producer's header line in its payload */
	struct handler_job job;
	char incarnation[INCARNATION_SIZE];
};

/* ---- in the subprocess ---- */

static void on_sigchld(int sig)
{
	(void)sig;		/* its only effect is to end the poll */
}

static int prepare_process(sigset_t *while_polling)
{
	struct sigaction chld = { .sa_handler = on_sigchld }, ignore = { .sa_handler = SIG_IGN };
	sigset_t blocked;

	sigemptyset(while_polling);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	return sigprocmask(SIG_BLOCK, &blocked, NULL) == -1 || sigaction(SIGCHLD, &chld, NULL) == -1 ||
	    sigaction(SIGPIPE, &ignore, NULL) == -1 ? -1 : process_become_subreaper();
}

static void run_turn(struct handler *h, const sigset_t *while_polling)
{
	struct pollfd fds[HANDLER_POLLFDS];
	size_t n = handler_pollfds(h, fds);
	int64_t left = handler_deadline_ms(h) - clock_monotonic_ms();
	struct timespec wait;

	left = left < 0 ? 0 : left > TIMEOUT_MS ? TIMEOUT_MS : left;
	wait = (struct timespec){ .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 };
	if (ppoll(fds, n, &wait, while_polling) > 0)
		handler_io(h, fds, n);
	handler_tick(h, clock_monotonic_ms());
}

/* Copies the first line that the command wrote to stderr. */
static void first_line(const struct handler_result *r, char out[SAID_MAX + 1])
{
	size_t len = r->stderr_len < SAID_MAX ? r->stderr_len : SAID_MAX;

	memcpy(out, r->stderr_tail, len);
	out[len] = '\0';
	out[strcspn(out, "\n")] = '\0';
}

static int report_result(const struct handler_result *r, int out)
{
	char said[SAID_MAX + 1];

	switch (r->end) {
	case HANDLER_EXITED:
		if (r->code == 0)
			return COMMAND_SUCCEEDED;
		first_line(r, said);
		dprintf(out, "exit status %d%s%s", r->code, said[0] == '\0' ? "" : ": ", said);
		return r->code < FAILED_MIN ? COMMAND_REFUSED : COMMAND_FAILED;
	case HANDLER_SIGNALED:
		dprintf(out, "killed by %s", process_signal_name(r->signal));
		break;
	case HANDLER_TIMED_OUT:
		dprintf(out, "timed out after %d s", TIMEOUT_MS / 1000);
		break;
	case HANDLER_UNRUNNABLE:
		dprintf(out, "%s: %s", r->stage, strerror(r->error));
		break;
	case HANDLER_CANCELLED:
	case HANDLER_STOPPED:
	case HANDLER_UNREPRESENTABLE:
		break;
	}
	return COMMAND_FAILED;
}

static int run_command(void *arg, int out)
{
	struct run *r = arg;
	struct handler *h = handler_new(&r->conf);
	struct handler_result result;
	sigset_t while_polling;
	int rc;

	log_bind(r->conf.name, r->worker);
	if (prepare_process(&while_polling) == -1 || handler_start(h, &r->job, clock_monotonic_ms()) == -1) {
		dprintf(out, "fork failed: %s", strerror(errno));
		return COMMAND_FAILED;
	}
	while (!handler_finished(h, &result))
		run_turn(h, &while_polling);
	rc = report_result(&result, out);
	handler_free(h);
	return rc;
}

/* ---- in the sweeper ---- */

static void prepare_run(struct run *r, const struct sweeper *s, const struct sweeper_queue *q,
    const struct command_run *c)
{
	struct incarnation sweeper = { .boot = s->child->boot, .slot = s->child->slot,
	    .generation = slot_generation(s->slot) };

	message_parse(&r->message, &q->keys.lines, c->input, c->len);
	message_id(&r->message);
	r->message.header_len = 0;
	r->conf = *q->conf;
	r->conf.handler = c->argv;
	r->conf.input = CONF_INPUT_STDIN;
	r->conf.kill_grace_ms = GRACE_MS;
	r->conf.reply_fd = -1;		/* the exit status is the answer */
	r->conf.max_duration_ms = -1;
	r->worker = alloc_format("%s/%s", q->keys.name, c->role);
	strlcpy(sweeper.node, s->conf->supervisor.node, sizeof(sweeper.node));
	/* the command gets it as QUREDIS_INCARNATION, as a handler does */
	incarnation_format(&sweeper, r->incarnation);
	r->job = (struct handler_job){ .message = &r->message, .incarnation = r->incarnation, .timeout_ms = TIMEOUT_MS,
		.facts = c->facts->list };
}

void command_fact(struct command_facts *f, const char *format, ...)
{
	va_list values;

	assert(f->n < COMMAND_FACTS_MOST);
	va_start(values, format);
	f->list[f->n++] = alloc_format_args(format, values);
	va_end(values);
}

static void free_facts(struct command_facts *f)
{
	while (f->n > 0) {
		free(f->list[--f->n]);
		f->list[f->n] = NULL;
	}
}

const char *command_start(struct subprocess *e, const struct sweeper *s, const struct sweeper_queue *q,
    const struct command_run *c, int64_t now_ms)
{
	static char why[128];
	struct run *r = alloc_zero(1, sizeof(*r));
	int rc;

	prepare_run(r, s, q, c);
	rc = subprocess_start(e, run_command, r, SUBPROCESS_MS, now_ms);
	snprintf(why, sizeof(why), "fork failed: %s", strerror(errno));
	free_facts(c->facts);
	free(r->worker);
	free(r);
	return rc == -1 ? why : NULL;
}

bool command_ended(struct subprocess *e, enum command_end *end, const char **why, int64_t now_ms)
{
	int status;

	if (!subprocess_poll(e, &status, now_ms))
		return false;
	buffer_append(&e->said, "", 1);
	*end = WIFEXITED(status) && WEXITSTATUS(status) < COMMAND_FAILED ? (enum command_end)WEXITSTATUS(status)
	    : COMMAND_FAILED;
	*why = e->said.len > 1 ? e->said.data : "the process that ran it was killed";
	return true;
}
