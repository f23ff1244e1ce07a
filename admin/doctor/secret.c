/*
 * Checks that Redis has the secret that seals wrappers (common/queue/secret.c). While it is lost no queue works; a new
 * one makes a dead letter of each message that the old one sealed, until the old one is back. So the repair, which
 * --fix applies after its question, is the last resort.
 */
#include <stdlib.h>
#include <sysexits.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/message/message.h"
#include "common/queue/queue.h"

static int read_secret(struct doctor *d)
{
	struct redis_reply reply;

	queue_secret(&d->a->redis, false);
	do
		if (doctor_reply(d, &reply) == -1)
			return -1;
	while (queue_secret_ask_again(&d->a->redis, false, NULL, &reply));
	queue_secret_learn(&reply);
	return reply.type == REDIS_ERROR ? admin_refused(d->a, &reply, NULL) : 0;
}

/* Every earlier one may be what an operator needs, so none is overwritten. */
static int set_aside(struct doctor *d)
{
	for (int n = 1; n <= QUEUE_SECRET_ASIDES; n++) {
		struct redis_reply reply;

		queue_secret_set_aside(&d->a->redis, n);
		if (doctor_reply(d, &reply) == -1)
			return -1;
		if (reply.type != REDIS_INTEGER || reply.integer != 0)
			return 0;	/* renamed; or there is nothing, or it must stay: the next command says why */
	}
	return admin_fail(d->a, EX_CONFIG,
	    "quredis:secret:aside to quredis:secret:aside:%d are all taken by earlier repairs: delete those that hold "
	    "no secret, then run doctor --fix again", QUEUE_SECRET_ASIDES);
}

/* Reads it again: it may have been restored while the operator was asked. */
static int replace_secret(struct doctor *d, const struct finding *f)
{
	struct redis_reply reply;

	(void)f;
	if (read_secret(d) == -1)
		return -1;
	if (queue_secret_lost()[0] == '\0')
		return 0;
	if (set_aside(d) == -1)
		return -1;
	queue_secret_replace(&d->a->redis);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (reply.type == REDIS_ERROR)
		return admin_refused(d->a, &reply, NULL);
	return queue_secret_learn(&reply) == -1
	    ? admin_fail(d->a, EX_PROTOCOL, "unexpected reply from Redis when writing the secret") : 0;
}

static const struct fix replacing = { "rename what stands there to quredis:secret:aside (if taken, "
    "quredis:secret:aside:2 and so on), and create a new secret: messages that the old one sealed escape as "
    MESSAGE_UNKNOWN_SEAL ", unread", replace_secret };

int check_secret(struct doctor *d)
{
	char *key = queue_key_of(&d->a->redis, QUEUE_KEY_SECRET, NULL);
	int rc = read_secret(d);

	if (rc == 0 && queue_secret_lost()[0] != '\0') {
		struct finding *f = findings_add(d, SEVERITY_ERROR, key, "%s", queue_secret_lost());

		findings_advise(f, "restore the key from the Redis that held these lists before, a replica or a "
		    "backup: every queue then continues, and quredis dlq retry continues with what escaped as "
		    MESSAGE_UNKNOWN_SEAL "; a supervisor that still knows the secret writes it back within 10 s");
		findings_offer(f, &replacing, NULL);
	}
	free(key);
	return rc;
}
