/*
 * The systemd unit, where it runs this configuration: does it give the time that a stop takes, and does it stop, kill and
 * restart what quredisd relies on. Its files are read (unit_file.c); systemd itself is not asked.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "admin/doctor.h"

#include "common/alloc.h"
#include "common/duration.h"
#include "common/nitems.h"

#define UNIT "quredisd.service"
#define STOP_DEFAULT_MS 90000		/* of systemd */
#define STOP_MORE_MS 2000		/* beyond drain_timeout and kill_grace: workers end, the sweeper, Redis */
#define WATCHDOG_LEAST_MS 5000

/* ---- whose it is ---- */

/* The configuration that the unit starts with: a new string. */
static char *configuration_of(const struct unit_file *u)
{
	const char *start = unit_file_get(u, "ExecStart");
	char *line = alloc_string(start == NULL ? "" : start), *rest = line, *word, *found = NULL;

	while ((word = strsep(&rest, " \t")) != NULL)
		if (strcmp(word, "-c") == 0 || strcmp(word, "--config") == 0)
			found = strsep(&rest, " \t");
		else if (strncmp(word, "--config=", 9) == 0)
			found = word + 9;
	found = alloc_string(found == NULL ? QUREDIS_SYSCONFDIR "/quredis/quredis.conf" : found);
	free(line);
	return found;
}

void doctor_unit_find(struct doctor *d)
{
	const char *ours = admin_conf_path(d->a);
	char *theirs;

	unit_file_read(&d->unit, UNIT);
	theirs = configuration_of(&d->unit);
	if (ours == NULL || !doctor_is_same_file(ours, theirs))
		unit_file_free(&d->unit);
	free(theirs);
}

/* ---- one setting each ---- */

static bool is_one_of(const char *value, const char *const *words, size_t n)
{
	for (size_t i = 0; value != NULL && i < n; i++)
		if (strcasecmp(value, words[i]) == 0)
			return true;
	return false;
}

static bool notifies(const struct doctor *d)
{
	static const char *const types[] = { "notify", "notify-reload" };

	return is_one_of(unit_file_get(&d->unit, "Type"), types, nitems(types));
}

static struct finding *tell(struct doctor *d, enum severity severity, const char *what)
{
	return doctor_tell(d, severity, d->unit.path, "%s", what);
}

static int64_t stop_needs_ms(const struct conf *conf)
{
	int64_t grace = conf->supervisor.kill_grace_ms;

	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i]->kill_grace_ms > grace)
			grace = conf->queues[i]->kill_grace_ms;
	return conf->supervisor.drain_timeout_ms + grace + STOP_MORE_MS;
}

/* With sd_notify quredisd asks for more time while it drains, so that the rest of a stop is what counts. */
static void check_stop(struct doctor *d)
{
	const char *text = unit_file_get(&d->unit, "TimeoutStopSec");
	int64_t needs = stop_needs_ms(d->a->conf), has;
	char need[DURATION_SIZE];
	struct finding *f;

	if (text == NULL)
		text = unit_file_get(&d->unit, "TimeoutSec");
	has = text == NULL ? STOP_DEFAULT_MS : unit_file_time(text);
	if (has == UNIT_TIME_BAD || has == 0 || has > needs)	/* 0: for ever */
		return;
	f = doctor_tell(d, notifies(d) ? SEVERITY_NOTE : SEVERITY_WARNING, d->unit.path,
	    "TimeoutStopSec=%s is not more than drain_timeout + kill_grace + 2 s (%s)%s", text == NULL ? "90s (the default)" : text,
	    duration_format(needs, need), notifies(d) ? ": enough only because quredisd asks for more while it drains" :
	    ": systemd kills what is still draining");
	doctor_advise(f, "systemctl edit quredisd: [Service] TimeoutStopSec=%lld, or a shorter supervisor.drain_timeout",
	    (long long)needs / 1000 + 5);
}

static void check_watchdog(struct doctor *d)
{
	static const char *const nobody[] = { "none" };
	const char *text = unit_file_get(&d->unit, "WatchdogSec"), *access = unit_file_get(&d->unit, "NotifyAccess");
	int64_t ms = text == NULL ? 0 : unit_file_time(text);

	if (ms <= 0 || ms == UNIT_TIME_INFINITY)
		return;
	if (is_one_of(access, nobody, nitems(nobody)) || (access == NULL && !notifies(d)))
		doctor_advise(tell(d, SEVERITY_ERROR, "WatchdogSec is set, and nobody may notify: systemd will kill a healthy quredisd"),
		    "systemctl edit quredisd: [Service] Type=notify NotifyAccess=main");
	else if (ms < WATCHDOG_LEAST_MS)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->unit.path, "WatchdogSec=%s is so short that a busy machine looks like a hang", text),
		    "systemctl edit quredisd: [Service] WatchdogSec=30s");
}

static void check_kill_mode(struct doctor *d)
{
	const char *mode = unit_file_get(&d->unit, "KillMode");

	if (mode == NULL || strcmp(mode, "control-group") == 0)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->unit.path,
		    "KillMode=%s: at a stop handlers get SIGTERM at once, and drain_timeout is in vain",
		    mode == NULL ? "control-group (the default)" : mode), "systemctl edit quredisd: [Service] KillMode=mixed");
	else if (strcmp(mode, "mixed") != 0)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->unit.path,
		    "KillMode=%s: should quredisd be killed, handlers are left over", mode), "systemctl edit quredisd: [Service] KillMode=mixed");
}

static void check_oom(struct doctor *d)
{
	const char *policy = unit_file_get(&d->unit, "OOMPolicy");

	if (policy != NULL && strcmp(policy, "continue") == 0)
		return;
	doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->unit.path,
	    "OOMPolicy=%s: one handler that the kernel kills for its memory ends the whole service", policy == NULL ? "stop (the default)" : policy),
	    "systemctl edit quredisd: [Service] OOMPolicy=continue");
}

static void check_user(struct doctor *d)
{
	const char *user = unit_file_get(&d->unit, "User");
	const struct conf *conf = d->a->conf;

	if (user == NULL || strcmp(user, "root") == 0 || strcmp(user, "0") == 0)
		return;
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		if (q->run_as.user != NULL && strcmp(q->run_as.user, user) != 0)
			doctor_advise(doctor_tell(d, SEVERITY_ERROR, d->unit.path,
			    "User=%s, and only root can run handlers of %s as %s", user, q->name, q->run_as.user),
			    "run the unit as root, or without run_as.user");
	}
}

static void check_runtime_directory(struct doctor *d)
{
	static const char *const kept[] = { "yes", "true", "on", "1", "restart" };
	const char *name = unit_file_get(&d->unit, "RuntimeDirectory"), *lock = d->a->conf->supervisor.lock_file;
	char *dir;

	if (name == NULL || is_one_of(unit_file_get(&d->unit, "RuntimeDirectoryPreserve"), kept, nitems(kept)))
		return;
	dir = alloc_format("/run/%s/", name);
	if (strncmp(lock, dir, strlen(dir)) == 0)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, d->unit.path,
		    "RuntimeDirectoryPreserve is not set: the lock file is a new one at each start, so what a crash left in work comes back only after a lease"),
		    "systemctl edit quredisd: [Service] RuntimeDirectoryPreserve=yes");
	free(dir);
}

int doctor_unit(struct doctor *d)
{
	if (d->unit.path == NULL) {
		doctor_tell(d, SEVERITY_OK, NULL, "no %s that runs this configuration", UNIT);
		return 0;
	}
	check_stop(d);
	check_watchdog(d);
	check_kill_mode(d);
	check_oom(d);
	check_user(d);
	check_runtime_directory(d);
	return 0;
}
