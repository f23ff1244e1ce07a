/*
 * run_as resolved while loading: looking up users after fork may hang on a name service, and a user that
 * is gone should be told at once. Leaves the switching to worker/.
 */
#include <sys/types.h>

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/buffer.h"
#include "common/conf_load.h"

#define NAMED_MAX 10

static const char *shown(const struct conf_queue *q)
{
	return q->name == NULL ? "?" : q->name;
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

static bool resolve_group(struct conf_run_as *r)
{
	const struct group *gr = getgrnam(r->group);

	if (gr != NULL)
		r->gid = gr->gr_gid;
	return gr != NULL;
}

unsigned conf_run_as_resolve(struct conf_run_as *r)
{
	unsigned missing = 0;

	r->uid = geteuid();
	r->gid = getegid();
	if (r->user != NULL && !resolve_user(r))
		missing |= CONF_NO_USER;
	if (r->group != NULL && !resolve_group(r))
		missing |= CONF_NO_GROUP;
	if (missing == 0 && (r->user != NULL || r->group != NULL))
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
		conf_error(l, conf_queue_origin(q, "run_as.user"), "run_as.user: only root can run handlers as \"%s\"", r->user);
	if (r->group != NULL && r->gid != getegid())
		conf_error(l, conf_queue_origin(q, "run_as.group"), "run_as.group: only root can run handlers in \"%s\"",
		    r->group);
}

static void check_missing(struct conf_loading *l, const struct conf_queue *q, unsigned missing)
{
	if (missing & CONF_NO_USER)
		conf_error(l, conf_queue_origin(q, "run_as.user"), "run_as.user: there is no user \"%s\"", q->run_as.user);
	if (missing & CONF_NO_GROUP)
		conf_error(l, conf_queue_origin(q, "run_as.group"), "run_as.group: there is no group \"%s\"", q->run_as.group);
}

void conf_check_user(struct conf_loading *l, struct conf_queue *q)
{
	struct conf_run_as *r = &q->run_as;
	unsigned missing = conf_run_as_resolve(r);

	check_missing(l, q, missing);
	if (missing != 0 || (r->user == NULL && r->group == NULL))
		return;
	if (geteuid() == 0)
		r->switch_user = true;
	else
		check_allowed(l, q);
}

void conf_check_root(struct conf_loading *l)
{
	const struct conf_queue *first = NULL;
	struct buffer names = {0};
	size_t n = 0;

	for (size_t i = 0; geteuid() == 0 && i < l->conf->nqueues; i++) {
		const struct conf_queue *q = l->conf->queues[i];

		if (!conf_is_served(l, q) || q->run_as.user != NULL || conf_given(conf_queue_origin(q, "run_as.user")))
			continue;
		if (n++ == 0)
			first = q;
		if (n <= NAMED_MAX)
			buffer_format(&names, "%s%s", n > 1 ? ", " : "", shown(q));
	}
	if (n > NAMED_MAX)
		buffer_format(&names, " and %zu more", n - NAMED_MAX);
	if (n > 0)
		conf_warning(l, conf_queue_place(first), n == 1 ? "queue %s: without run_as.user its handlers run as root" :
		    "queues %s: without run_as.user their handlers run as root", names.data);
	buffer_free(&names);
}
