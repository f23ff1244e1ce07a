/* /livez: the loop turns. /readyz: Redis answers, too; a child asks it, so that this one is not kept waiting. */
#include <string.h>
#include <sysexits.h>

#include "admin/web_call.h"

#define READY_MS 2000

void web_live(struct web_call *call)
{
	web_answer(call, 200, "text/plain; charset=utf-8", "live\n", 5);
}

static int ask(void *arg)
{
	struct web_call *call = arg;
	struct admin a = { .options = { .conf_path = call->w->a->options.conf_path, .host = call->w->a->options.host,
		.port = call->w->a->options.port, .url = call->w->a->options.url }, .served = true };
	int64_t ms;

	if (admin_prepare(&a, NEED_REDIS) == 0 && admin_server_time(&a, &ms) == 0)
		return EX_OK;
	return a.status != 0 ? a.status : EX_SOFTWARE;
}

/* Why not is told to who has the token, by any other request: probes come from anywhere. */
static void done(const struct web_job *job, void *arg)
{
	struct web_call *call = arg;

	if (web_job_status(job) == EX_OK)
		web_answer(call, 200, "text/plain; charset=utf-8", "ready\n", 6);
	else
		web_answer(call, 503, "text/plain; charset=utf-8", "Redis does not answer\n", 22);
}

void web_ready(struct web_call *call)
{
	if (web_job_start(&call->w->jobs, &(struct web_question){ .work = ask, .done = done, .drop = web_call_drop, .arg = call, .time_ms = READY_MS }) == -1)
		web_answer_error(call, 503, "too many requests wait already");
}
