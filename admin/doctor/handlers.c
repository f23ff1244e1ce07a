/* Whether the user of each handler can execute it, as quredisd -t judges it (common/conf/command.c). */
#include "admin/doctor/checks.h"

#include "common/base/base.h"

struct handler {
	struct doctor *d;
	const struct conf_queue *q;
};

static void add_handler_flaw(void *arg, const struct conf_flaw *flaw)
{
	const struct handler *h = arg;
	enum severity severity = flaw->is_doubt ? SEVERITY_WARNING : SEVERITY_ERROR;

	findings_advise(findings_add(h->d, severity, flaw->path, "%s: %s", h->q->name, flaw->text), "%s",
	    flaw->advice);
}

int check_handlers(struct doctor *d)
{
	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		struct handler h = { d, d->a->conf->queues[i] };

		conf_program_check(h.q, CONF_INHERITS_OTHER, add_handler_flaw, &h);
	}
	return 0;
}
