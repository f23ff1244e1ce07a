/*
 * purge.check: a command that may object to the purge of a message. It runs as a handler of its queue does: the same
 * user, limits and environment, the message on standard input, and the sweeper kills all processes that it leaves. Only
 * its exit status has another meaning: 0 agrees. handler.c needs a process without other children, so the command runs
 * below a subprocess of its own. One check runs at a time, for all queues.
 */
#include <sys/wait.h>

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/age/purge.h"

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "sweeper/core/core.h"

#define TIMEOUT_MS 10000
/* from SIGTERM to SIGKILL. Shorter than the queue's kill_grace, because all other checks wait for this one */
#define GRACE_MS 1000
/* limit for the whole subprocess; handler.c gives up a process that does not die long before that */
#define SUBPROCESS_MS 45000
#define SAID_MAX 200		/* bytes of the first line of its stderr that are logged */
#define FAILED_MIN 126		/* exit status of a shell that could not execute something */

/* Exit status of the subprocess. */
enum { AGREED, OBJECTED, CHECK_FAILED };

struct question {
	struct conf_queue conf;		/* the queue's, with check for its handler */
	char *worker;			/* for the log */
	char *facts[HANDLER_FACTS + 1];	/* owned, NULL at the end */
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
			return AGREED;
		first_line(r, said);
		dprintf(out, "exit status %d%s%s", r->code, said[0] == '\0' ? "" : ": ", said);
		return r->code < FAILED_MIN ? OBJECTED : CHECK_FAILED;
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
	return CHECK_FAILED;
}

static int run_check(void *arg, int out)
{
	struct question *q = arg;
	struct handler *h = handler_new(&q->conf);
	struct handler_result result;
	sigset_t while_polling;
	int rc;

	log_bind(q->conf.name, q->worker);
	if (prepare_process(&while_polling) == -1 || handler_start(h, &q->job, clock_monotonic_ms()) == -1) {
		dprintf(out, "fork failed: %s", strerror(errno));
		return CHECK_FAILED;
	}
	while (!handler_finished(h, &result))
		run_turn(h, &while_polling);
	rc = report_result(&result, out);
	handler_free(h);
	return rc;
}

/* ---- in the sweeper ---- */

void purge_check_ask(struct purge_question *k, const char *message, size_t len, const struct verdict *v)
{
	buffer_append(&k->message, message, len);
	k->verdict = *v;
	k->open = true;
}

void purge_check_drop(struct purge_question *k)
{
	buffer_free(&k->message);
	k->open = false;
}

static struct purge_check *check_of(const struct sweeper *s)
{
	return task_own(s, &purge_task);
}

const struct sweeper_queue *purge_check_queue(const struct sweeper *s)
{
	return check_of(s)->q;
}

static struct question *question_new(const struct sweeper *s, const struct sweeper_queue *q)
{
	struct incarnation sweeper = { .boot = s->child->boot, .slot = s->child->slot,
	    .generation = slot_generation(s->slot) };
	struct question *question = alloc_zero(1, sizeof(*question));
	const struct purge_question *asked = &purge_of(q)->question;
	struct message *m = &question->message;

	message_parse(m, &q->keys.lines, asked->message.len == 0 ? "" : asked->message.data, asked->message.len);
	message_id(m);
	m->header_len = 0;
	question->conf = *q->conf;
	question->conf.handler = q->conf->purge.check;
	question->conf.input = CONF_INPUT_STDIN;
	question->conf.kill_grace_ms = GRACE_MS;
	question->conf.reply_fd = -1;		/* the exit status is the answer */
	question->conf.max_duration_ms = -1;
	question->worker = alloc_format("%s/check", q->keys.name);
	strlcpy(sweeper.node, s->conf->supervisor.node, sizeof(sweeper.node));
	/* the command gets it as QUREDIS_INCARNATION, as a handler does */
	incarnation_format(&sweeper, question->incarnation);
	question->facts[0] = alloc_format("QUREDIS_AGE_MS=%" PRId64, asked->verdict.excess.age_ms);
	question->facts[1] = alloc_format("QUREDIS_LIMIT_MS=%" PRId64, asked->verdict.excess.limit_ms);
	question->facts[2] = alloc_format("QUREDIS_REASON=%s", asked->verdict.rule);
	question->facts[3] = alloc_format("QUREDIS_DRY_RUN=%d", s->conf->purge.dry_run);
	question->job = (struct handler_job){ .message = m, .incarnation = question->incarnation,
		.timeout_ms = TIMEOUT_MS,
		.facts = question->facts };
	return question;
}

/* Logs a failure once a round, since a command that cannot be run fails for each message. */
static void note_failure(struct sweeper_queue *q, const char *error)
{
	struct purge *p = purge_of(q);

	if (p->question.failed_ms != p->begun_ms)
		log_warning("purge_check_failed", log_str("queue", q->keys.name),
		    log_str("command", q->conf->purge.check[0]),
		    log_str("error", error), log_str("advice", "messages that it is asked about stay where they are"));
	p->question.failed_ms = p->begun_ms;
}

int purge_check_start(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct question *question = question_new(s, q);
	char why[128];
	struct purge_check *c = check_of(s);
	int rc = subprocess_start(&c->subprocess, run_check, question, SUBPROCESS_MS, now_ms);

	if (rc == -1) {
		snprintf(why, sizeof(why), "fork failed: %s", strerror(errno));
		note_failure(q, why);
	} else {
		c->q = q;
	}
	for (char **f = question->facts; *f != NULL; f++)
		free(*f);
	free(question->worker);
	free(question);
	return rc;
}

static void log_end(struct sweeper_queue *q, struct subprocess *e, int status)
{
	buffer_append(&e->said, "", 1);
	if (WIFEXITED(status) && WEXITSTATUS(status) == OBJECTED)
		log_debug("message_spared", log_str("queue", q->keys.name), log_str("error", e->said.data));
	else
		note_failure(q, e->said.len > 1 ? e->said.data : "the process that ran the check was killed");
}

bool purge_check_ended(struct sweeper *s, bool *agreed, int64_t now_ms)
{
	struct purge_check *c = check_of(s);
	int status;

	if (!subprocess_poll(&c->subprocess, &status, now_ms))
		return false;
	*agreed = WIFEXITED(status) && WEXITSTATUS(status) == AGREED;
	if (!*agreed)
		log_end(c->q, &c->subprocess, status);
	c->q = NULL;
	return true;
}

void purge_check_stop(struct sweeper *s)
{
	subprocess_free(&check_of(s)->subprocess);
	check_of(s)->q = NULL;
}
