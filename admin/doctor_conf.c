/*
 * The configuration as quredisd -t would see it. This user may not be the supervisor's: then what only the supervisor
 * needs can be looked at from outside only, and is told as a note.
 */
#include <sys/stat.h>

#include <errno.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/doctor.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/duration.h"

/* A new string. */
static char *user_name(uid_t uid)
{
	const struct passwd *pw = getpwuid(uid);

	return pw == NULL ? alloc_format("uid %u", uid) : alloc_string(pw->pw_name);
}

/* Its socket is its own; a unit says whom it would run as. */
static uid_t find_supervisor_uid(const struct doctor *d)
{
	const char *user = d->unit.path == NULL ? NULL : unit_file_get(&d->unit, "User");
	const struct passwd *pw;
	struct stat st;

	if (d->a->conf != NULL && stat(d->a->conf->supervisor.control_socket, &st) == 0 && S_ISSOCK(st.st_mode))
		return st.st_uid;
	if (user != NULL && (pw = getpwnam(user)) != NULL)
		return pw->pw_uid;
	return d->unit.path != NULL && user == NULL ? 0 : geteuid();
}

bool doctor_is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* ---- loading ---- */

static void load_strict(struct doctor *d)
{
	struct conf *conf = conf_load(admin_conf_path(d->a), 0, &d->strict);

	if (conf != NULL)
		conf_free(conf);
}

/* Users of handlers, for who asks what they may. One that does not exist is told by the strict look. */
static void resolve_users(const struct doctor *d)
{
	for (size_t i = 0; i < d->a->conf->nqueues; i++) {
		struct conf_run_as *r = &d->a->conf->queues[i]->run_as;

		if (conf_run_as_resolve(r) == 0 && r->user == NULL)
			r->uid = d->supervisor_uid;
	}
}

static void load(struct doctor *d)
{
	struct admin *a = d->a;
	struct conf_report none;

	doctor_unit_find(d);
	a->conf = conf_load(admin_conf_path(a), CONF_LENIENT_HANDLERS, &d->report);
	d->unreadable = a->conf == NULL;
	d->supervisor_uid = find_supervisor_uid(d);
	if (!d->unreadable) {
		load_strict(d);
		resolve_users(d);
	} else if (a->options.url != NULL || a->options.host != NULL || a->options.port != 0) {
		a->conf = conf_load(NULL, CONF_LENIENT_HANDLERS, &none);	/* Redis is known all the same */
		conf_report_free(&none);
	}
}

/* ---- telling ---- */

/* Our eyes are not the supervisor's. */
static void advise_eyes(const struct doctor *d, struct finding *f)
{
	char *ours = user_name(geteuid()), *theirs = user_name(d->supervisor_uid);

	doctor_advise(f, "seen by %s, and quredisd is %s: look again so, runuser -u %s -- quredis doctor", ours, theirs, theirs);
	free(ours);
	free(theirs);
}

static void tell(struct doctor *d, const struct conf_problem *p, bool outside)
{
	const char *path = admin_conf_path(d->a);
	char *where = p->place_len > 0 ? alloc_copy(p->text, p->place_len) : alloc_string(path == NULL ? "environment" : path);
	const char *what = p->text + (p->place_len > 0 ? p->place_len + strlen(": ") : 0);
	struct finding *f = doctor_tell(d, outside ? SEVERITY_NOTE : p->warning ? SEVERITY_WARNING : SEVERITY_ERROR, where,
	    "%s", what);

	if (outside)
		advise_eyes(d, f);
	else if (strstr(p->text, strerror(EACCES)) != NULL)
		doctor_advise(f, "look as root, or as the supervisor's user");
	else if (p->warning)
		doctor_advise(f, "change it, or leave it if it is meant so: quredis.conf(5)");
	else
		doctor_advise(f, "correct it; quredisd -t says when it is right, quredis reload brings it into force");
	free(where);
}

static bool is_in(const struct conf_report *report, const struct conf_problem *p)
{
	for (size_t i = 0; i < report->n; i++)
		if (strcmp(report->problems[i].text, p->text) == 0)
			return true;
	return false;
}

int doctor_configuration(struct doctor *d)
{
	bool outside;

	load(d);
	outside = d->unreadable || d->supervisor_uid != geteuid();
	for (size_t i = 0; outside && i < d->report.n; i++)
		tell(d, &d->report.problems[i], false);
	for (size_t i = 0; i < d->strict.n; i++)
		if (!outside || !is_in(&d->report, &d->strict.problems[i]))
			tell(d, &d->strict.problems[i], outside);
	return 0;
}

/* ---- what is right by itself, and not together ---- */

/* What somebody chose is warned of by the configuration's own check. */
static bool is_nobodys_choice(const struct conf *conf, const struct conf_queue *q)
{
	return !conf_given(conf_queue_origin(q, "timeout")) && !conf_given(conf_origin(conf, "supervisor.drain_timeout"));
}

int doctor_timeouts(struct doctor *d)
{
	const struct conf *conf = d->a->conf;
	char timeout[DURATION_SIZE], drain[DURATION_SIZE];
	struct buffer names = {0};
	int64_t timeout_ms = 0;

	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		if (q->timeout_ms <= conf->supervisor.drain_timeout_ms || !is_nobodys_choice(conf, q))
			continue;
		timeout_ms = q->timeout_ms;	/* the default: of all of them */
		buffer_format(&names, "%s%s", names.len > 0 ? ", " : "", q->name);
	}
	if (names.len > 0) {
		buffer_append(&names, "", 1);
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, names.data,
		    "timeout %s is longer than supervisor.drain_timeout %s: a stop ends handlers that run longer, and their messages run again",
		    duration_format(timeout_ms, timeout), duration_format(conf->supervisor.drain_timeout_ms, drain)),
		    "set both so that timeout is the shorter one, or leave it: handlers are to be idempotent");
	}
	buffer_free(&names);
	return 0;
}
