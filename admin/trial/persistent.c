/*
 * A trial of a persistent handler: starts it, gives it one job, closes its input when it has answered, and waits for
 * its end; or only lets it load its function. INT or TERM asks the handler to end, a second one kills it.
 */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/trial/trial.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/queue/queue.h"

#define SERIAL 1		/* not 0: a handler that prints "OK 0" while idle has not answered */

static void run_turn(struct persistent *p, const sigset_t *open)
{
	struct pollfd fds[PERSISTENT_POLLFDS];
	size_t n = persistent_pollfds(p, fds);
	int ready = trial_poll(fds, n, persistent_deadline_ms(p), open);
	int64_t now = clock_monotonic_ms();

	if (ready > 0)
		persistent_io(p, fds, n, now);
	else
		persistent_quiet(p);
	if (interrupt_count() == 1)
		persistent_stop(p, now);
	else if (interrupt_count() > 1)
		persistent_kill(p);
}

/*
 * The handler ended without an answer. In a worker that opens the queue's breaker, unless the handler read the message
 * and has answered others.
 */
static void judge_end(const struct conf_queue *q, const struct persistent_end *e, struct trial *t)
{
	const char *before = e->loaded ? "answered" : "was ready";
	char why[256];

	t->outcome = "breaker";
	t->status = TRIAL_FAILED;
	t->code = e->code;
	t->signal = e->signal;
	t->duration_ms = e->duration_ms;
	buffer_append(&t->stderr_tail, e->stderr_tail, e->stderr_len);
	switch (e->how) {
	case PERSISTENT_EXITED:
		t->reason = alloc_format("it ended before it %s: exit status %d", before, e->code);
		break;
	case PERSISTENT_SIGNALED:
		t->reason = alloc_format("it ended before it %s: killed by %s", before,
		    process_signal_name(e->signal));
		break;
	case PERSISTENT_LATE:
		t->reason = alloc_string("it was not ready within start_timeout");
		break;
	case PERSISTENT_DESYNC:
		t->reason = alloc_format("quredis ended it: %s", e->desync);
		break;
	case PERSISTENT_TIMED_OUT:
		t->outcome = "failed attempt";
		persistent_describe_silence(e, why, sizeof(why));
		t->reason = alloc_format("no answer within its timeout%s: %s", e->limit == NULL ? "" : e->limit, why);
		break;
	case PERSISTENT_CANCELLED:
	case PERSISTENT_STOPPED:
		t->outcome = "failed attempt";
		t->reason = alloc_string("interrupted");
		break;
	case PERSISTENT_UNRUNNABLE:
		trial_not_run(t, q->handler, e->stage, e->error);
		break;
	}
}

static void serve(const struct conf_queue *q, struct persistent *p, const struct handler_job *job, const sigset_t *open,
    struct trial *t)
{
	struct handler_reply reply;
	struct persistent_end end;
	bool given = false;

	do {
		if (!given && persistent_room(p) > 0) {
			persistent_give(p, SERIAL, job, clock_monotonic_ms());
			persistent_flush(p);
			given = true;
		}
		run_turn(p, open);
		while (persistent_reply(p, &reply)) {
			trial_replied(t, &reply);
			t->duration_ms = reply.duration_ms;
			buffer_append(&t->stderr_tail, reply.stderr_tail, reply.stderr_len);
			persistent_drain(p, clock_monotonic_ms());
		}
		persistent_tick(p, clock_monotonic_ms());
	} while (!persistent_ended(p, &end));
	if (t->outcome == NULL)
		judge_end(q, &end, t);
}

int trial_persistent(const struct conf_queue *q, const struct handler_job *job, const sigset_t *open, struct trial *t)
{
	struct persistent *p = persistent_new(q);
	int rc = persistent_start(p, job->incarnation, clock_monotonic_ms());

	if (rc == 0)
		serve(q, p, job, open, t);
	persistent_free(p);
	return rc;
}

/* With --check before the function, which is the last argument. Its strings are those of q. */
static char **checking_handler(const struct conf_queue *q)
{
	static char option[] = "--check";
	size_t n = 0;
	char **argv;

	while (q->handler[n] != NULL)
		n++;
	argv = alloc_zero(n + 2, sizeof(*argv));
	memcpy(argv, q->handler, (n - 1) * sizeof(*argv));
	argv[n - 1] = option;
	argv[n] = q->handler[n - 1];
	return argv;
}

int trial_persistent_load(const struct conf_queue *q, const sigset_t *open, struct trial *t)
{
	struct conf_queue checking = *q;
	char incarnation[INCARNATION_SIZE];
	struct handler_reply none;
	struct persistent_end end;
	struct persistent *p;
	int rc;

	checking.handler = checking_handler(q);
	trial_incarnation(incarnation);
	p = persistent_new(&checking);
	rc = persistent_start(p, incarnation, clock_monotonic_ms());
	if (rc == 0) {
		do {
			run_turn(p, open);
			while (persistent_reply(p, &none))
				;
			persistent_tick(p, clock_monotonic_ms());
		} while (!persistent_ended(p, &end));
		/* a file may end the process with status 0 while it is loaded: only the runner says READY */
		if (end.how == PERSISTENT_EXITED && end.code == 0 && end.loaded)
			t->outcome = "done";
		else
			judge_end(&checking, &end, t);
	}
	persistent_free(p);
	free(checking.handler);
	return rc;
}
