/* Checks the supervisor of this host: that it answers, runs this configuration, and has no queue that fails. */
#include <sys/stat.h>

#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/board/board.h"
#include "common/holds/holds.h"

/* ---- the socket ---- */

static void add_stopped(struct doctor *d, const char *path)
{
	if (d->a->conf->nqueues == 0)
		findings_add(d, SEVERITY_OK, path, "no supervisor runs here, and no queue is configured");
	else
		findings_advise(findings_add(d, SEVERITY_WARNING, path, "no supervisor runs here"),
		    unit_is_ours(d) ? "systemctl start quredisd" :
		    "start quredisd; a host that only pushes messages needs none");
}

static void check_owner(struct doctor *d, const char *path, const struct stat *st)
{
	const char *user = unit_get(d, "User");
	const struct passwd *pw = getpwnam(user[0] == '\0' ? "root" : user);

	if (unit_is_ours(d) && pw != NULL && pw->pw_uid != st->st_uid)
		findings_advise(findings_add(d, SEVERITY_WARNING, path,
		    "it belongs to uid %u, but the unit runs quredisd as %s", st->st_uid, pw->pw_name),
		    "an operator started another supervisor by hand: stop it, and systemctl start quredisd");
	if ((st->st_mode & S_IRWXO) != 0)
		findings_advise(findings_add(d, SEVERITY_WARNING, path, "every user may connect to it (mode %04o)",
		    st->st_mode & 07777), "chmod 660 %s; quredisd still refuses users without the right", path);
}

static const char *or_quotes(const char *text)
{
	return text[0] == '\0' ? "\"\"" : text;
}

static void add_other(struct doctor *d, const char *path, const char *what, const char *theirs, const char *ours)
{
	findings_advise(findings_add(d, SEVERITY_ERROR, path,
	    "the supervisor there uses %s %s, but the configuration here says %s: commands look where no worker does",
	    what, or_quotes(theirs), or_quotes(ours)),
	    "restart quredisd if the configuration was changed (a reload takes a new server, but no new redis.prefix); "
	    "otherwise look for QUREDIS_REDIS_URL and QUREDIS_REDIS_PREFIX in the environment of either");
}

/* The file may have changed since the supervisor read it, and the environment of this command may be another one. */
static void check_server(struct doctor *d, const char *path)
{
	const json_t *redis = json_object_get(d->supervisor.status, "redis");
	const char *target = json_string_value(json_object_get(redis, "target")),
	    *prefix = json_string_value(json_object_get(redis, "prefix"));
	const char *ours = d->a->conf->redis.prefix == NULL ? "" : d->a->conf->redis.prefix;
	const struct redis_options options = conf_redis_options(d->a->conf);
	struct redis_target t;
	char error[256];

	if (prefix != NULL && strcmp(prefix, ours) != 0)
		add_other(d, path, "redis.prefix", prefix, ours);
	if (target == NULL || json_is_true(json_object_get(redis, "embedded")) != d->a->conf->redis.embedded ||
	    redis_target_parse(&t, &options, error, sizeof(error)) == -1)
		return;
	if (strcmp(target, t.shown) != 0)
		add_other(d, path, "the server", target, t.shown);
	redis_target_free(&t);
}

static void check_running(struct doctor *d, const char *path)
{
	const char *theirs = json_string_value(json_object_get(d->supervisor.status, "config")),
	    *ours = admin_conf_path(d->a);
	const char *version = json_string_value(json_object_get(d->supervisor.status, "version"));

	if (theirs != NULL && ours != NULL && !doctor_is_same_file(theirs, ours))
		findings_advise(findings_add(d, SEVERITY_WARNING, path, "the supervisor there runs %s, not %s", theirs,
		    ours), "to check that one: quredis -c %s doctor", theirs);
	if (version != NULL && strcmp(version, QUREDIS_VERSION) != 0)
		findings_advise(findings_add(d, SEVERITY_NOTE, path, "the supervisor is version %s, this command is %s",
		    version, QUREDIS_VERSION), "restart quredisd at a good time");
	if (json_is_true(json_object_get(d->supervisor.status, "lock_removed")))
		findings_advise(findings_add(d, SEVERITY_ERROR, path,
		    "the supervisor's lock file was removed: another quredisd can start beside it"),
		    "restart quredisd");
	check_server(d, path);
}

static void ask_supervisor(struct doctor *d, const char *path)
{
	json_t *status = control_ask(d->a, "status", NULL);

	if (status != NULL && json_is_true(json_object_get(status, "ok"))) {
		d->supervisor.status = status;
		check_running(d, path);
		return;
	}
	json_decref(status);
	if (d->a->status == EX_NOPERM)
		findings_advise(findings_add(d, SEVERITY_NOTE, path, "this user may not ask the supervisor"),
		    "run doctor as root or as the supervisor's user");
	else if (strstr(d->why, "no supervisor answers") != NULL)
		add_stopped(d, path);
	else
		findings_advise(findings_add(d, SEVERITY_ERROR, path, "%s", d->why), "read the supervisor's log");
}

int check_control(struct doctor *d)
{
	const char *path = control_path(d->a);
	struct stat st;

	if (lstat(path, &st) == -1 && errno == ENOENT) {
		add_stopped(d, path);
	} else if (lstat(path, &st) == -1) {
		findings_advise(findings_add(d, SEVERITY_NOTE, path, "%s", strerror(errno)),
		    "run doctor as root or as the supervisor's user");
	} else if (!S_ISSOCK(st.st_mode)) {
		findings_advise(findings_add(d, SEVERITY_ERROR, path, "it is not a socket, so quredisd cannot start"),
		    "remove it, or set supervisor.control_socket");
	} else {
		check_owner(d, path, &st);
		ask_supervisor(d, path);
	}
	return 0;
}

/*
 * An operator who sees only the errors of the file would think that nothing runs. The checks that need a configuration
 * are left out then, so this one asks the supervisor by itself.
 */
void doctor_tell_older(struct doctor *d)
{
	struct conf *kept = d->a->conf;
	struct conf_report none;
	const char *theirs, *failed;
	json_t *status;

	d->a->conf = conf_load(admin_conf_path(d->a), CONF_LENIENT_HANDLERS | CONF_DESPITE_ERRORS, &none);
	conf_report_free(&none);
	status = control_status(d->a);
	theirs = json_string_value(json_object_get(status, "config"));
	failed = json_string_value(json_object_get(json_object_get(status, "reload_failed"), "reason"));
	if (theirs != NULL && admin_conf_path(d->a) != NULL && doctor_is_same_file(theirs, admin_conf_path(d->a)))
		findings_advise(findings_add(d, SEVERITY_WARNING, control_path(d->a), "%s%s%s", failed == NULL
		    ? "the supervisor runs with the configuration that it read before" : HOLD_RELOAD_FAILED_WORDS,
		    failed == NULL ? "" : ": ", failed == NULL ? "" : failed),
		    "quredis status shows its queues; correct the errors, then: quredis reload");
	json_decref(status);
	conf_free(d->a->conf);
	d->a->conf = kept;
}

/* ---- its queues ---- */

static const enum severity of_levels[] = {
	[HOLD_WELL] = SEVERITY_OK, [HOLD_ORDERED] = SEVERITY_NOTE, [HOLD_PASSING] = SEVERITY_NOTE,
	[HOLD_WARNING] = SEVERITY_WARNING,
	[HOLD_BAD] = SEVERITY_ERROR
};

/* The directory of the archive, if the reason is that it cannot be used; else NULL. */
static const char *failed_archive(const struct doctor *d, const char *name, const char *reason)
{
	const struct conf_queue *q = conf_queue_find(d->a->conf, name);
	const char *of_archive = queue_error_reason(queue_error_word(QUEUE_ERROR_ARCHIVE, COMMAND_UNNAMED));

	return q != NULL && reason != NULL && strncmp(reason, of_archive, strlen(of_archive)) == 0
	    ? q->dead_letter.archive : NULL;
}

static void add_hold(struct doctor *d, const char *name, enum hold hold, const char *reason)
{
	const struct hold_words *words = &holds_table[hold];
	const char *archive = failed_archive(d, name, reason);

	if (archive != NULL) {
		findings_advise(findings_add(d, of_levels[words->level], name, "%s: %s", words->name, reason),
		    "see that %s exists, has free space (df), and that the supervisor's user may write there; quredis "
		    "then goes on by itself", archive);
		return;
	}
	findings_advise(findings_add(d, of_levels[words->level], name, "%s: %s", words->name,
	    reason == NULL ? "" : reason), "%s%s%s", words->advice,
	    words->after == NULL ? "" : name, words->after == NULL ? "" : words->after);
}

static void check_hold(struct doctor *d, const char *name, const json_t *row, bool drains, bool is_state)
{
	enum hold hold = holds_by_name(json_string_value(json_object_get(row, "state")));

	if (hold == HOLDS || holds_table[hold].advice == NULL || (drains && hold == HOLD_DRAINING))
		return;
	if (is_state || !holds_end_by_themselves(hold))
		add_hold(d, name, hold, json_string_value(json_object_get(row, "reason")));
}

/*
 * A finding for each hold that needs an operator; an older supervisor tells the worst one only, as its state. A queue
 * that drains with its supervisor needs none of its own.
 */
static void check_queue(struct doctor *d, const json_t *q, bool drains)
{
	const char *name = json_string_value(json_object_get(q, "name"));
	const char *undecided = json_string_value(json_object_get(q, "undecided"));
	const json_t *holds = json_object_get(q, "holds"), *row;
	const char *not_ready = json_string_value(json_object_get(json_object_get(q, "renewal"), "not_ready"));
	size_t i;

	if (!json_is_array(holds))
		check_hold(d, name, q, drains, true);
	json_array_foreach(holds, i, row)
		check_hold(d, name, row, drains, i == 0);
	if (undecided != NULL)
		findings_advise(findings_add(d, SEVERITY_ERROR, name, "%s", undecided),
		    "correct that; if the worker is certainly dead: quredis retry %s transit", name);
	if (not_ready != NULL)
		findings_advise(findings_add(d, SEVERITY_WARNING, name,
		    "the " HOLD_NOT_READY_WORDS ": %s", not_ready),
		    "correct the new handler, then: quredis restart %s", name);
}

int check_supervisor(struct doctor *d)
{
	const json_t *queues = json_object_get(d->supervisor.status, "queues"), *q;
	const char *state = json_string_value(json_object_get(d->supervisor.status, "state"));
	const char *failed = json_string_value(json_object_get(json_object_get(d->supervisor.status, "reload_failed"),
	    "reason"));
	bool drains = state != NULL && strcmp(state, "draining") == 0;
	json_int_t deaths = json_integer_value(json_object_get(d->supervisor.status, "unconfirmed_deaths"));
	size_t i;

	if (d->supervisor.status == NULL) {
		findings_add(d, SEVERITY_OK, NULL, "skipped: no supervisor answered");
		return 0;
	}
	if (drains)
		findings_advise(findings_add(d, SEVERITY_NOTE, NULL, "the supervisor drains, and then stops"), "wait");
	if (failed != NULL)
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL, HOLD_RELOAD_FAILED_WORDS ": %s", failed),
		    "correct it if that is not done yet, then: quredis reload");
	json_array_foreach(queues, i, q)
		check_queue(d, q, drains);
	for (i = 0; i < d->a->conf->nqueues; i++)
		if (queue_node_row(d->supervisor.status, d->a->conf->queues[i]->name) == NULL)
			findings_advise(findings_add(d, SEVERITY_WARNING, d->a->conf->queues[i]->name,
			    "it is configured, but the supervisor does not run it"), "quredis reload");
	if (deaths > 0)
		findings_advise(findings_add(d, SEVERITY_WARNING, NULL,
		    "messages of dead workers have not returned yet; dead workers: %" JSON_INTEGER_FORMAT,
		    deaths), "the supervisor's log says why the sweeper cannot return them");
	return 0;
}

int check_log(struct doctor *d)
{
	const json_t *log = json_object_get(d->supervisor.status, "log");
	const char *target = json_string_value(json_object_get(log, "target")),
	    *since = json_string_value(json_object_get(log, "since"));
	const char *error = json_string_value(json_object_get(log, "error"));
	json_int_t lost = json_integer_value(json_object_get(log, "lost"));

	if (log == NULL)
		findings_add(d, SEVERITY_OK, NULL, "skipped: no supervisor answered that tells it");
	else if (since != NULL)
		findings_advise(findings_add(d, SEVERITY_ERROR, target,
		    "it has taken no line since %s (%s); lost lines: %" JSON_INTEGER_FORMAT, since,
		    error == NULL ? "" : error, lost),
		    "look at the disk (df), its quota and LimitFSIZE=, or at the reader of the log; the work goes on "
		    "meanwhile");
	else if (lost > 0)
		findings_advise(findings_add(d, SEVERITY_NOTE, target,
		    "it takes lines, but lost some since the supervisor started: %" JSON_INTEGER_FORMAT, lost),
		    "event log_lines_lost in the log says where they are missing");
	return 0;
}
