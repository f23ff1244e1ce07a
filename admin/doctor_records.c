/*
 * Dead letters and their records: they pair by value. Both may change while they are read: what is younger than the look
 * does not count, a look during which the old end was taken away does not either, and only what does not pair at two
 * looks is told.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/doctor.h"

#include "admin/entries.h"
#include "admin/records.h"
#include "common/alloc.h"
#include "common/digest.h"
#include "common/queue_survey.h"

#define TRIES 3

struct orphans {		/* ids of records without an entry, sorted */
	char (*id)[RECORD_ID_SIZE];
	size_t n;
	int64_t before_ms;	/* only records older than this count */
};

struct pairing {
	int64_t entries, without;	/* that were looked at; that have no record */
	bool complete;			/* all entries and all records were looked at */
	struct orphans orphans;
};

static int64_t time_of_id(const char *id)
{
	return strtoll(id, NULL, 10);
}

static int by_id(const void *a, const void *b)
{
	return strcmp(a, b);
}

static void add_orphan(void *arg, const char *id)
{
	struct orphans *o = arg;

	if (time_of_id(id) >= o->before_ms)
		return;
	o->id = alloc_resize(o->id, o->n + 1, sizeof(*o->id));
	memcpy(o->id[o->n++], id, strlen(id) + 1);
}

/* ---- one look ---- */

/* A page of entries from the old end, at most `most`. 0: there are no more. */
static int match_page(struct doctor *d, struct records *r, int64_t most, struct pairing *p)
{
	char id[RECORD_ID_SIZE];
	struct entries page;
	int rc = entries_read(d->a, d->a->keys.escape, -1 - p->entries, true, most, &page);

	for (size_t i = 0; i < page.n && rc != -1; i++) {
		rc = records_match(d->a, r, page.all[i].sha1, id);
		p->without += rc == 0 && id[0] == '\0';
	}
	p->entries += (int64_t)page.n;
	if (rc != -1)
		rc = page.n > 0;
	entries_free(&page);
	return rc;
}

static void take_orphans(const struct records *r, struct orphans *o)
{
	records_each(r, add_orphan, o);
	if (o->n > 0)
		qsort(o->id, o->n, sizeof(*o->id), by_id);
}

/* Entries first, as many as there were: the record of each is in the stream by now. */
static int pair(struct doctor *d, int64_t total, struct pairing *p)
{
	int64_t most = total < d->records_most ? total : d->records_most;
	struct records records;
	int rc = 1;

	records_init(&records);
	while (rc == 1 && p->entries < most)
		rc = match_page(d, &records, most - p->entries, p);
	if (rc != -1)
		rc = records_read_rest(d->a, &records, d->records_most);
	p->complete = total <= d->records_most && records.at_end;
	if (rc != -1 && p->complete)
		take_orphans(&records, &p->orphans);
	records_free(&records);
	return rc == -1 ? -1 : 0;
}

/* ---- a look in which nothing moved ---- */

/* Places in the list are counted from its old end: nothing may be taken from there while they are read. */
struct old_end {
	int64_t total;
	char sha1[DIGEST_HEX_SIZE];
};

static int read_old_end(struct doctor *d, struct old_end *e)
{
	const char *escape = d->a->keys.escape;
	struct entries page;

	redis_appendf(&d->a->redis, "LLEN %s", escape);
	if (admin_integer(d->a, &e->total, escape) == -1 || entries_read(d->a, escape, -1, true, 1, &page) == -1)
		return -1;
	strlcpy(e->sha1, page.n > 0 ? page.all[0].sha1 : "", sizeof(e->sha1));
	entries_free(&page);
	return 0;
}

/* 0; 1: it was not still, however often it was tried; -1: Redis. */
static int pair_still(struct doctor *d, struct pairing *p)
{
	for (int i = 0; i < TRIES; i++) {
		struct old_end before, after;

		free(p->orphans.id);
		*p = (struct pairing){ .orphans.before_ms = p->orphans.before_ms };
		if (read_old_end(d, &before) == -1 || pair(d, before.total, p) == -1 || read_old_end(d, &after) == -1)
			return -1;
		if (after.total >= before.total && strcmp(after.sha1, before.sha1) == 0)
			return 0;
	}
	return 1;
}

/* ---- two looks ---- */

static void keep_common(struct orphans *o, const struct orphans *again)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n && again->n > 0; i++)
		if (bsearch(o->id[i], again->id, again->n, sizeof(*again->id), by_id) != NULL)
			memmove(o->id[n++], o->id[i], sizeof(*o->id));
	o->n = n;
}

/* As pair_still(). */
static int look(struct doctor *d, struct pairing *p)
{
	struct pairing again = {0};
	int rc;

	if (admin_server_time(d->a, &p->orphans.before_ms) == -1)
		return -1;
	rc = pair_still(d, p);
	if (rc != 0 || (p->without == 0 && p->orphans.n == 0))
		return rc;
	again.orphans.before_ms = p->orphans.before_ms;
	rc = pair_still(d, &again);
	if (rc == 0) {
		keep_common(&p->orphans, &again.orphans);
		p->without = again.without < p->without ? again.without : p->without;
		p->complete = p->complete && again.complete;
	}
	free(again.orphans.id);
	return rc;
}

/* ---- mending ---- */

static int64_t expired_before(const struct doctor *d, const struct patient *p)
{
	return d->server_ms - (p->conf != NULL ? p->conf->purge.max_orphaned_age_ms : d->a->conf->purge.max_orphaned_age_ms);
}

static size_t count_expired(const struct orphans *o, int64_t before_ms)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n; i++)
		n += time_of_id(o->id[i]) < before_ms;
	return n;
}

/* Found anew: what was seen at the check may have its entry by now. */
static int drop_orphans(struct doctor *d, const struct finding *f)
{
	int64_t before = expired_before(d, f->patient), n;
	struct pairing p = {0};
	int rc = look(d, &p);

	for (size_t i = 0; rc == 0 && i < p.orphans.n; i++) {
		if (time_of_id(p.orphans.id[i]) >= before)
			continue;
		queue_record_forget(&d->a->redis, &d->a->keys, p.orphans.id[i]);
		rc = admin_integer(d->a, &n, d->a->keys.log);
	}
	free(p.orphans.id);
	return rc == 1 ? admin_fail(d->a, EX_TEMPFAIL, "dead letters are being taken away just now") : rc;
}

static const struct remedy dropping = { "records without an entry that are older than purge.max_orphaned_age are deleted", drop_orphans };

/* ---- telling ---- */

static void tell_orphans(struct doctor *d, const struct patient *p, const struct pairing *found)
{
	struct finding *f;

	if (found->orphans.n == 0)
		return;
	f = doctor_tell(d, SEVERITY_NOTE, p->keys.log, "records without an entry in escape: %zu; another program took it", found->orphans.n);
	if (count_expired(&found->orphans, expired_before(d, p)) > 0)
		doctor_remedy(f, &dropping, NULL);
	else
		doctor_advise(f, "nothing: they are younger than purge.max_orphaned_age, and tell what failed");
}

static void tell_without(struct doctor *d, const struct patient *p, const struct pairing *found)
{
	bool meant = p->conf != NULL && !p->conf->dead_letter.enabled;

	if (found->without > 0 && !meant)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, p->keys.escape,
		    "entries without a record: %s%" PRId64 " of %" PRId64 "; another program put them there, or the stream could not be written",
		    found->complete ? "" : "at least ", found->without, found->entries), "quredis peek %s escape shows them; event record_failed in the log tells which",
		    p->keys.name);
}

static void tell_all(struct doctor *d, const struct patient *p, const struct pairing *found)
{
	if (!found->complete)
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, p->keys.escape, "only the oldest %" PRId64 " entries were compared with their records",
		    found->entries), "give a larger --limit");
	tell_without(d, p, found);
	tell_orphans(d, p, found);
}

int doctor_records(struct doctor *d, struct patient *p)
{
	struct pairing found = {0};
	int rc;

	if (p->lists.escape == LISTS_WRONG_TYPE)
		return 0;
	rc = look(d, &found);
	if (rc == -1 && d->a->status == EX_CONFIG) {	/* a wrong type: told by another check */
		doctor_drain(d);
		rc = 0;
	} else if (rc == 1) {
		doctor_advise(doctor_tell(d, SEVERITY_NOTE, p->keys.escape,
		    "dead letters are being taken away just now: they could not be compared with their records"), "run it again when that is over");
		rc = 0;
	} else if (rc == 0) {
		tell_all(d, p, &found);
	}
	free(found.orphans.id);
	return rc;
}
