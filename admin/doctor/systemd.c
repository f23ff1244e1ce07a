/*
 * The systemd unit, if it runs this configuration: its stop leaves enough time, it kills and restarts as quredisd
 * expects, and its sandbox hides nothing that handlers need. The values come from systemctl show, so they include
 * drop-ins and defaults. Without systemctl, or where systemd does not run, the check is skipped.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

/* beyond drain_timeout and kill_grace: for the workers, the sweeper and Redis to end */
#define STOP_MORE_MS 2000
#define WATCHDOG_LEAST_MS 5000
#define SPAN_FOREVER INT64_MAX
#define SHOW "systemctl show %s.service -p " \
    "LoadState,FragmentPath,ExecStart,Type,TimeoutStopUSec,WatchdogUSec,KillMode,OOMPolicy,User," \
	"RuntimeDirectory,RuntimeDirectoryPreserve,ProtectHome,PrivateTmp,Environment 2>/dev/null"

/* ---- the unit ---- */

const char *unit_get(const struct doctor *d, const char *property)
{
	size_t len = strlen(property);

	for (const char *line = d->unit.lines.data; line != NULL && line < d->unit.lines.data + d->unit.lines.len;
	    line += strlen(line) + 1)
		if (strncmp(line, property, len) == 0 && line[len] == '=')
			return line + len + 1;
	return "";
}

bool unit_is_ours(const struct doctor *d)
{
	return d->unit.lines.len > 0;
}

/* The configuration in "ExecStart={ path=... ; argv[]=quredisd -c FILE ; ... }"; a new string. */
static char *configuration_of(const struct doctor *d)
{
	char *copy = alloc_string(unit_get(d, "ExecStart")), *rest = strstr(copy, "argv[]="), *word, *path = NULL;

	while (rest != NULL && (word = strsep(&rest, " ")) != NULL && strcmp(word, ";") != 0)
		if (strcmp(word, "-c") == 0 || strcmp(word, "--config") == 0)
			path = strsep(&rest, " ");
		else if (strncmp(word, "--config=", 9) == 0)
			path = word + 9;
	path = alloc_string(path == NULL ? CONF_SYSTEM_PATH : path);
	free(copy);
	return path;
}

static void forget_unit(struct doctor *d, const char *why)
{
	buffer_free(&d->unit.lines);
	d->unit.none = why;
}

/* Each line ends with a NUL, so that a value is a string. */
static bool read_unit(struct doctor *d)
{
	char *command = alloc_format(SHOW, d->unit.name), *line = NULL;
	FILE *f = popen(command, "re");
	size_t size = 0;
	ssize_t len;

	while (f != NULL && (len = getline(&line, &size, f)) > 0) {
		line[len - 1] = '\0';
		buffer_append(&d->unit.lines, line, (size_t)len);
	}
	free(line);
	free(command);
	return f != NULL && pclose(f) == 0;
}

/* The instance of the template that would run this file: "quredisd@a" for a.conf. false: none can, or the name has
 * bytes that a shell may read otherwise. */
static bool name_instance(struct doctor *d, const char *path)
{
	const char *slash = strrchr(path, '/'), *file = slash == NULL ? path : slash + 1;
	size_t len = strlen(file), end = strlen(".conf");

	if (len <= end || strcmp(file + len - end, ".conf") != 0 || !identifier_is(IDENTIFIER_NAME, file, len - end))
		return false;
	snprintf(d->unit.name, sizeof(d->unit.name), "quredisd@%.*s", (int)(len - end), file);
	return true;
}

static bool unit_runs(const struct doctor *d, const char *path)
{
	char *theirs = configuration_of(d);
	bool same = strcmp(unit_get(d, "LoadState"), "loaded") == 0 && doctor_is_same_file(path, theirs);

	free(theirs);
	return same;
}

void unit_find(struct doctor *d)
{
	const char *ours = admin_conf_path(d->a);

	strlcpy(d->unit.name, "quredisd", sizeof(d->unit.name));
	if (!read_unit(d)) {
		forget_unit(d, "skipped: systemctl does not answer here");
		return;
	}
	if (ours != NULL && unit_runs(d, ours))
		return;
	forget_unit(d, "no quredisd.service or quredisd@NAME.service runs this configuration");
	if (ours == NULL || !name_instance(d, ours))
		return;
	if (!read_unit(d) || !unit_runs(d, ours))
		forget_unit(d, d->unit.none);
}

/* A time span of systemctl, such as "1min 30s" or "infinity", in ms; -1: unknown form. */
static int64_t span_ms(const char *text)
{
	static const struct { const char *name; double ms; } units[] = {
		{ "us", 0.001 }, { "ms", 1 }, { "s", 1e3 }, { "min", 6e4 }, { "h", 3.6e6 }, { "d", 8.64e7 },
		{ "w", 6.048e8 },
	};
	double total = 0;

	if (strcmp(text, "infinity") == 0)
		return SPAN_FOREVER;
	if (strcmp(text, "0") == 0)
		return 0;
	while (*text != '\0') {
		char *unit;
		double n = strtod(text, &unit);
		size_t len = strcspn(unit, " "), i = 0;

		while (i < nitems(units) && (strlen(units[i].name) != len || strncmp(units[i].name, unit, len) != 0))
			i++;
		if (unit == text || i == nitems(units))
			return -1;
		total += n * units[i].ms;
		text = unit + len + strspn(unit + len, " ");
	}
	return (int64_t)total;
}

/* ---- checks of one setting each ---- */

/* Values that are wrong with every configuration. */
static const struct {
	const char *property, *value, *problem, *advice;
} wrong[] = {
	{ "KillMode", "control-group",
	    "at a stop systemd sends SIGTERM to all handlers at once, and drain_timeout has no effect",
	    "KillMode=mixed" },
	{ "KillMode", "process", "if quredisd is killed, its handlers keep running", "KillMode=mixed" },
	{ "KillMode", "none", "if quredisd is killed, its handlers keep running", "KillMode=mixed" },
	{ "OOMPolicy", "stop", "if the kernel kills one handler for its memory, systemd stops the whole service",
	    "OOMPolicy=continue" },
	{ "OOMPolicy", "kill", "if the kernel kills one handler for its memory, systemd kills the whole service",
	    "OOMPolicy=continue" },
};

/* With Type=notify quredisd asks systemd for more time while it drains, so that the default is enough. */
static void check_stop(struct doctor *d, const char *unit)
{
	const struct conf *conf = d->a->conf;
	bool notifies = strncmp(unit_get(d, "Type"), "notify", 6) == 0;
	int64_t grace = conf->supervisor.kill_grace_ms, needs, has = span_ms(unit_get(d, "TimeoutStopUSec"));
	char need[UNITS_SIZE];

	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i]->kill_grace_ms > grace)
			grace = conf->queues[i]->kill_grace_ms;
	needs = conf->supervisor.drain_timeout_ms + grace + STOP_MORE_MS;
	if (has <= 0 || has > needs)	/* 0: without a limit */
		return;
	findings_advise(findings_add(d, notifies ? SEVERITY_NOTE : SEVERITY_WARNING, unit,
	    "TimeoutStopSec=%s is not more than drain_timeout + kill_grace + 2 s (%s)%s",
	    unit_get(d, "TimeoutStopUSec"), units_format_duration(needs, need),
	    notifies ? ": enough only because quredisd asks for more time while it drains"
	    : ": systemd kills a supervisor that still drains"),
	    "systemctl edit %s: [Service] TimeoutStopSec=%lld, or set a shorter supervisor.drain_timeout", d->unit.name,
	    (long long)needs / 1000 + 5);
}

static void check_user(struct doctor *d, const char *unit)
{
	const char *user = unit_get(d, "User");

	for (size_t i = 0; i < d->a->conf->nqueues && user[0] != '\0' && strcmp(user, "root") != 0 &&
	    strcmp(user, "0") != 0; i++) {
		const struct conf_queue *q = d->a->conf->queues[i];

		if (q->run_as.user != NULL && strcmp(q->run_as.user, user) != 0)
			findings_advise(findings_add(d, SEVERITY_ERROR, unit,
			    "User=%s, but only root can run the handlers of %s as %s", user, q->name,
			    q->run_as.user), "run the unit as root, or remove run_as.user");
	}
}

static void check_runtime_directory(struct doctor *d, const char *unit)
{
	char *dir = alloc_format("/run/%s/", unit_get(d, "RuntimeDirectory"));

	if (strcmp(unit_get(d, "RuntimeDirectoryPreserve"), "no") == 0 && strlen(dir) > strlen("/run//") &&
	    strncmp(d->a->conf->supervisor.lock_file, dir, strlen(dir)) == 0)
		findings_advise(findings_add(d, SEVERITY_NOTE, unit,
		    "RuntimeDirectoryPreserve=no: each start makes a new lock file, so after a crash messages return "
		    "only when the old leases have expired"),
		    "systemctl edit %s: [Service] RuntimeDirectoryPreserve=yes", d->unit.name);
	free(dir);
}

/* Every user can read the environment of a unit. */
static void check_environment(struct doctor *d, const char *unit)
{
	const char *variable = strstr(unit_get(d, "Environment"), "QUREDIS_REDIS_URL="),
	    *url = variable == NULL ? NULL : strstr(variable, "://");
	size_t user = url == NULL ? 0 : strcspn(url + 3, ":@ ");

	if (url != NULL && url[3 + user] == ':' && strchr(url + 3 + user, '@') != NULL)
		findings_advise(findings_add(d, SEVERITY_WARNING, unit,
		    "Environment= holds a password, and every user can read it"),
		    "put it into redis.password_file, with LoadCredential= or in a file of mode 0600");
}

/* ---- the sandbox ---- */

static void check_hidden(struct doctor *d, const char *name, const char *path)
{
	static const struct { const char *directory, *property; } hidden[] = {
		{ "/home", "ProtectHome" }, { "/root", "ProtectHome" }, { "/run/user", "ProtectHome" },
		{ "/tmp", "PrivateTmp" }, { "/var/tmp", "PrivateTmp" },
	};

	for (size_t i = 0; path != NULL && i < nitems(hidden); i++) {
		const char *value = unit_get(d, hidden[i].property);
		size_t len = strlen(hidden[i].directory);
		bool below = strncmp(path, hidden[i].directory, len) == 0 && (path[len] == '/' || path[len] == '\0');

		if (below && (strcmp(value, "yes") == 0 || strcmp(value, "tmpfs") == 0))
			findings_advise(findings_add(d, SEVERITY_ERROR, path, "%s: the unit hides this path (%s=%s)",
			    name, hidden[i].property, value),
			    "move it elsewhere, or systemctl edit %s: [Service] %s=no", d->unit.name,
			    hidden[i].property);
	}
}

static void check_sandbox(struct doctor *d)
{
	const struct conf *conf = d->a->conf;

	if (strncmp(conf->redis.url, "unix://", 7) == 0)
		check_hidden(d, "the socket of Redis", conf->redis.url + 7);
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		check_hidden(d, q->name, q->handler == NULL ? NULL : q->handler[0]);
		check_hidden(d, q->name, q->run_as.directory);
	}
}

int check_systemd(struct doctor *d)
{
	const char *unit = unit_get(d, "FragmentPath"), *watchdog = unit_get(d, "WatchdogUSec");
	int64_t watchdog_ms = span_ms(watchdog);

	if (!unit_is_ours(d)) {
		findings_add(d, SEVERITY_OK, NULL, "%s", d->unit.none);
		return 0;
	}
	for (size_t i = 0; i < nitems(wrong); i++)
		if (strcmp(unit_get(d, wrong[i].property), wrong[i].value) == 0)
			findings_advise(findings_add(d, SEVERITY_WARNING, unit, "%s=%s: %s", wrong[i].property,
			    wrong[i].value, wrong[i].problem),
			    "systemctl edit %s: [Service] %s", d->unit.name, wrong[i].advice);
	check_stop(d, unit);
	if (watchdog_ms > 0 && watchdog_ms < WATCHDOG_LEAST_MS)
		findings_advise(findings_add(d, SEVERITY_WARNING, unit,
		    "WatchdogSec=%s is so short that systemd may kill quredisd on a busy machine", watchdog),
		    "systemctl edit %s: [Service] WatchdogSec=30s", d->unit.name);
	check_user(d, unit);
	check_runtime_directory(d, unit);
	check_environment(d, unit);
	check_sandbox(d);
	return 0;
}
