/* Whether the user of each handler can execute it, as quredisd -t judges it (common/conf/program.c). */
#include <sys/stat.h>

#include <unistd.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

struct handler {
	struct doctor *d;
	const struct conf_queue *q;
};

static void add_flaw(void *arg, const char *path, const char *flaw, const char *advice)
{
	const struct handler *h = arg;

	findings_advise(findings_add(h->d, SEVERITY_ERROR, path, "%s: %s", h->q->name, flaw), "%s", advice);
}

/* The check of the configuration reports it if this is the supervisor's user. */
static void check_mode(const struct handler *h)
{
	const char *path = h->q->handler[0];
	struct stat st;

	if (h->d->conf.supervisor_uid == geteuid() || path[0] != '/' || stat(path, &st) == -1 ||
	    !S_ISREG(st.st_mode) || conf_run_as_may(&h->q->run_as, &st, S_IXOTH))
		return;
	findings_advise(findings_add(h->d, SEVERITY_ERROR, path, "%s: %s may not execute it", h->q->name,
	    h->q->run_as.user != NULL ? h->q->run_as.user : "the supervisor's user"), "chmod +x %s", path);
}

int check_handlers(struct doctor *d)
{
	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		struct handler h = { d, d->a->conf->queues[i] };

		if (h.q->handler == NULL)
			continue;
		check_mode(&h);
		conf_program_check(h.q, add_flaw, &h);
	}
	return 0;
}
