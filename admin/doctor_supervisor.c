/* The supervisor on this host: can it be asked, does it run what the configuration says, are its queues in trouble. */
#include <sys/stat.h>

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/doctor.h"

#include "admin/control.h"
#include "common/nitems.h"

/* ---- the socket ---- */

static void tell_stopped(struct doctor *d, const char *path)
{
	if (d->a->conf->nqueues == 0)
		doctor_tell(d, SEVERITY_OK, path, "no supervisor runs here, and no queue is configured");
	else
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, path, "no supervisor runs here"),
		    d->unit.path != NULL ? "systemctl start quredisd" : "start quredisd; on a host that only pushes this is as it should be");
}

static void check_owner(struct doctor *d, const char *path, const struct stat *st)
{
	const char *user = d->unit.path == NULL ? NULL : unit_file_get(&d->unit, "User");
	const struct passwd *pw = getpwnam(user == NULL ? "root" : user);

	if (d->unit.path != NULL && pw != NULL && pw->pw_uid != st->st_uid)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, path, "it belongs to uid %u, and the unit runs quredisd as %s", st->st_uid, pw->pw_name),
		    "another supervisor was started by hand: stop it, and systemctl start quredisd");
	if ((st->st_mode & S_IRWXO) != 0)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, path, "everybody may connect to it (mode %04o)", st->st_mode & 07777),
		    "chmod 660 %s; quredisd refuses strangers all the same", path);
}

static void check_running(struct doctor *d, const char *path)
{
	const char *theirs = json_string_value(json_object_get(d->status, "config")), *ours = admin_conf_path(d->a);
	const char *version = json_string_value(json_object_get(d->status, "version"));

	if (theirs != NULL && ours != NULL && !doctor_is_same_file(theirs, ours))
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, path, "the supervisor there runs %s, not %s", theirs, ours),
		    "quredis -c %s doctor looks at that one", theirs);
	if (version != NULL && strcmp(version, QUREDIS_VERSION) != 0)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, path, "the supervisor that runs is %s, this is %s", version, QUREDIS_VERSION),
		    "restart quredisd when it suits");
}

static void ask(struct doctor *d, const char *path)
{
	json_t *status = control_ask(d->a, "status", NULL);

	if (status != NULL && json_is_true(json_object_get(status, "ok"))) {
		d->status = status;
		check_running(d, path);
		return;
	}
	json_decref(status);
	if (d->a->status == EX_NOPERM)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, path, "this user may not ask the supervisor"), "look as root, or as the supervisor's user");
	else if (strstr(d->why, "no supervisor answers") != NULL)
		tell_stopped(d, path);
	else
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "%s", d->why), "look at the supervisor's log, and at its process");
}

int doctor_control_socket(struct doctor *d)
{
	const char *path = d->a->conf->supervisor.control_socket;
	struct stat st;

	if (lstat(path, &st) == -1) {
		if (errno == ENOENT)
			tell_stopped(d, path);
		else
			doctor_advise(doctor_tell(d, SEVERITY_NOTE, path, "%s", strerror(errno)), "look as root, or as the supervisor's user");
		return 0;
	}
	if (!S_ISSOCK(st.st_mode)) {
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "it is no socket: quredisd will not start"),
		    "remove it, or set supervisor.control_socket");
		return 0;
	}
	check_owner(d, path, &st);
	ask(d, path);
	return 0;
}

/* ---- its queues ---- */

static const struct {
	const char *state;
	enum severity severity;
	const char *advice;
} states[] = {
	{ "quiet", SEVERITY_NOTE, "quredis quiet --off" },
	{ "recovering", SEVERITY_NOTE, "wait; if it lasts, the supervisor's log says what is in the way" },
	{ "backoff", SEVERITY_WARNING, "the supervisor's log, event worker_died, says how they die" },
	{ "quarantine", SEVERITY_ERROR, "the supervisor's log, event worker_died, says how they die; then quredis restart" },
	{ "breaker", SEVERITY_ERROR, "quredis run QUEUE --from ingress tries the handler on a message; it is tried again by itself" },
	{ "error", SEVERITY_ERROR, "the supervisor's log, event queue_trouble, says what failed and what helps" },
	{ "no redis", SEVERITY_ERROR, "the other findings, and the supervisor's log, events redis_trouble and queue_trouble" },
};

static void check_queue(struct doctor *d, const json_t *q)
{
	const char *name = json_string_value(json_object_get(q, "name")), *state = json_string_value(json_object_get(q, "state"));
	const char *reason = json_string_value(json_object_get(q, "reason")), *undecided = json_string_value(json_object_get(q, "undecided"));

	for (size_t i = 0; state != NULL && i < nitems(states); i++)
		if (strcmp(states[i].state, state) == 0)
			doctor_advise(doctor_tell(d, states[i].severity, name, "%s: %s", state, reason == NULL ? "" : reason), "%s",
			    states[i].advice);
	if (undecided != NULL)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, name, "%s", undecided),
		    "mend that; if the worker is dead for sure: quredis retry %s transit", name);
}

static bool runs(const json_t *queues, const char *name)
{
	const json_t *q;
	size_t i;

	json_array_foreach(queues, i, q) {
		const char *other = json_string_value(json_object_get(q, "name"));

		if (other != NULL && strcmp(other, name) == 0)
			return true;
	}
	return false;
}

int doctor_supervisor(struct doctor *d)
{
	const json_t *queues = json_object_get(d->status, "queues"), *q;
	const char *state = json_string_value(json_object_get(d->status, "state"));
	json_int_t deaths = json_integer_value(json_object_get(d->status, "unconfirmed_deaths"));
	size_t i;

	if (d->status == NULL) {
		doctor_tell(d, SEVERITY_OK, NULL, "none here that could be asked");
		return 0;
	}
	if (state != NULL && strcmp(state, "draining") == 0)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, NULL, "the supervisor is stopping"), "wait");
	json_array_foreach(queues, i, q)
		check_queue(d, q);
	for (i = 0; i < d->a->conf->nqueues; i++)
		if (!runs(queues, d->a->conf->queues[i]->name))
			doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->a->conf->queues[i]->name,
			    "it is in the configuration, and the supervisor does not run it"), "quredis reload");
	if (deaths > 0)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, NULL, "workers that died, and whose messages are not back yet: %" JSON_INTEGER_FORMAT, deaths),
		    "the supervisor's log says what is in the sweeper's way");
	return 0;
}
