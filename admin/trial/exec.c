/*
 * A trial of an exec handler: starts it with the message, waits for its end, and decides as a worker would. INT or TERM
 * asks the handler to end, a second one kills it.
 */
#include <string.h>
#include <sysexits.h>

#include "admin/trial/trial.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"

static void run_turn(struct handler *h, const sigset_t *open)
{
	struct pollfd fds[HANDLER_POLLFDS];
	size_t n = handler_pollfds(h, fds);
	int64_t now;

	if (trial_poll(fds, n, handler_deadline_ms(h), open) > 0)
		handler_io(h, fds, n);
	now = clock_monotonic_ms();
	if (interrupt_count() == 1)
		handler_stop(h, now);
	else if (interrupt_count() > 1)
		handler_kill(h);
	handler_tick(h, now);
}

static void judge_exit(const struct conf_queue *q, int code, struct trial *t)
{
	static const struct {
		const char *outcome;
		int status;
	} of[] = {
		[CONF_OUTCOME_DONE] = { "done", EX_OK },
		[CONF_OUTCOME_RETRY] = { "retry", EX_TEMPFAIL },
		[CONF_OUTCOME_ESCAPE] = { "escape", EX_DATAERR },
		[CONF_OUTCOME_FAIL] = { "failed attempt", TRIAL_FAILED },
	};
	enum conf_outcome outcome = code >= 0 ? q->exit_codes[code & 0xff] : CONF_OUTCOME_FAIL;

	t->outcome = of[outcome].outcome;
	t->status = of[outcome].status;
	t->reason = alloc_format("exit status %d", code);
}

static bool is_done(const struct conf_queue *q, int code)
{
	return code >= 0 && q->exit_codes[code & 0xff] == CONF_OUTCOME_DONE;
}

static void judge_result(const struct conf_queue *q, const struct handler_result *r, struct trial *t)
{
	t->outcome = "failed attempt";
	t->status = TRIAL_FAILED;
	switch (r->end) {
	case HANDLER_EXITED:
		if (r->verdict != NULL)
			trial_replied(t, r->verdict);
		else if (!is_done(q, r->code) || trial_emitted(t, r->emitted))
			judge_exit(q, r->code, t);
		break;
	case HANDLER_SIGNALED:
		t->reason = alloc_format("killed by %s", process_signal_name(r->signal));
		break;
	case HANDLER_TIMED_OUT:
		t->reason = alloc_format("ran longer than its timeout%s", r->limit == NULL ? "" : r->limit);
		break;
	case HANDLER_CANCELLED:
	case HANDLER_STOPPED:
		t->reason = alloc_string("interrupted");
		break;
	case HANDLER_UNRUNNABLE:
		trial_not_run(t, q->handler, r->stage, r->error);
		break;
	case HANDLER_UNREPRESENTABLE:
		t->outcome = "escape";
		t->status = EX_DATAERR;
		t->reason = alloc_string("the message cannot be an argument (NUL, or more than 100 KiB)");
		break;
	}
}

int trial_exec(const struct conf_queue *q, const struct handler_job *job, const sigset_t *open, struct trial *t)
{
	struct handler *h = handler_new(q);
	struct handler_result result;
	int rc = handler_start(h, job, clock_monotonic_ms());

	if (rc == 0) {
		while (!handler_finished(h, &result))
			run_turn(h, open);
		judge_result(q, &result, t);
		t->code = result.code;
		t->signal = result.signal;
		t->duration_ms = result.duration_ms;
		buffer_append(&t->stderr_tail, result.stderr_tail, result.stderr_len);
	}
	handler_free(h);
	return rc;
}
