/*
 * The checks of quredis doctor share this: the queue and the connection on which they work. command.c runs them.
 */
#include <sys/stat.h>

#include <poll.h>
#include <string.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"

#define DRAIN_MS 5000
#define MOVES_MS 1000

void doctor_enter(struct doctor *d, struct queue_check *q)
{
	static const struct queue_keys none;

	d->queue = q;
	d->a->keys = q == NULL ? none : q->keys;	/* owned by q: never freed there */
	d->a->queue = q == NULL ? NULL : q->conf;
}

void doctor_drain(struct doctor *d)
{
	struct redis *r = &d->a->redis;
	struct redis_reply reply;

	while (r->state == REDIS_READY && r->pending > 0)
		if (redis_wait(r, &reply, DRAIN_MS, NULL) == -1)
			return;
}

int doctor_reply(struct doctor *d, struct redis_reply *reply)
{
	return admin_wait(d->a, reply);
}

void doctor_let_moves_end(const struct doctor *d)
{
	int64_t left = d->queues.read_ms + MOVES_MS - clock_monotonic_ms();

	if (left > 0)
		poll(NULL, 0, (int)left);
}

void doctor_lose_redis(struct doctor *d)
{
	d->away = true;
}

const char *doctor_user(const struct doctor *d)
{
	return d->a->target.login.user != NULL ? d->a->target.login.user : "default";
}

bool doctor_is_same_file(const char *a, const char *b)
{
	struct stat x, y;

	if (strcmp(a, b) == 0)
		return true;
	return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}
