/* /livez: the console runs. /readyz: Redis answers, too; a child asks it, so that the server never waits. */
#include <string.h>
#include <sysexits.h>

#include "admin/web/call.h"

#include "common/base/base.h"

#define READY_MS 2000
#define ANSWER_MS 1000		/* how long an answer is reused */

void web_live(struct web_call *call)
{
	web_answer(call, 200, "text/plain; charset=utf-8", "live\n", 5);
}

static int ask_redis(void *arg)
{
	const struct web *w = arg;
	struct admin a = { .options = { .conf_path = w->a->options.conf_path, .host = w->a->options.host,
		.port = w->a->options.port,
		.url = w->a->options.url }, .served = true };
	int64_t ms;

	if (admin_prepare(&a, NEED_REDIS) == 0 && admin_server_time(&a, &ms) == 0)
		return EX_OK;
	return a.status != 0 ? a.status : EX_SOFTWARE;
}

/* Without details, because probes need no token; other requests give them. */
static const char *outcome(const struct web_job *job)
{
	int status = web_job_status(job);

	if (status == EX_OK)
		return "ready\n";
	if (job->unstarted)
		return "fork failed\n";
	if (job->late || status == EX_UNAVAILABLE || status == EX_TEMPFAIL)
		return "Redis does not answer\n";
	return "Redis refuses, or the configuration is wrong\n";
}

static void send_answer(struct web_call *call, const struct web_probe *p)
{
	web_answer(call, p->code, "text/plain; charset=utf-8", p->text, strlen(p->text));
}

static void answer_probes(const struct web_job *job, void *arg)
{
	struct web_probe *p = &((struct web *)arg)->probe;

	p->asking = false;
	p->code = web_job_status(job) == EX_OK ? 200 : 503;
	p->text = outcome(job);
	p->until_ms = clock_monotonic_ms() + ANSWER_MS;
	for (int i = 0; i < p->nwaiting; i++)
		send_answer(p->waiting[i], p);
	p->nwaiting = 0;
}

static void free_waiting(void *arg)
{
	struct web_probe *p = &((struct web *)arg)->probe;

	for (int i = 0; i < p->nwaiting; i++)
		web_call_drop(p->waiting[i]);
	p->nwaiting = 0;
}

void web_ready(struct web_call *call)
{
	struct web *w = call->w;
	struct web_probe *p = &w->probe;

	if (clock_monotonic_ms() < p->until_ms) {
		send_answer(call, p);
		return;
	}
	if (p->nwaiting >= WEB_PROBES_WAITING) {
		web_answer_error(call, 503, "too many requests are waiting");
		return;
	}
	p->waiting[p->nwaiting++] = call;
	if (p->asking)
		return;
	p->asking = true;
	web_job_start(&w->jobs, &(struct web_question){ .work = ask_redis, .done = answer_probes, .drop = free_waiting,
	    .arg = w, .time_ms = READY_MS, .extra = true });
}
