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
#include "common/conf_load.h"

static const char *shown(const struct conf_queue *q)
{
	return q->name == NULL ? "?" : q->name;
}

static void resolve_groups(struct conf_run_as *r)
{
	int n = 16;

	r->groups = alloc_zero((size_t)n, sizeof(*r->groups));
	while (getgrouplist(r->login, r->gid, r->groups, &n) == -1)
		r->groups = alloc_resize(r->groups, (size_t)n, sizeof(*r->groups));
	r->ngroups = n;
}

static int resolve_user(struct conf_loading *l, struct conf_queue *q)
{
	struct conf_run_as *r = &q->run_as;
	const struct passwd *pw = getpwnam(r->user);

	if (pw == NULL) {
		conf_error(l, conf_queue_origin(q, "run_as.user"), "run_as.user: there is no user \"%s\"", r->user);
		return -1;
	}
	r->uid = pw->pw_uid;
	r->gid = pw->pw_gid;
	r->home = alloc_string(pw->pw_dir);
	r->login = alloc_string(pw->pw_name);
	return 0;
}

static int resolve_group(struct conf_loading *l, struct conf_queue *q)
{
	const struct group *gr = getgrnam(q->run_as.group);

	if (gr == NULL) {
		conf_error(l, conf_queue_origin(q, "run_as.group"), "run_as.group: there is no group \"%s\"", q->run_as.group);
		return -1;
	}
	q->run_as.gid = gr->gr_gid;
	return 0;
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

static void check_root(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_place(q);

	if (q->run_as.user == NULL && !conf_given(conf_queue_origin(q, "run_as.user")))
		conf_warning(l, where, "queue %s: without run_as.user its handlers run as root", shown(q));
}

void conf_check_user(struct conf_loading *l, struct conf_queue *q)
{
	struct conf_run_as *r = &q->run_as;
	int rc = 0;

	r->uid = geteuid();
	r->gid = getegid();
	if (geteuid() == 0)
		check_root(l, q);
	if (r->user == NULL && r->group == NULL)
		return;
	if (r->user != NULL)
		rc |= resolve_user(l, q);
	if (r->group != NULL)
		rc |= resolve_group(l, q);
	if (rc != 0)
		return;
	if (geteuid() != 0) {
		check_allowed(l, q);
		return;
	}
	r->switch_user = true;
	if (r->login != NULL) {
		resolve_groups(r);
	} else {
		r->groups = alloc_copy(&r->gid, sizeof(r->gid));
		r->ngroups = 1;
	}
}
