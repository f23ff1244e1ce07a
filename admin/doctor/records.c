/*
 * Checks that every dead letter has a record and every record a dead letter; they pair by sha1. Both may change while
 * doctor reads them. So a record younger than the look does not count; doctor repeats a look during which the old end
 * of escape lost an entry, because all positions changed; and it reports only entries and records without a counterpart
 * in two looks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>

#include "admin/doctor/checks.h"

#include "admin/dead_letters/dead_letters.h"
#include "common/base/base.h"
#include "common/queue/queue.h"

#define TRIES 3

struct pairing {
	int64_t before_ms;		/* only records older than this count */
	int64_t entries, without;	/* entries that were read; entries that have no record */
	bool complete;			/* all entries and all records were read */
	char (*orphans)[RECORD_ID_SIZE];	/* ids of records without an entry, sorted; owned */
	size_t norphans;
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
	struct pairing *p = arg;

	if (time_of_id(id) >= p->before_ms)
		return;
	p->orphans = alloc_resize(p->orphans, p->norphans + 1, sizeof(*p->orphans));
	memcpy(p->orphans[p->norphans++], id, strlen(id) + 1);
}

/* ---- one look ---- */

/* Matches a page of at most this many entries, from the old end. 1: there may be more; 0: there are none; -1: as a
 * check. */
static int match_page(struct doctor *d, struct records *r, int64_t most, struct pairing *p)
{
	struct record_brief found;
	struct entries page;
	int rc = entries_read(d->a, d->a->keys.escape, -1 - p->entries, true, most, &page);

	for (size_t i = 0; i < page.n && rc != -1; i++) {
		rc = records_match(d->a, r, page.all[i].sha1, &found);
		p->without += rc == 0 && found.id[0] == '\0';
	}
	p->entries += (int64_t)page.n;
	if (rc != -1)
		rc = page.n > 0;
	entries_free(&page);
	return rc;
}

/* Reads the entries first, as many as there were at the start: all their records are in the stream by now. */
static int pair_all(struct doctor *d, int64_t total, struct pairing *p)
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
		records_each(&records, add_orphan, p);
	if (p->norphans > 0)
		qsort(p->orphans, p->norphans, sizeof(*p->orphans), by_id);
	records_free(&records);
	return rc == -1 ? -1 : 0;
}

/* The old end of escape: number of entries, and the oldest one. */
struct old_end {
	int64_t total;
	char sha1[ENCODE_SHA1_SIZE];
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

/* Makes a look during which nothing left the old end. 1: no such look in several tries; -1: as a check. */
static int look_once(struct doctor *d, struct pairing *p, int64_t before_ms)
{
	for (int i = 0; i < TRIES; i++) {
		struct old_end before, after;

		free(p->orphans);
		*p = (struct pairing){ .before_ms = before_ms };
		if (read_old_end(d, &before) == -1 || pair_all(d, before.total, p) == -1 ||
		    read_old_end(d, &after) == -1)
			return -1;
		if (after.total >= before.total && strcmp(after.sha1, before.sha1) == 0)
			return 0;
	}
	return 1;
}

/* Makes one look, and a second one if the first found something; keeps the results that both have. Returns as
 * look_once(). */
static int look_twice(struct doctor *d, struct pairing *p)
{
	struct pairing again = {0};
	int64_t before_ms;
	size_t n = 0;
	int rc;

	if (admin_server_time(d->a, &before_ms) == -1)
		return -1;
	rc = look_once(d, p, before_ms);
	if (rc != 0 || (p->without == 0 && p->norphans == 0))
		return rc;
	rc = look_once(d, &again, before_ms);
	for (size_t i = 0; i < p->norphans && again.norphans > 0; i++)
		if (bsearch(p->orphans[i], again.orphans, again.norphans, sizeof(*again.orphans), by_id) != NULL)
			memmove(p->orphans[n++], p->orphans[i], sizeof(*p->orphans));
	p->norphans = n;
	p->without = again.without < p->without ? again.without : p->without;
	p->complete = p->complete && again.complete;
	free(again.orphans);
	return rc;
}

/* ---- the fix ---- */

static bool is_expired(const struct doctor *d, const struct queue_check *q, const char *id)
{
	const struct conf_purge *purge = q->conf != NULL ? &q->conf->purge : &d->a->conf->purge;

	return time_of_id(id) < d->server.now_ms - purge->max_orphaned_age_ms;
}

/* Looks again, since a dead letter may have come for a record after the check. */
static int delete_orphans(struct doctor *d, const struct finding *f)
{
	struct pairing p = {0};
	int rc = look_twice(d, &p);
	int64_t n;

	for (size_t i = 0; rc == 0 && i < p.norphans; i++) {
		if (!is_expired(d, f->queue, p.orphans[i]))
			continue;
		queue_record_forget(&d->a->redis, &d->a->keys, p.orphans[i]);
		rc = admin_integer(d->a, &n, d->a->keys.log);
	}
	free(p.orphans);
	return rc == 1 ? admin_fail(d->a, EX_TEMPFAIL, "dead letters are being removed right now") : rc;
}

static const struct fix deleting = { "delete records without a dead letter that are older than purge.max_orphaned_age",
    delete_orphans };

/* ---- the check ---- */

static void add_orphans(struct doctor *d, const struct queue_check *q, const struct pairing *p)
{
	size_t expired = 0;
	struct finding *f;

	for (size_t i = 0; i < p->norphans; i++)
		expired += is_expired(d, q, p->orphans[i]);
	if (p->norphans == 0)
		return;
	f = findings_add(d, SEVERITY_NOTE, q->keys.log,
	    "records without a dead letter: %zu; another program removed the dead letters", p->norphans);
	if (expired > 0)
		findings_offer(f, &deleting, NULL);
	else
		findings_advise(f, "nothing: they are younger than purge.max_orphaned_age, and still say what failed");
}

static void add_findings(struct doctor *d, const struct queue_check *q, const struct pairing *p)
{
	if (!p->complete)
		findings_advise(findings_add(d, SEVERITY_NOTE, q->keys.escape,
		    "only the oldest %" PRId64 " dead letters were compared with their records",
		    p->entries), "give a larger --limit");
	if (p->without > 0 && (q->conf == NULL || q->conf->dead_letter.enabled))
		findings_advise(findings_add(d, SEVERITY_NOTE, q->keys.escape,
		    "dead letters without a record: %s%" PRId64 " of %" PRId64 "; another program pushed them, or the "
		    "record could not be written",
		    p->complete ? "" : "at least ", p->without, p->entries),
		    "quredis peek %s escape shows them; event record_failed in the log names them", q->keys.name);
	add_orphans(d, q, p);
}

int check_records(struct doctor *d, struct queue_check *q)
{
	struct pairing p = {0};
	int rc;

	if (q->lists.escape == LISTS_WRONG_TYPE)
		return 0;
	rc = look_twice(d, &p);
	if (rc == 0)
		add_findings(d, q, &p);
	else if (rc == 1)
		findings_advise(findings_add(d, SEVERITY_NOTE, q->keys.escape,
		    "dead letters are being removed right now, so they could not be compared with their records"),
		    "run doctor again later");
	else if (d->a->status == EX_CONFIG)	/* a wrong type, which the check of types reports */
		doctor_drain(d);
	free(p.orphans);
	return rc == -1 && d->a->status != EX_CONFIG ? -1 : 0;
}
