/*
 * Loads the function of each queue as its user, in the environment of its handler and within start_timeout: what is
 * missing shows only then. No message runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/doctor/checks.h"

#include "admin/trial/trial.h"
#include "common/base/base.h"
#include "common/log/log.h"

static void add_failed_load(struct doctor *d, const struct conf_queue *q, const struct trial *t)
{
	const char *line;
	size_t len = buffer_last_line(t->stderr_tail.data, t->stderr_tail.len, &line);
	char *said = visible(line, len, 200), *lack = conf_function_lack(q, said);
	struct finding *f = len == 0 ? findings_add(d, SEVERITY_ERROR, q->function, "%s: %s", q->name, t->reason)
	    : findings_add(d, SEVERITY_ERROR, q->function, "%s: %s: %s", q->name, t->reason, said);

	findings_advise(f, "%s, then quredis restart %s; quredis run %s <FILE shows all that it prints",
	    lack == NULL ? "correct it" : lack, q->name, q->name);
	free(lack);
	free(said);
}

/* conf: only to run the handler of q, its queue of this name */
static int load_function(struct doctor *d, const struct conf *conf, const char *name)
{
	const struct conf_queue *q = conf_queue_find(conf, name);
	struct trial t = { .code = -1 };
	int rc = trial_load(q, &t);

	if (rc == -1)
		admin_fail(d->a, EX_OSERR, "fork failed: %s", strerror(errno));
	else if (t.reason != NULL)
		add_failed_load(d, q, &t);
	trial_free(&t);
	return rc;
}

/* The check of the configuration reports what is wrong; another user may be able to load it. */
static void add_not_loaded(struct doctor *d, const struct conf_queue *q, const struct conf_report *report)
{
	for (size_t i = 0; i < report->n; i++) {
		const struct conf_problem *p = &report->problems[i];

		if (p->warning)
			continue;
		findings_advise(findings_add(d, SEVERITY_NOTE, q->function, "%s: it was not loaded: %s", q->name,
		    p->text + (p->place_len > 0 ? p->place_len + strlen(": ") : 0)),
		    "correct this, or run doctor as the user that starts quredisd");
		return;
	}
}

int check_functions(struct doctor *d)
{
	int rc = 0;

	log_open("stderr", LOG_FORMAT_LOGFMT, LOG_LEVEL_ERROR);		/* not each line that a function prints */
	for (size_t i = 0; i < d->a->conf->nqueues && rc == 0; i++) {
		const struct conf_queue *q = d->a->conf->queues[i];
		struct conf_report report;
		struct conf *conf;

		if (q->function == NULL)
			continue;
		conf = conf_load_to_run(admin_conf_path(d->a), q->name, &report);
		if (conf == NULL)
			add_not_loaded(d, q, &report);
		else
			rc = load_function(d, conf, q->name);
		conf_free(conf);
		conf_report_free(&report);
	}
	return rc;
}
