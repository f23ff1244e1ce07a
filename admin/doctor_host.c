/* What a supervisor needs on this host beside its configuration: a lock file that locks, descriptors, secrets that are. */
#include <sys/resource.h>
#include <sys/stat.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/doctor.h"

#include "common/alloc.h"
#include "common/network_fs.h"

#define FILES_OF_A_PROCESS 64	/* master, sweeper or worker with the pipes of its handler: half of that, and room */
#define FILES_OF_REDIS 64	/* beside its clients */

/* ---- the lock file ---- */

/* The file, or where it would be made. */
static int open_near(const char *path)
{
	char *copy = alloc_string(path);
	int fd = open(path, O_PATH | O_CLOEXEC);

	if (fd == -1)
		fd = open(dirname(copy), O_PATH | O_CLOEXEC);
	free(copy);
	return fd;
}

int doctor_lock_file(struct doctor *d)
{
	const char *path = d->a->conf->supervisor.lock_file, *fs;
	struct stat st;
	int fd;

	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "it is no regular file: quredisd will not start"),
		    "remove it, or set supervisor.lock_file");
	fd = open_near(path);
	if (fd == -1)
		return 0;	/* quredisd makes its directory */
	fs = network_fs_name(fd);
	if (fs != NULL)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "it lies on a network file system (%s), where a lock proves nothing", fs),
		    "set supervisor.lock_file to a local path, such as /run/quredis/quredisd.lock");
	close(fd);
	return 0;
}

/* ---- open files ---- */

/* "Max open files  1024  524288  files": what counts now is the first. */
static int64_t limit_of_process(int64_t pid)
{
	char *path = alloc_format("/proc/%" PRId64 "/limits", pid), line[256];
	FILE *f = fopen(path, "re");
	int64_t limit = -1;

	free(path);
	while (f != NULL && limit == -1 && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, "Max open files", 14) == 0)
			limit = strtoll(line + 14, NULL, 10);
	if (f != NULL)
		fclose(f);
	return limit;
}

/* Of the supervisor that runs, of the unit that would run it, or what we have. */
static int64_t find_limit(const struct doctor *d, const char **whose)
{
	const char *text = d->unit.path == NULL ? NULL : unit_file_get(&d->unit, "LimitNOFILE");
	int64_t limit = d->status == NULL ? -1 : limit_of_process(json_integer_value(json_object_get(d->status, "pid")));
	struct rlimit r;

	*whose = "the supervisor";
	if (limit > 0)
		return limit;
	*whose = d->unit.path;
	if (text != NULL)
		return strcmp(text, "infinity") == 0 ? INT64_MAX : strtoll(text, NULL, 10);
	*whose = "this shell";
	return getrlimit(RLIMIT_NOFILE, &r) == -1 || r.rlim_cur == RLIM_INFINITY ? INT64_MAX : (int64_t)r.rlim_cur;
}

int doctor_open_files(struct doctor *d)
{
	const struct conf *conf = d->a->conf;
	int64_t needs = FILES_OF_A_PROCESS, workers = 0, limit;
	const char *whose;

	for (size_t i = 0; i < conf->nqueues; i++)
		workers += conf->queues[i]->workers;
	if (conf->redis.embedded)	/* a connection for each, and another one to wake it */
		needs = 2 * workers + FILES_OF_REDIS;
	if (needs < FILES_OF_A_PROCESS)
		needs = FILES_OF_A_PROCESS;
	limit = find_limit(d, &whose);
	if (limit < needs)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, whose, "%" PRId64 " open files are allowed, and %s needs %" PRId64, limit,
		    conf->redis.embedded ? "the embedded Redis" : "a worker", needs),
		    d->unit.path != NULL ? "systemctl edit quredisd: [Service] LimitNOFILE=65536" : "ulimit -n 65536 before quredisd is started");
	return 0;
}

/* ---- secrets ---- */

static void check_password_file(struct doctor *d)
{
	const char *path = d->a->conf->redis.password_file;
	struct stat st;

	/* A bare name is a credential, which systemd keeps. */
	if (path == NULL || path[0] != '/' || stat(path, &st) == -1)
		return;
	if (st.st_uid != 0 && st.st_uid != d->supervisor_uid)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "the password belongs to uid %u, and quredisd runs as uid %u", st.st_uid,
		    d->supervisor_uid), "chown %u %s", d->supervisor_uid, path);
	if ((st.st_mode & 077) != 0)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, path, "others can read the password (mode %04o)", st.st_mode & 07777),
		    "chmod 600 %s, and change the password if somebody may have read it", path);
}

static void check_embedded(struct doctor *d)
{
	const struct conf *conf = d->a->conf;
	struct stat st;

	if (!conf->redis.embedded || conf->redis.dir == NULL)
		return;
	if (stat(conf->redis.dir, &st) == -1)
		doctor_advise(doctor_tell(d, SEVERITY_ERROR, conf->redis.dir, "the directory of the embedded Redis: %s", strerror(errno)),
		    "install -d -m 700 %s", conf->redis.dir);
	else if ((st.st_mode & 077) != 0)
		doctor_advise(doctor_tell(d, SEVERITY_WARNING, conf->redis.dir, "others can look into what Redis keeps (mode %04o)",
		    st.st_mode & 07777), "chmod 700 %s", conf->redis.dir);
}

static bool holds_password(const char *environment)
{
	const char *variable = strstr(environment, "QUREDIS_REDIS_URL="), *url, *at, *colon;

	url = variable == NULL ? NULL : strstr(variable, "://");
	at = url == NULL ? NULL : strchr(url, '@');
	colon = url == NULL ? NULL : strchr(url + 3, ':');
	return at != NULL && colon != NULL && colon < at;
}

/* Units can be read by everybody. Each Environment= adds to those before it. */
static void check_unit_environment(struct doctor *d)
{
	for (size_t i = 0; i < d->unit.n; i++)
		if (strcmp(d->unit.settings[i].key, "Environment") == 0 && holds_password(d->unit.settings[i].value))
			doctor_advise(doctor_tell(d, SEVERITY_WARNING, d->unit.path, "Environment= holds a password, and everybody can read it"),
			    "redis.password_file, with LoadCredential= or a file of mode 0600");
}

int doctor_secrets(struct doctor *d)
{
	check_password_file(d);
	check_embedded(d);
	check_unit_environment(d);
	return 0;
}
