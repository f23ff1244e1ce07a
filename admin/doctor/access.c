/*
 * Checks the users of Redis: one that may push to a queue should not be able to write a key that quredis trusts, or to
 * read the secrets that seal lines. Redis itself answers, with ACL DRYRUN (Redis 7). A user that may run scripts counts
 * as a supervisor or an operator. Of a user only the name is shown.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define USERS_MOST 200		/* checked: a dozen commands each */

/* The rights of a user that are asked for; the answers come in this order. */
enum dryrun { MAY_RUN_SCRIPTS, MAY_PUSH, MAY_READ_SECRET, MAY_WRITE_FIRST };

static int take_dryrun(struct doctor *d, bool *may)
{
	struct redis_reply reply;

	if (doctor_reply(d, &reply) == -1)
		return -1;
	/* a refusal is a STRING that says why; an error: this server has no DRYRUN */
	*may = reply.type == REDIS_STATUS;
	return 0;
}

static int check_user(struct doctor *d, const struct queue_keys *k, const char *user, const char *secret)
{
	/* keys of each kind that quredis trusts */
	const char *const keys[] = { k->transit, k->escape, k->workers, k->paused, k->delayed, k->registered, secret };
	const char *writes = NULL;
	bool may[MAY_WRITE_FIRST] = {0}, writable = false;
	struct redis *r = &d->a->redis;

	redis_appendf(r, "ACL DRYRUN %s EVALSHA 0 0", user);
	redis_appendf(r, "ACL DRYRUN %s LPUSH %s x", user, k->ingress);
	redis_appendf(r, "ACL DRYRUN %s GET %s", user, secret);
	for (size_t i = 0; i < nitems(keys); i++)
		redis_appendf(r, "ACL DRYRUN %s LPUSH %s x", user, keys[i]);
	for (int i = 0; i < MAY_WRITE_FIRST; i++)
		if (take_dryrun(d, &may[i]) == -1)
			return -1;
	for (size_t i = 0; i < nitems(keys); i++) {
		if (take_dryrun(d, &writable) == -1)
			return -1;
		writes = writable && writes == NULL ? keys[i] : writes;
	}
	if (may[MAY_RUN_SCRIPTS] || !may[MAY_PUSH] || (writes == NULL && !may[MAY_READ_SECRET]))
		return 0;
	findings_advise(findings_add(d, SEVERITY_WARNING, user,
	    "this user of Redis may push to %s, and also %s %s, which quredis trusts", k->ingress,
	    writes != NULL ? "write" : "read", writes != NULL ? writes : secret),
	    "give producers only their own keys: ACL SETUSER %s resetkeys -@all (+lpush ~%s) (+zadd ~%s) "
	    "(docs/operating.md)", user, k->ingress, k->pushed);
	return 0;
}

int check_access(struct doctor *d, struct queue_check *q)
{
	char *secret = queue_key_of(&d->a->redis, QUEUE_KEY_SECRET, NULL), *users[USERS_MOST];
	struct redis_reply reply;
	size_t n = 0, unchecked = 0;
	int rc;

	redis_appendf(&d->a->redis, "ACL LIST");
	rc = doctor_reply(d, &reply);
	for (size_t i = 0; rc == 0 && reply.type == REDIS_ARRAY && i < reply.n; i++) {
		/* "user NAME on ..."; another user cannot log in */
		struct redis_reply line = redis_element(&reply, i);
		const char *name = line.type == REDIS_STRING && strncmp(line.str, "user ", 5) == 0 ? line.str + 5 : "";
		size_t len = strcspn(name, " ");

		if (len == 0 || strncmp(name + len, " on ", 4) != 0)
			continue;
		if (n < USERS_MOST)
			users[n++] = alloc_copy(name, len);
		else
			unchecked++;
	}
	for (size_t i = 0; i < n; i++) {
		rc = rc == 0 ? check_user(d, &q->keys, users[i], secret) : rc;
		free(users[i]);
	}
	if (rc == 0 && unchecked > 0)
		findings_advise(findings_add(d, SEVERITY_NOTE, NULL,
		    "the first %d users of Redis were checked, and %zu more were not", USERS_MOST,
		    unchecked), "ACL DRYRUN says what one of them may do: docs/operating.md, Users of Redis");
	free(secret);
	return rc;
}
