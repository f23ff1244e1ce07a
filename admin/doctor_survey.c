/*
 * All keys of all queues' transits, found with SCAN: those of owners that are in no registration are kept, each with what
 * it has. Nothing else in quredis scans: this costs the server about a second for a few million keys, in small pieces.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/doctor.h"

#include "admin/entries.h"
#include "admin/progress.h"
#include "admin/visible.h"
#include "common/alloc.h"
#include "common/digest.h"
#include "common/queue_survey.h"

#define SCAN_COUNT 1000
#define STRANGERS_MOST 10000	/* of one queue */
#define SIGNED_ENTRIES 16

/* ---- who is known ---- */

static int by_incarnation(const void *a, const void *b)
{
	return strcmp(((const struct stranger *)a)->incarnation, ((const struct stranger *)b)->incarnation);
}

/* The incarnations that one queue's registrations name, sorted. */
struct known {
	const char **name;
	size_t n;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static struct known known_of(const struct patient *p)
{
	struct known k = { alloc_zero(p->lists.nworkers + 1, sizeof(char *)), p->lists.nworkers };

	for (size_t i = 0; i < k.n; i++)
		k.name[i] = p->lists.workers[i].incarnation;
	qsort(k.name, k.n, sizeof(k.name[0]), by_name);
	return k;
}

static bool is_known(const struct known *k, const char *incarnation)
{
	return bsearch(&incarnation, k->name, k->n, sizeof(k->name[0]), by_name) != NULL;
}

/* ---- one key ---- */

static void add_stranger(struct doctor *d, struct patient *p, const char *incarnation)
{
	if (p->nstrangers == STRANGERS_MOST) {
		d->sampled = true;
		return;
	}
	p->strangers = alloc_resize(p->strangers, p->nstrangers + 1, sizeof(*p->strangers));
	p->strangers[p->nstrangers] = (struct stranger){0};
	strlcpy(p->strangers[p->nstrangers++].incarnation, incarnation, INCARNATION_SIZE);
}

static void count_key(size_t *n, char **example, const struct redis_reply *key)
{
	if ((*n)++ == 0)
		*example = visible(key->str, key->len, 150);
}

static void take_place(struct doctor *d, struct patient *p, const struct known *k, const struct queue_place *place,
    const struct redis_reply *key)
{
	switch (place->kind) {
	case QUEUE_PLACE_LEASE:
	case QUEUE_PLACE_TRAY:
		if (!is_known(k, place->incarnation))
			add_stranger(d, p, place->incarnation);
		break;
	case QUEUE_PLACE_SCRATCH:
		count_key(&p->nscratch, &p->scratch, key);
		break;
	case QUEUE_PLACE_UNKNOWN:
		count_key(&p->nunknown, &p->unknown, key);
		break;
	case QUEUE_PLACE_WORKERS:
	case QUEUE_PLACE_BARE_RESCUE:
	case QUEUE_PLACE_ASIDE:
		break;
	}
}

/* Where names of one transit begin with another's, the longer one owns the key. */
static void take_key(struct doctor *d, const struct known *known, const struct redis_reply *key)
{
	struct queue_place best, place;
	size_t found = SIZE_MAX, longest = 0;

	for (size_t i = 0; i < d->npatients; i++) {
		size_t len = strlen(d->patients[i].keys.transit);

		if (!d->patients[i].readable || (found != SIZE_MAX && len <= longest) ||
		    queue_place_parse(&place, &d->patients[i].keys, key->str, key->len) == -1)
			continue;
		best = place;
		found = i;
		longest = len;
	}
	if (found != SIZE_MAX)
		take_place(d, &d->patients[found], &known[found], &best, key);
}

/* ---- all keys ---- */

/* What all transits begin with: the server need not send the rest. */
static char *common_prefix(const struct doctor *d)
{
	char *prefix = NULL;

	for (size_t i = 0; i < d->npatients; i++) {
		const char *transit = d->patients[i].keys.transit;
		size_t n = 0;

		if (prefix == NULL)
			prefix = alloc_string(transit);
		while (prefix[n] != '\0' && prefix[n] == transit[n])
			n++;
		prefix[n] = '\0';
	}
	return prefix;
}

/* 1: there is more; 0: that was the last; -1: as a check. */
static int scan_page(struct doctor *d, const struct known *known, char cursor[32], const char *prefix)
{
	struct redis_reply reply, keys;

	queue_scan(&d->a->redis, cursor, prefix, SCAN_COUNT);
	if (admin_reply(d->a, &reply, NULL) == -1)
		return -1;
	if (reply.type != REDIS_ARRAY || reply.n != 2 || redis_element(&reply, 0).type != REDIS_STRING ||
	    redis_element(&reply, 1).type != REDIS_ARRAY)
		return admin_fail(d->a, EX_PROTOCOL, "SCAN: Redis answered something else than keys");
	keys = redis_element(&reply, 1);
	for (size_t i = 0; i < keys.n; i++) {
		struct redis_reply key = redis_element(&keys, i);

		take_key(d, known, &key);
	}
	strlcpy(cursor, redis_element(&reply, 0).str, 32);
	return strcmp(cursor, "0") == 0 ? 0 : 1;
}

static int scan(struct doctor *d, const struct known *known)
{
	char *prefix = common_prefix(d), cursor[32] = "0";
	struct progress progress;
	int64_t looked = 0;
	int rc;

	progress_begin(&progress, "looking at all keys", 0);
	do {
		rc = scan_page(d, known, cursor, prefix);
		looked += SCAN_COUNT;
		progress_show(&progress, looked);
	} while (rc == 1 && looked < d->keys_most);
	progress_end(&progress);
	d->sampled = d->sampled || rc == 1;
	free(prefix);
	return rc == -1 ? -1 : 0;
}

/* ---- what they have ---- */

static void sort_strangers(struct patient *p)
{
	size_t n = 0;

	if (p->nstrangers > 0)
		qsort(p->strangers, p->nstrangers, sizeof(*p->strangers), by_incarnation);
	for (size_t i = 0; i < p->nstrangers; i++)
		if (n == 0 || strcmp(p->strangers[n - 1].incarnation, p->strangers[i].incarnation) != 0)
			p->strangers[n++] = p->strangers[i];
	p->nstrangers = n;
}

static void append_page(struct buffer *all, const struct entries *page)
{
	for (size_t i = 0; i < page->n; i++)
		buffer_format(all, "%zu:%s", page->all[i].size, page->all[i].sha1);
}

/* Each list's length and its left end, where owners push: what they do to it shows there. */
static int sign(struct doctor *d, struct patient *p, struct stranger *s)
{
	struct buffer all = {0};
	int rc = 0;

	for (int t = 0; rc == 0 && t <= QUEUE_TRAYS; t++) {
		char *key = queue_tray_key(&p->keys, s->incarnation, t);
		struct entries page;

		buffer_format(&all, "%d:%" PRId64 ";", t, s->trays[t]);
		if (s->trays[t] > 0) {
			rc = entries_read(d->a, key, 0, false, SIGNED_ENTRIES, &page);
			append_page(&all, &page);
			entries_free(&page);
		}
		free(key);
	}
	digest_sha1(all.data, all.len, s->signature);
	buffer_free(&all);
	return rc;
}

static void ask(struct doctor *d, const struct patient *p, const struct stranger *s)
{
	queue_knows_worker(&d->a->redis, &p->keys, s->incarnation);
	queue_lease_left(&d->a->redis, &p->keys, s->incarnation);
	for (int t = 0; t <= QUEUE_TRAYS; t++) {
		char *key = queue_tray_key(&p->keys, s->incarnation, t);

		redis_appendf(&d->a->redis, "LLEN %s", key);
		free(key);
	}
}

static int take(struct doctor *d, const char *key, int64_t *value)
{
	struct redis_reply reply;

	if (doctor_reply(d, &reply) == -1)
		return -1;
	*value = reply.type == REDIS_INTEGER ? reply.integer : LISTS_WRONG_TYPE;
	return redis_error_is(&reply, "WRONGTYPE") || reply.type != REDIS_ERROR ? 0 : admin_refused(d->a, &reply, key);
}

int doctor_stranger_look(struct doctor *d, struct patient *p, struct stranger *s, bool signing)
{
	int64_t registered, left;

	ask(d, p, s);
	if (take(d, p->keys.workers, &registered) == -1 || take(d, p->keys.transit, &left) == -1)
		return -1;
	s->leased = left != -2;
	s->total = 0;
	s->wrong_type = false;
	for (int t = 0; t <= QUEUE_TRAYS; t++) {
		if (take(d, p->keys.transit, &s->trays[t]) == -1)
			return -1;
		s->total += s->trays[t] > 0 ? s->trays[t] : 0;
		s->wrong_type = s->wrong_type || s->trays[t] == LISTS_WRONG_TYPE;
	}
	if (registered == 1)
		return 1;
	return signing ? sign(d, p, s) : 0;
}

/* Some registered, or left, since the hash was read. */
static int look_at_strangers(struct doctor *d, struct patient *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->nstrangers; i++) {
		struct stranger *s = &p->strangers[i];
		int rc = doctor_stranger_look(d, p, s, d->a->options.fix);

		if (rc == -1)
			return -1;
		if (rc == 0 && (s->leased || s->total > 0 || s->wrong_type))
			p->strangers[n++] = *s;
	}
	p->nstrangers = n;
	return 0;
}

static int survey(struct doctor *d)
{
	struct known *known = alloc_zero(d->npatients + 1, sizeof(*known));
	int rc;

	for (size_t i = 0; i < d->npatients; i++)
		known[i] = known_of(&d->patients[i]);
	rc = scan(d, known);
	for (size_t i = 0; i < d->npatients; i++) {
		free(known[i].name);
		sort_strangers(&d->patients[i]);
	}
	free(known);
	for (size_t i = 0; i < d->npatients && rc == 0; i++)
		rc = look_at_strangers(d, &d->patients[i]);
	return rc;
}

int doctor_survey(struct doctor *d)
{
	if (d->npatients == 0)
		return 0;
	if (survey(d) == 0) {
		d->surveyed = true;
		if (d->sampled)
			doctor_advise(doctor_tell(d, SEVERITY_NOTE, NULL, "there are more keys than were looked at (%" PRId64 "): what is lost may lie among the others",
			    d->keys_most), "give a larger --limit");
		return 0;
	}
	if (d->a->status != EX_NOPERM)
		return -1;
	doctor_drain(d);
	doctor_advise(doctor_tell(d, SEVERITY_NOTE, d->a->target.shown, "this user may not look for keys: %s", d->why),
	    "what is lost is not found so: run it as a user of Redis who may SCAN (-u)");
	return 0;
}
