/*
 * Keys below the transits of all queues, found with SCAN: trays and leases of owners that are not registered. No other
 * part of quredis uses SCAN. It costs Redis about a second for a few million keys, in small steps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/doctor/checks.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SCAN_COUNT 1000
#define UNREGISTERED_MOST 10000	/* of one queue */
#define SIGNED_ENTRIES 16

/* ---- one key ---- */

static int by_incarnation(const void *a, const void *b)
{
	return strcmp(((const struct unregistered *)a)->incarnation, ((const struct unregistered *)b)->incarnation);
}

static void take_owner(struct doctor *d, struct queue_check *q, const char *incarnation)
{
	if (queue_workers_find(q->lists.workers, q->lists.nworkers, incarnation) != NULL)
		return;
	if (q->nunregistered == UNREGISTERED_MOST) {
		d->survey.sampled = true;
		return;
	}
	q->unregistered = alloc_resize(q->unregistered, q->nunregistered + 1, sizeof(*q->unregistered));
	q->unregistered[q->nunregistered] = (struct unregistered){0};
	strlcpy(q->unregistered[q->nunregistered++].incarnation, incarnation, INCARNATION_SIZE);
}

/* The queues whose lists were read, by transit; of equal transits the first counts. */
struct transits {
	struct queue_check **all;
	size_t n;
};

static int by_transit(const void *a, const void *b)
{
	const struct queue_check *x = *(struct queue_check *const *)a, *y = *(struct queue_check *const *)b;
	int order = strcmp(x->keys.transit, y->keys.transit);

	return order == 0 ? (x > y) - (x < y) : order;
}

static struct queue_check *find_transit(const struct transits *t, const char *name, size_t len)
{
	size_t low = 0, high = t->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strncmp(t->all[middle]->keys.transit, name, len) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	/* the name itself stands before longer ones that begin with it */
	return low < t->n && strncmp(t->all[low]->keys.transit, name, len) == 0 &&
	    t->all[low]->keys.transit[len] == '\0' ? t->all[low] : NULL;
}

/* If the name of one transit is the beginning of another's, the key belongs to the longer one. */
static void take_key(struct doctor *d, const struct transits *t, const struct redis_reply *key)
{
	struct queue_place place;

	for (size_t len = key->len; len-- > 0;) {
		struct queue_check *q = key->str[len] == ':' ? find_transit(t, key->str, len) : NULL;

		if (q == NULL || queue_place_parse(&place, &q->keys, key->str, key->len) == -1)
			continue;
		if (place.kind == QUEUE_PLACE_LEASE || place.kind == QUEUE_PLACE_TRAY)
			take_owner(d, q, place.incarnation);
		return;
	}
}

/* ---- all keys ---- */

/* Returns the longest common beginning of all transit keys, as a new string, so that Redis does not send other keys. */
static char *common_prefix(const struct doctor *d)
{
	char *prefix = alloc_string(d->queues.all[0].keys.transit);

	for (size_t i = 1; i < d->queues.n; i++) {
		size_t n = 0;

		while (prefix[n] != '\0' && prefix[n] == d->queues.all[i].keys.transit[n])
			n++;
		prefix[n] = '\0';
	}
	return prefix;
}

/* 1: there are more; 0: that was the last page; -1: as a check. */
static int scan_page(struct doctor *d, const struct transits *t, char cursor[32], const char *prefix)
{
	struct redis_reply reply, keys;

	queue_scan(&d->a->redis, cursor, prefix, SCAN_COUNT);
	if (admin_reply(d->a, &reply, NULL) == -1)
		return -1;
	if (reply.type != REDIS_ARRAY || reply.n != 2 || redis_element(&reply, 0).type != REDIS_STRING ||
	    redis_element(&reply, 1).type != REDIS_ARRAY)
		return admin_fail(d->a, EX_PROTOCOL, "SCAN: unexpected reply type from Redis");
	keys = redis_element(&reply, 1);
	for (size_t i = 0; i < keys.n; i++) {
		struct redis_reply key = redis_element(&keys, i);

		take_key(d, t, &key);
	}
	strlcpy(cursor, redis_element(&reply, 0).str, 32);
	return strcmp(cursor, "0") == 0 ? 0 : 1;
}

static int scan(struct doctor *d)
{
	char *prefix = common_prefix(d), cursor[32] = "0";
	struct transits transits = { .all = alloc_zero(d->queues.n + 1, sizeof(struct queue_check *)) };
	struct progress progress;
	int64_t looked = 0;
	int rc;

	for (size_t i = 0; i < d->queues.n; i++)
		if (d->queues.all[i].readable)
			transits.all[transits.n++] = &d->queues.all[i];
	qsort(transits.all, transits.n, sizeof(struct queue_check *), by_transit);
	progress_begin(&progress, "scanning all keys", 0, 0);
	do {
		rc = scan_page(d, &transits, cursor, prefix);
		looked += SCAN_COUNT;
		progress_show(&progress, looked);
	} while (rc == 1 && looked < d->keys_most);
	progress_end(&progress);
	d->survey.sampled = d->survey.sampled || rc == 1;
	free(transits.all);
	free(prefix);
	return rc == -1 ? -1 : 0;
}

/* ---- trays of the owners ---- */

static void sort_owners(struct queue_check *q)
{
	size_t n = 0;

	if (q->nunregistered > 0)
		qsort(q->unregistered, q->nunregistered, sizeof(*q->unregistered), by_incarnation);
	for (size_t i = 0; i < q->nunregistered; i++)
		if (n == 0 || strcmp(q->unregistered[n - 1].incarnation, q->unregistered[i].incarnation) != 0)
			q->unregistered[n++] = q->unregistered[i];
	q->nunregistered = n;
}

/* Computes a signature from the length and the left end of each tray. An owner pushes at the left end, so its every
 * change changes the signature. */
static int sign_trays(struct doctor *d, struct queue_check *q, struct unregistered *u)
{
	struct buffer all = {0};
	int rc = 0;

	for (int t = 0; rc == 0 && t <= QUEUE_TRAYS; t++) {
		char *key = queue_tray_key(&q->keys, u->incarnation, t);
		struct entries page = {0};

		buffer_format(&all, "%d:%" PRId64 ";", t, u->trays[t]);
		if (u->trays[t] > 0)
			rc = entries_read(d->a, key, 0, false, SIGNED_ENTRIES, &page);
		for (size_t i = 0; i < page.n; i++)
			buffer_format(&all, "%zu:%s", page.all[i].size, page.all[i].sha1);
		entries_free(&page);
		free(key);
	}
	encode_sha1(all.data, all.len, u->signature);
	buffer_free(&all);
	return rc;
}

static int take_number(struct doctor *d, const char *key, int64_t *value)
{
	struct redis_reply reply;

	if (doctor_reply(d, &reply) == -1)
		return -1;
	*value = reply.type == REDIS_INTEGER ? reply.integer : LISTS_WRONG_TYPE;
	return redis_error_class(&reply) == REDIS_ERROR_WRONG_TYPE || reply.type != REDIS_ERROR ? 0
	    : admin_refused(d->a, &reply, key);
}

int survey_look(struct doctor *d, struct queue_check *q, struct unregistered *u, bool signing)
{
	int64_t registered, lease_ms;

	queue_knows_worker(&d->a->redis, &q->keys, u->incarnation);
	queue_lease_left(&d->a->redis, &q->keys, u->incarnation);
	for (int t = 0; t <= QUEUE_TRAYS; t++) {
		char *key = queue_tray_key(&q->keys, u->incarnation, t);

		redis_appendf(&d->a->redis, "LLEN %s", key);
		free(key);
	}
	if (take_number(d, q->keys.workers, &registered) == -1 || take_number(d, q->keys.transit, &lease_ms) == -1)
		return -1;
	u->leased = lease_ms != -2;
	u->total = 0;
	u->wrong_type = false;
	for (int t = 0; t <= QUEUE_TRAYS; t++) {
		if (take_number(d, q->keys.transit, &u->trays[t]) == -1)
			return -1;
		u->total += u->trays[t] > 0 ? u->trays[t] : 0;
		u->wrong_type = u->wrong_type || u->trays[t] == LISTS_WRONG_TYPE;
	}
	if (registered == 1)
		return 1;
	return signing ? sign_trays(d, q, u) : 0;
}

/* Keeps only owners that are still unregistered and still have messages or a lease. */
static int look_at_owners(struct doctor *d, struct queue_check *q)
{
	size_t n = 0;

	sort_owners(q);
	for (size_t i = 0; i < q->nunregistered; i++) {
		struct unregistered *u = &q->unregistered[i];
		int rc = survey_look(d, q, u, d->a->options.fix);

		if (rc == -1)
			return -1;
		if (rc == 0 && (u->leased || u->total > 0 || u->wrong_type))
			q->unregistered[n++] = *u;
	}
	q->nunregistered = n;
	return 0;
}

const struct unregistered *survey_find(const struct queue_check *q, const char *incarnation)
{
	struct unregistered like;

	strlcpy(like.incarnation, incarnation, sizeof(like.incarnation));
	return bsearch(&like, q->unregistered, q->nunregistered, sizeof(like), by_incarnation);
}

int check_keys(struct doctor *d)
{
	int rc = d->queues.n == 0 ? 0 : scan(d);

	for (size_t i = 0; i < d->queues.n && rc == 0; i++)
		rc = look_at_owners(d, &d->queues.all[i]);
	if (rc == 0) {
		d->survey.done = d->queues.n > 0;
		if (d->survey.sampled)
			findings_advise(findings_add(d, SEVERITY_NOTE, NULL,
			    "there are more keys than the scan read (%" PRId64 "): others may hold lost messages",
			    d->keys_most), "give a larger --limit");
		return 0;
	}
	if (d->a->status != EX_NOPERM)
		return -1;
	doctor_drain(d);
	if (redis_error_classify(d->why) == REDIS_ERROR_NO_COMMAND)
		findings_advise(findings_add(d, SEVERITY_NOTE, d->a->target.shown,
		    "it refuses SCAN, so doctor cannot find lost messages: %s", d->why),
		    "nothing is wrong for the queues");
	else
		findings_advise(findings_add(d, SEVERITY_NOTE, d->a->target.shown,
		    "the Redis user %s may not scan keys, so doctor cannot find lost messages: %s", doctor_user(d),
		    d->why), "run it as a user of Redis who may SCAN (-u), or ACL SETUSER %s +scan", doctor_user(d));
	return 0;
}
