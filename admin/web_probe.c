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

/* The details are told to who has the token, by any other request: probes come from anywhere. */
static const char *outcome(const struct web_job *job)
{
	int status = web_job_status(job);

	if (status == EX_OK)
		return "ready\n";
	if (job->unstarted)
		return "no process could be started that asks Redis\n";
	if (job->late || status == EX_UNAVAILABLE || status == EX_TEMPFAIL)
		return "Redis does not answer\n";
	return "Redis could not be asked\n";
}

static void done(const struct web_job *job, void *arg)
{
	const char *text = outcome(job);

	web_answer(arg, web_job_status(job) == EX_OK ? 200 : 503, "text/plain; charset=utf-8", text, strlen(text));
}

void web_ready(struct web_call *call)
{
	if (web_job_start(&call->w->jobs, &(struct web_question){ .work = ask, .done = done, .drop = web_call_drop, .arg = call, .time_ms = READY_MS }) == -1)
		web_answer_error(call, 503, "too many requests wait already");
}
