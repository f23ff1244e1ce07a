/*
 * The configuration, as quredisd -t reads it. This user may not be the supervisor's. Then problems that only the
 * supervisor's user can judge, such as whether a file can be read, become notes.
 */
#include <sys/stat.h>

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/conf/conf.h"

/* A new string. */
static char *user_name(uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	return pw == NULL ? alloc_format("uid %u", uid) : alloc_string(pw->pw_name);
}

/* Returns the owner of the control socket if a supervisor runs; otherwise the user that the unit names. */
static uid_t find_supervisor_uid(const struct doctor *d)
{
	const char *user = unit_get(d, "User");
	const struct passwd *pw;
	struct stat st;

	if (d->a->conf != NULL && stat(d->a->conf->supervisor.control_socket, &st) == 0 && S_ISSOCK(st.st_mode))
		return st.st_uid;
	if (user[0] != '\0' && (pw = getpwnam(user)) != NULL)
		return pw->pw_uid;
	return unit_is_ours(d) && user[0] == '\0' ? 0 : geteuid();
}

/* ---- loading ---- */

/* Resolves the users of handlers for later checks. The strict load reports a user that does not exist. */
static void resolve_users(const struct doctor *d)
{
	struct conf_run_as *own = &d->a->conf->supervisor.as;

	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		struct conf_run_as *r = &d->a->conf->queues[i]->run_as;

		if (conf_run_as_resolve(r, NULL) == 0 && r->user == NULL)
			r->uid = own->user != NULL && conf_run_as_resolve(own, NULL) == 0 ? own->uid
			    : d->conf.supervisor_uid;
	}
}

/* Returns what a start would use, for conf_free(): NULL if it does not start with it. */
static struct conf *load(struct doctor *d)
{
	struct admin *a = d->a;
	struct conf *started = NULL;
	struct conf_report none;

	unit_find(d);
	a->conf = conf_load(admin_conf_path(a), admin_load_flags(a), &d->conf.report);
	d->conf.unreadable = a->conf == NULL;
	d->conf.supervisor_uid = find_supervisor_uid(d);
	if (!d->conf.unreadable) {
		started = conf_load(admin_conf_path(a), 0, &d->conf.strict);
		resolve_users(d);
	} else if (a->options.url != NULL || a->options.host != NULL || a->options.port != 0) {
		a->conf = conf_load(NULL, admin_load_flags(a), &none);	/* the command line says where Redis is */
		conf_report_free(&none);
	}
	return started;
}

/* ---- reporting ---- */

static void add_problem(struct doctor *d, const struct conf_problem *p, bool only_supervisor)
{
	const char *path = admin_conf_path(d->a),
	    *what = p->text + (p->place_len > 0 ? p->place_len + strlen(": ") : 0);
	char *where = p->place_len > 0 ? alloc_copy(p->text, p->place_len)
	    : alloc_string(path == NULL ? "environment" : path);
	struct finding *f = findings_add(d,
	    only_supervisor ? SEVERITY_NOTE : p->warning ? SEVERITY_WARNING : SEVERITY_ERROR, where, "%s", what);

	if (only_supervisor) {
		char *ours = user_name(geteuid()), *theirs = user_name(d->conf.supervisor_uid);

		findings_advise(f,
		    "checked as %s, but quredisd runs as %s; check again as that user: runuser -u %s -- quredis doctor",
		    ours, theirs, theirs);
		free(ours);
		free(theirs);
	} else if (strstr(p->text, strerror(EACCES)) != NULL) {
		findings_advise(f, "run doctor as root or as the supervisor's user");
	} else if (p->warning) {
		findings_advise(f, "change it, or keep it if it is intended: quredis.conf(5)");
	} else {
		findings_advise(f, "correct it, check it with quredisd -t, apply it with quredis reload");
	}
	free(where);
}

static bool is_in(const struct conf_report *report, const struct conf_problem *p)
{
	for (size_t i = 0; i < report->n; i++)
		if (strcmp(report->problems[i].text, p->text) == 0)
			return true;
	return false;
}

static void add_start_flaw(void *arg, const char *key, const char *flaw, const char *advice)
{
	findings_advise(findings_add(arg, SEVERITY_ERROR, key, "%s", flaw), "%s", advice);
}

/* Shown with --verbose, and in the JSON. */
static void add_file(struct doctor *d)
{
	const struct conf_choice *c = &d->a->choice;
	const char *how = d->conf.report.n + d->conf.strict.n > 0 ? "read" : "no errors, no warnings";

	if (!d->conf.unreadable && c->path != NULL && admin_conf_path(d->a) != NULL)
		findings_add(d, SEVERITY_OK, c->path, "%s (%s)", how, c->why);
}

int check_configuration(struct doctor *d)
{
	struct conf *started = load(d);
	bool other_user;

	other_user = d->conf.unreadable || d->conf.supervisor_uid != geteuid();
	for (size_t i = 0; other_user && i < d->conf.report.n; i++)
		add_problem(d, &d->conf.report.problems[i], false);
	for (size_t i = 0; i < d->conf.strict.n; i++)
		/* check_handlers() reports what blocks a queue */
		if (!d->conf.strict.problems[i].blocks &&
		    (!other_user || !is_in(&d->conf.report, &d->conf.strict.problems[i])))
			add_problem(d, &d->conf.strict.problems[i], other_user);
	/* a host without a file, or without queues, only pushes messages */
	if (!other_user && started != NULL && d->a->choice.path != NULL && admin_conf_path(d->a) != NULL &&
	    started->nqueues > 0)
		conf_start_check(started, NULL, add_start_flaw, d);
	conf_free(started);
	add_file(d);
	if (d->conf.unreadable)
		doctor_tell_older(d);
	return 0;
}
