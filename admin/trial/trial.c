/*
 * A trial of a handler: the code for both modes, such as signals, the poll and the result. trial/exec.c and
 * trial/persistent.c start the handler, feed it and judge its end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include <bsd/stdlib.h>

#include "admin/trial/trial.h"

#include "admin/cli/cli.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define TURN_MS 1000			/* the longest poll */

int trial_poll(struct pollfd *fds, size_t n, int64_t at_ms, const sigset_t *open)
{
	int64_t left = at_ms == INT64_MAX ? TURN_MS : at_ms - clock_monotonic_ms();

	if (left < 0)
		left = 0;
	if (left > TURN_MS)
		left = TURN_MS;
	return ppoll(fds, n, &(struct timespec){ .tv_sec = left / 1000, .tv_nsec = left % 1000 * 1000000 }, open);
}

void trial_not_run(struct trial *t, char *const *argv, const char *stage, int error)
{
	char room[HANDLER_FILE_SIZE];
	const char *file = handler_file_of(stage, argv, room);

	t->outcome = "not run";
	t->status = error == EPERM || error == EACCES ? EX_NOPERM : EX_CONFIG;
	t->reason = alloc_format("%s%s%s: %s", stage, file == NULL ? "" : " ", file == NULL ? "" : file,
	    strerror(error));
}

bool trial_emitted(struct trial *t, struct handler_emissions *e)
{
	if (e == NULL)
		return true;
	if (e->refused[0] == '\0') {
		t->emitted = handler_emissions_take(e);
		return true;
	}
	t->outcome = "failed attempt";
	t->status = TRIAL_FAILED;
	t->reason = alloc_string(e->refused);
	return false;
}

void trial_replied(struct trial *t, const struct handler_reply *r)
{
	static const struct {
		const char *outcome;
		int status;
	} of[VERBS] = {
		[VERB_OK] = { "done", EX_OK },
		[VERB_RETRY] = { "retry", EX_TEMPFAIL },
		[VERB_FAIL] = { "failed attempt", TRIAL_FAILED },
		[VERB_REJECT] = { "escape", EX_DATAERR },
		[VERB_HOLD] = { "hold", EX_TEMPFAIL },
	};
	char reason[HANDLER_REASON_SHOWN + 16];

	if (r->verb == VERB_OK && !trial_emitted(t, r->emitted))
		return;
	t->has_delay = r->verb == VERB_HOLD || (r->verb == VERB_RETRY && r->delay_ms >= 0);
	t->delay_ms = r->verb == VERB_HOLD ? handler_hold_ms(r->delay_ms) : r->delay_ms;
	handler_reply_describe(r, reason, sizeof(reason));
	t->outcome = of[r->verb].outcome;
	t->status = of[r->verb].status;
	t->reason = alloc_string(reason);
	t->class = r->class_len == 0 ? NULL : alloc_format("%.*s", (int)r->class_len, r->class);
}

int trial_run(struct admin *a, const struct handler_job *job, struct trial *t)
{
	sigset_t open;
	int rc;

	interrupt_begin_counting(&open);
	rc = process_become_subreaper();
	if (rc == 0)
		rc = (a->queue->mode == CONF_MODE_PERSISTENT ? trial_persistent : trial_exec)(a->queue, job, &open, t);
	if (rc == -1)
		admin_fail(a, EX_OSERR, "fork failed: %s", strerror(errno));
	else
		a->status = t->status;
	return rc;
}

int trial_load(const struct conf_queue *q, struct trial *t)
{
	sigset_t open;
	int rc;

	interrupt_begin_counting(&open);
	rc = process_become_subreaper();
	return rc == 0 ? trial_persistent_load(q, &open, t) : rc;
}

void trial_incarnation(char *out)
{
	struct incarnation self = { .node = TRIAL_WORKER };

	arc4random_buf(&self.boot, sizeof(self.boot));
	incarnation_format(&self, out);
}

void trial_free(struct trial *t)
{
	free(t->reason);
	free(t->class);
	handler_emissions_free(t->emitted);
	buffer_free(&t->stderr_tail);
	interrupt_end();
}
