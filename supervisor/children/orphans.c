/* Kills processes that dead children left running. supervisor/reap.c reaps them, since orphans and children end in the
 * same way. */
#include "supervisor/children/orphans.h"

#include <assert.h>

#include "common/base/base.h"
#include "common/log/log.h"

/* a process that lives longer after SIGKILL hangs in the kernel, and runs no more of its own code */
#define CLEAN_MS 5000
#define CLEAN_EVERY_MS 20

static bool spare(pid_t pid, void *orphans)
{
	struct orphans *o = orphans;

	if (o->n < ORPHANS_SPARED)
		o->spared[o->n++] = pid;
	return true;
}

void orphans_init(struct orphans *o, const struct processes *ps)
{
	*o = (struct orphans){ .processes = ps };
	process_kill_children(spare, o);	/* kills none: each is spared */
}

static bool is_spared(pid_t pid, void *orphans)
{
	const struct orphans *o = orphans;

	for (int i = 0; i < o->n; i++)
		if (o->spared[i] == pid)
			return true;
	return pid == o->redis || processes_by_pid(o->processes, pid) != NULL;
}

void orphans_expect(struct orphans *o, int64_t now_ms)
{
	o->pending = true;
	o->pending_ms = now_ms;
}

int64_t orphans_kill(struct orphans *o, int64_t now_ms)
{
	size_t left = process_kill_children(is_spared, o);

	assert(o->pending);
	if (left > 0 && now_ms - o->pending_ms < CLEAN_MS)
		return now_ms + CLEAN_EVERY_MS;
	if (left > 0)
		log_warning("processes_unkillable", log_int("count", (int64_t)left));
	o->pending = false;
	return INT64_MAX;
}

void orphans_kill_last(struct orphans *o, int timeout_ms)
{
	process_kill_children_wait(is_spared, o, timeout_ms);
}

void orphans_keep_redis(struct orphans *o, pid_t redis)
{
	assert(redis > 1);
	o->redis = redis;
}

void orphans_reaped(struct orphans *o, pid_t pid)
{
	for (int i = 0; i < o->n; i++)
		if (o->spared[i] == pid)
			o->spared[i--] = o->spared[--o->n];
	if (pid == o->redis)
		o->redis = 0;
}
