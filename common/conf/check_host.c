/*
 * Checks against this host, at load time only: users and groups of handlers, whether they can execute their programs,
 * and who can change the files and directories that the configuration names (common/base/file.h). Resolves run_as, so
 * that a forked child need not ask a name service, which may hang.
 *
 * A missing directory that the sweeper uses later is a warning: it may be created until then, and the sweeper logs the
 * error when it matters. A path to write to that others can change is a warning, too: a file of another user is refused
 * when it is opened (common/base/file.h). A link of another user in such a path is an error.
 */
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/xattr.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* ---- users and groups ---- */

#define NAMED_MAX 10

bool conf_is_served(const struct conf_loading *l, const struct conf_queue *q)
{
	return (l->flags & CONF_LENIENT_HANDLERS) == 0 &&
	    (l->only == NULL || (q->name != NULL && strcmp(q->name, l->only) == 0));
}

static void resolve_groups(struct conf_run_as *r)
{
	int n = 16;

	free(r->groups);
	if (r->login == NULL) {
		r->groups = alloc_copy(&r->gid, sizeof(r->gid));
		r->ngroups = 1;
		return;
	}
	r->groups = alloc_zero((size_t)n, sizeof(*r->groups));
	while (getgrouplist(r->login, r->gid, r->groups, &n) == -1)
		r->groups = alloc_resize(r->groups, (size_t)n, sizeof(*r->groups));
	r->ngroups = n;
}

static bool resolve_user(struct conf_run_as *r)
{
	const struct passwd *pw = getpwnam(r->user);

	if (pw == NULL)
		return false;
	r->uid = pw->pw_uid;
	r->gid = pw->pw_gid;
	free(r->home);
	free(r->login);
	r->home = alloc_string(pw->pw_dir);
	r->login = alloc_string(pw->pw_name);
	return true;
}

static void take_user(struct conf_run_as *r, const struct conf_run_as *own)
{
	r->uid = own->uid;
	r->gid = own->gid;
	free(r->home);
	free(r->login);
	r->home = alloc_string(own->home);
	r->login = alloc_string(own->login);
}

unsigned conf_run_as_resolve(struct conf_run_as *r, const struct conf_run_as *own)
{
	bool switches = own != NULL && own->switch_user;
	const struct group *group = r->group == NULL ? NULL : getgrnam(r->group);
	unsigned missing = 0;

	r->uid = geteuid();
	r->gid = getegid();
	if (switches)
		take_user(r, own);
	if (r->user != NULL && !resolve_user(r))
		missing |= CONF_NO_USER;
	if (group != NULL)
		r->gid = group->gr_gid;
	else if (r->group != NULL)
		missing |= CONF_NO_GROUP;
	if (missing == 0 && (r->user != NULL || r->group != NULL || switches))
		resolve_groups(r);
	return missing;
}

static bool in_groups(const struct conf_run_as *r, gid_t gid)
{
	if (gid == r->gid)
		return true;
	for (int i = 0; i < r->ngroups; i++)
		if (r->groups[i] == gid)
			return true;
	return false;
}

bool conf_run_as_may(const struct conf_run_as *r, const struct stat *st, mode_t what)
{
	if (r->uid == 0)
		return what != S_IXOTH || S_ISDIR(st->st_mode) || (st->st_mode & 0111) != 0;
	if (st->st_uid == r->uid)
		return (st->st_mode & (what << 6)) != 0;
	return (st->st_mode & (in_groups(r, st->st_gid) ? what << 3 : what)) != 0;
}

static void check_allowed(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_run_as *r = &q->run_as;

	if (r->user != NULL && r->uid != geteuid())
		conf_error(l, conf_queue_origin(q, "run_as.user"), "run_as.user: only root can run handlers as \"%s\"",
		    r->user);
	if (r->group != NULL && r->gid != getegid())
		conf_error(l, conf_queue_origin(q, "run_as.group"),
		    "run_as.group: only root can run handlers in \"%s\"", r->group);
}

void conf_check_user(struct conf_loading *l, struct conf_queue *q)
{
	struct conf_run_as *r = &q->run_as;
	const struct conf_run_as *own = &l->conf->supervisor.as;
	unsigned missing = conf_run_as_resolve(r, own);

	if (missing & CONF_NO_USER)
		conf_error(l, conf_queue_origin(q, "run_as.user"), "run_as.user: user \"%s\" does not exist", r->user);
	if (missing & CONF_NO_GROUP)
		conf_error(l, conf_queue_origin(q, "run_as.group"), "run_as.group: group \"%s\" does not exist",
		    r->group);
	if (missing != 0 || (r->user == NULL && r->group == NULL && !own->switch_user))
		return;
	/* a worker has become the supervisor's user before; a program that starts the handlers of one queue has not */
	if (geteuid() != 0)
		check_allowed(l, q);
	else
		r->switch_user = l->only != NULL || !own->switch_user || !conf_run_as_same_ids(r, own);
}

/* Only root, or a member, can give the socket to a group. */
static bool is_own_group(gid_t group)
{
	gid_t groups[NGROUPS_MAX];
	int n = getgroups(NGROUPS_MAX, groups);

	for (int i = 0; i < n; i++)
		if (groups[i] == group)
			return true;
	return group == getegid();
}

void conf_check_control_group(struct conf_loading *l)
{
	const struct conf_origin *where = conf_origin(l->conf, "supervisor.control_group");
	const char *name = l->conf->supervisor.control_group;
	const struct group *group = name == NULL ? NULL : getgrnam(name);

	l->conf->supervisor.control_gid = group == NULL ? (gid_t)-1 : group->gr_gid;
	if (name != NULL && group == NULL)
		conf_error(l, where, "supervisor.control_group: group \"%s\" does not exist", name);
	else if (name != NULL && geteuid() != 0 && !is_own_group(group->gr_gid))
		conf_error(l, where,
		    "supervisor.control_group: only root or a member can give the socket to \"%s\"", name);
}

void conf_check_own_user(struct conf_loading *l)
{
	const struct conf_origin *where = conf_origin(l->conf, "supervisor.user");
	struct conf_run_as *r = &l->conf->supervisor.as;

	if (conf_run_as_resolve(r, NULL) != 0)
		conf_error(l, where, "supervisor.user: user \"%s\" does not exist", r->user);
	else if (r->uid != geteuid() && geteuid() != 0)
		conf_error(l, where,
		    "supervisor.user: only root can become \"%s\": start quredisd as root, or as that user", r->user);
	else
		r->switch_user = r->uid != geteuid();
}

void conf_check_root(struct conf_loading *l)
{
	const struct conf *conf = l->conf;
	const struct conf_queue *first = NULL;
	struct buffer names = {0};
	size_t n = 0;

	if (geteuid() != 0 || conf->supervisor.as.switch_user)
		return;
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue *q = conf->queues[i];

		if (!conf_is_served(l, q) || q->run_as.user != NULL || conf_given(conf_queue_origin(q, "run_as.user")))
			continue;
		if (n++ == 0)
			first = q;
		if (n <= NAMED_MAX)
			buffer_format(&names, "%s%s", n > 1 ? ", " : "", conf_shown_name(q));
	}
	if (n > NAMED_MAX)
		buffer_format(&names, " and %zu more", n - NAMED_MAX);
	if (n > 0)
		conf_warning(l, conf_queue_place(first),
		    n == 1 ? "queue %s: without run_as.user its handlers run as root, unless supervisor.user is set" :
		    "queues %s: without run_as.user their handlers run as root, unless supervisor.user is set",
		    names.data);
	else if (l->only == NULL && conf->nqueues > 0 && conf_is_served(l, conf->queues[0]) &&
	    conf->supervisor.as.user == NULL)
		/* handlers have users of their own, but what reads from Redis runs as root */
		conf_warning(l, conf_queue_place(conf->queues[0]),
		    "quredisd runs as root, and so do its processes that read from Redis: set supervisor.user");
	buffer_free(&names);
}

/* ---- paths ---- */

bool conf_is_planned(const struct conf_loading *l, const char *path)
{
	size_t len = l->planned == NULL ? 0 : strlen(l->planned);
	struct stat st;

	return len > 0 && strncmp(path, l->planned, len) == 0 && path[len] == '/' && lstat(path, &st) == -1 &&
	    errno == ENOENT;
}

/* Of a file that is still to be written: the directory in which it, or the first of its directories, will be made. */
static void cut_planned(const struct conf_loading *l, char *path)
{
	struct stat st;

	if (conf_is_planned(l, path))
		while (lstat(path, &st) == -1 && errno == ENOENT && strrchr(path, '/') > path)
			*strrchr(path, '/') = '\0';
}

/* A flaw is an error if every user can use it, or it is grave. A component that cannot be examined may be sound: where
 * it is not grave, that is a warning. */
void conf_check_path(struct conf_loading *l, const struct conf_origin *where, const char *what, const char *path,
    uid_t user, bool grave)
{
	char here[PATH_MAX], *whole, *flaw;
	bool everybody;

	whole = path[0] == '/' || getcwd(here, sizeof(here)) == NULL ? alloc_string(path)
	    : alloc_format("%s/%s", here, path);
	cut_planned(l, whole);
	flaw = file_path_flaw(whole, user, &everybody);
	if (flaw != NULL && (everybody || grave))
		conf_error(l, where, "%s: %s", what, flaw);
	else if (flaw != NULL)
		conf_warning(l, where, "%s: %s", what, flaw);
	free(flaw);
	free(whole);
}

/* quredis never writes to a file of another user; but another user who can change the path can keep it from writing. */
static void check_way(struct conf_loading *l, const struct conf_origin *where, const char *key, const char *path,
    uid_t user)
{
	bool everybody;
	char *link = file_link_flaw(path, user), *flaw = link == NULL ? file_path_flaw(path, user, &everybody) : NULL;

	if (link != NULL)
		conf_error(l, where, "%s: %s", key, link);
	if (flaw != NULL)
		conf_warning(l, where, "%s: %s", key, flaw);
	free(link);
	free(flaw);
}

/* Access control lists may allow more than the mode shows: then only the attempt tells. */
static void check_writer(struct conf_loading *l, const struct conf_origin *where, const char *key, const char *dir,
    const struct stat *st)
{
	const struct conf_run_as *own = &l->conf->supervisor.as;

	if (!own->switch_user || (conf_run_as_may(own, st, S_IWOTH) && conf_run_as_may(own, st, S_IXOTH)) ||
	    getxattr(dir, "system.posix_acl_access", NULL, 0) > 0)
		return;
	conf_error(l, where, "%s: supervisor.user \"%s\" cannot write to %s (mode %04o, uid %u): chown it", key,
	    own->user, dir, st->st_mode & 07777, st->st_uid);
}

static void check_directory(struct conf_loading *l, const struct conf_origin *where, const struct conf_key *key,
    const char *dir)
{
	struct stat st;

	if (stat(dir, &st) == -1 && key->written != CONF_WRITTEN_OWN_DIRECTORY)
		conf_warning(l, where, "%s: %s: %s", key->path, dir, strerror(errno));
	else if (stat(dir, &st) == 0 && !S_ISDIR(st.st_mode))
		conf_warning(l, where, "%s: %s is not a directory", key->path, dir);
	else if (stat(dir, &st) == 0)
		check_writer(l, where, key->path, dir, &st);
}

static char *directory_of(const char *path)
{
	size_t len = (size_t)(strrchr(path, '/') - path);

	return alloc_copy(path, len == 0 ? 1 : len);
}

/* Only a root that may pass over modes sees into a directory that supervisor.user keeps for itself: another one looks
 * with that user's eyes. */
static bool is_seen_by_user_alone(const struct conf *conf, const char *dir)
{
	struct stat st;

	return conf->supervisor.as.switch_user && geteuid() == 0 && stat(dir, &st) == -1 && errno == EACCES;
}

static void check_written_path(struct conf_loading *l, const struct conf_origin *where, const struct conf_key *key,
    const char *path)
{
	const struct conf_run_as *own = &l->conf->supervisor.as;
	bool master = key->written == CONF_WRITTEN_BY_MASTER, log = key->written == CONF_WRITTEN_LOG;
	struct stat st;
	/* the control socket: quredisd lets its group connect */
	bool socket = lstat(path, &st) == 0 && S_ISSOCK(st.st_mode);
	char *way = socket ? directory_of(path) : alloc_string(path);
	char *dir = key->written == CONF_WRITTEN_FILE || log ? directory_of(path) : alloc_string(path);

	if (!master && is_seen_by_user_alone(l->conf, dir))
		privileges_files_as(own->uid, own->gid);
	if (!master && !log)
		check_directory(l, where, key, dir);
	check_way(l, where, key->path, way, master ? geteuid() : own->uid);
	privileges_files_as(geteuid(), getegid());
	free(dir);
	free(way);
}

/* An inherited value is checked where it was given. */
static void check_written(struct conf_loading *l, const struct conf_schema *schema, const void *base,
    const struct conf_origin *origins)
{
	for (size_t i = 0; i < schema->n; i++) {
		const struct conf_key *key = &schema->keys[i];
		const char *path = key->written == CONF_WRITTEN_NOT ? NULL
		    : *(const char *const *)conf_field_const(base, key);

		if (path != NULL && path[0] == '/' &&
		    (conf_given(&origins[i]) || origins[i].kind == CONF_ORIGIN_DEFAULT))
			check_written_path(l, &origins[i], key, path);
	}
}

void conf_check_places(struct conf_loading *l)
{
	const struct conf *conf = l->conf;

	check_written(l, &conf_schema_global, conf, conf->origins);
	for (size_t i = 0; i < conf->nqueues; i++)
		check_written(l, &conf_schema_queue, conf->queues[i], conf->queues[i]->origins);
	if (conf->redis.embedded && conf->redis.server != NULL)
		conf_check_path(l, conf_origin(conf, "redis.server"), "redis.server", conf->redis.server,
		    conf->supervisor.as.uid, geteuid() == 0);
	for (size_t i = 0; i < l->nfiles; i++) {
		char *path = l->planned == NULL ? alloc_string(conf->files[i]) : alloc_format("%s/", l->planned);

		conf_check_path(l, &(struct conf_origin){ CONF_ORIGIN_FILE, 0, conf->files[i] },
		    "the configuration file", path, geteuid(), geteuid() == 0);
		free(path);
	}
}
