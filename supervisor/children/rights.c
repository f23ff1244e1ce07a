/*
 * The rights of root that each kind of child keeps if supervisor.user is set. The master keeps all of them: it opens
 * files at a reload and kills handlers of any user, but it reads no byte that a stranger has written. Whatever does
 * read such bytes becomes supervisor.user here, before the first of them.
 */
#include "supervisor/children/rights.h"

#include <sys/resource.h>

#include <errno.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/log/log.h"

#define OTHER_USERS (PRIVILEGES_BIT(CAP_SETUID) | PRIVILEGES_BIT(CAP_SETGID) | PRIVILEGES_BIT(CAP_KILL))

static void drop_or_exit(const struct privileges *p)
{
	const char *step = privileges_drop(p);

	if (step == NULL)
		return;
	log_error("privileges_kept", log_str("step", step), log_str("reason", strerror(errno)),
	    log_str("advice", "the process ends: it may not run as root. Start quredisd with CAP_SETUID and "
	    "CAP_SETGID, or without supervisor.user"));
	_exit(EX_OSERR);
}

static struct privileges as_user(const struct conf *conf, uint64_t keep, bool sealed)
{
	const struct conf_run_as *own = &conf->supervisor.as;

	return (struct privileges){ .uid = own->uid, .gid = own->gid, .groups = own->groups, .ngroups = own->ngroups,
	    .keep = keep, .sealed = sealed };
}

static bool is_above(const struct rlimit *limit, int64_t value)
{
	return value != -1 && limit->rlim_max != RLIM_INFINITY && (rlim_t)value > limit->rlim_max;
}

/* Limits that only root can set. */
static bool needs_resource(const struct conf_queue *q)
{
	const struct conf_limits *l = &q->limits;
	struct rlimit files, processes, memory, size;

	if (l->oom_score_adj_set && l->oom_score_adj < 0)
		return true;
	if (getrlimit(RLIMIT_NOFILE, &files) == -1 || getrlimit(RLIMIT_NPROC, &processes) == -1 ||
	    getrlimit(RLIMIT_DATA, &memory) == -1 || getrlimit(RLIMIT_FSIZE, &size) == -1)
		return false;
	return is_above(&files, l->open_files) || is_above(&processes, l->processes) || is_above(&memory, l->memory) ||
	    is_above(&size, l->file_size);
}

/* The rights that the parent of the handlers of this queue needs. */
static uint64_t needs_of(const struct conf_queue *q)
{
	uint64_t keep = q->run_as.switch_user ? OTHER_USERS : 0;

	if (!q->run_as.no_new_privs)
		keep |= PRIVILEGES_BIT(CAP_KILL);	/* a handler may start programs that change their user */
	if (q->run_as.nice < 0)
		keep |= PRIVILEGES_BIT(CAP_SYS_NICE);
	if (needs_resource(q))
		keep |= PRIVILEGES_BIT(CAP_SYS_RESOURCE);
	return keep;
}

/* The handlers of root get their capabilities from their worker, so it cannot have less. */
void rights_of_worker(const struct conf *conf, const struct conf_queue *q)
{
	struct privileges p = as_user(conf, needs_of(q), q->run_as.no_new_privs);

	if (conf->supervisor.as.switch_user && q->run_as.uid != 0)
		drop_or_exit(&p);
}

/* Commands of a queue run as its handler does. */
void rights_of_sweeper(const struct conf *conf)
{
	struct privileges p = as_user(conf, 0, true);

	for (size_t i = 0; i < conf->nqueues; i++)
		if ((conf->purge.enabled && conf->queues[i]->purge.check != NULL) ||
		    (conf->health.enabled && conf->queues[i]->health.on_change != NULL))
			p.keep |= needs_of(conf->queues[i]);
	if (conf->supervisor.as.switch_user)
		drop_or_exit(&p);
}

/* Finds and kills processes of any user, and removes their cgroups, which are root's. */
void rights_of_search(const struct conf *conf)
{
	struct privileges p = as_user(conf, PRIVILEGES_BIT(CAP_KILL) | PRIVILEGES_BIT(CAP_SYS_PTRACE) |
	    PRIVILEGES_BIT(CAP_DAC_OVERRIDE), true);

	if (conf->supervisor.as.switch_user)
		drop_or_exit(&p);
}

void rights_of_keeper(const struct conf *conf)
{
	struct privileges p = as_user(conf, 0, true);

	if (conf->supervisor.as.switch_user)
		drop_or_exit(&p);
}
