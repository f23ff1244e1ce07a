/*
 * A dead owner's messages go back to where they were fetched from, or escape if their worker died of
 * them too often. Every step is one that anybody may repeat or continue. Who is dead is not decided here.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/queue_watch.h"
#include "sweeper/rescue_page.h"

#define PAGE_FIRST 8
#define PAGE_BYTES (1u << 20)	/* about so much of a rescue list is in memory at a time */

int rescue_page(size_t n, size_t bytes)
{
	size_t fit = PAGE_BYTES / (bytes / (n == 0 ? 1 : n) + 1);

	return fit < 1 ? 1 : fit > RESCUE_PAGE_MAX ? RESCUE_PAGE_MAX : (int)fit;
}

bool rescue_judge(struct wrapper *w, bool charge, int64_t tray, int recovery_attempts)
{
	if (w->own_ms == 0)
		w->own_ms = w->mark_ms;
	w->mark_ms = 0;
	w->redelivered++;
	if (charge && tray == 1)
		w->crashes++;
	else if (tray != 1)
		w->solo = true;		/* the next time it will be known whether it was this one */
	return charge && tray == 1 && w->crashes > recovery_attempts;
}

/* ---- the list of owners ---- */

static struct rescue *find(struct swept *q, const char *incarnation)
{
	struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (strcmp(r->incarnation, incarnation) == 0)
			return r;
	return NULL;
}

static void insert(struct swept *q, struct rescue *r)
{
	if (strcmp(r->why, "reported") == 0)
		TAILQ_INSERT_HEAD(&q->rescues, r, entry);
	else
		TAILQ_INSERT_TAIL(&q->rescues, r, entry);
}

struct rescue *rescue_add(struct swept *q, const char *incarnation, const char *why, bool charge, bool gate)
{
	const char *name = incarnation == NULL ? "" : incarnation;
	struct rescue *r = find(q, name);

	if (r == NULL) {
		r = alloc_zero(1, sizeof(*r));
		strlcpy(r->incarnation, name, sizeof(r->incarnation));
		incarnation_parse(&r->who, name);
		r->why = why;
		r->charge = charge;
		r->fence = true;
		r->page = PAGE_FIRST;
		insert(q, r);
	} else if (strcmp(why, "reported") == 0) {
		r->why = why;
		TAILQ_REMOVE(&q->rescues, r, entry);
		insert(q, r);
	}
	r->gate = r->gate || gate;
	return r;
}

static void drop(struct swept *q, struct rescue *r)
{
	TAILQ_REMOVE(&q->rescues, r, entry);
	free(r);
}

void rescue_free_all(struct swept *q)
{
	while (!TAILQ_EMPTY(&q->rescues))
		drop(q, TAILQ_FIRST(&q->rescues));
}

/* ---- the trays ---- */

/* 1: something was fenced, or lay in rescue; 0: all are empty; -1: error. */
static int fence(struct rescue_page *p)
{
	struct sweeper *s = p->s;
	int found = 0, n = p->owner == NULL ? 1 : QUEUE_TRAYS;

	for (int tray = 0; tray < n; tray++) {
		char *source = p->owner == NULL ? alloc_string(p->q->keys.transit)
						: queue_tray_key(&p->q->keys, p->owner, tray);

		queue_fence(&s->redis, &p->q->keys, p->owner, source, p->rescue);
		free(source);
	}
	for (int tray = 0; tray < n; tray++) {
		int64_t answer;

		if (connection_integer(s, &answer) == -1)
			return -1;
		if (answer != 0)
			found = 1;
	}
	return found;
}

static void bare_is_fenced(struct rescue_page *p)
{
	p->r->fence = false;
	if (p->q->board != NULL && atomic_load(&p->q->board->recovered) == RECOVERED_NOTHING)
		atomic_store(&p->q->board->recovered, RECOVERED_BARE);
}

/* An owner nobody can read, or who is not in the hash, cannot be marked: it is forgotten instead. */
static int mark_dead(struct rescue_page *p)
{
	struct redis *redis = &p->s->redis;
	int64_t answer;

	queue_rescue_over(redis, &p->q->keys, p->owner);
	if (p->owner != NULL)
		queue_mark_dead(redis, &p->q->keys, p->owner);
	if (connection_integer(p->s, &answer) == -1 || (p->owner != NULL && connection_integer(p->s, &answer) == -1))
		return -1;
	if (p->owner == NULL || answer == 1)
		return 0;
	queue_forget(redis, &p->q->keys, p->owner);
	return connection_integer(p->s, &answer);
}

/* That nothing lay in the bare list is no news. */
static void log_done(const struct rescue_page *p)
{
	bool news = p->owner != NULL || p->r->returned + p->r->escaped > 0;

	log_event(news ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG, "rescue_done", log_str("queue", p->q->keys.name), log_str("incarnation", p->owner), log_str("reason", p->r->why),
	    log_int("returned", (int64_t)p->r->returned), log_int("escaped", (int64_t)p->r->escaped));
}

/* One bounded step. 1: all of this owner is returned; 0: there is more; -1: error. */
static int step(struct rescue_page *p)
{
	int rc = rescue_page_return(p);

	if (rc == 0 && p->r->fence) {
		rc = fence(p);
		if (rc != -1 && p->owner == NULL)
			bare_is_fenced(p);
	}
	if (rc != 0)
		return rc == -1 ? -1 : 0;
	if (mark_dead(p) == -1)
		return -1;
	log_done(p);
	return 1;
}

static int step_of(struct sweeper *s, struct swept *q, struct rescue *r)
{
	struct rescue_page *p = alloc_zero(1, sizeof(*p));
	int rc;

	p->s = s;
	p->q = q;
	p->r = r;
	p->owner = r->incarnation[0] == '\0' ? NULL : r->incarnation;
	p->rescue = p->owner == NULL ? queue_bare_rescue_key(&q->keys) : queue_tray_key(&q->keys, p->owner, QUEUE_RESCUE);
	p->lease = queue_lease_key(&q->keys, p->owner == NULL ? "none" : p->owner);
	rc = step(p);
	connection_drain(s);
	free(p->rescue);
	free(p->lease);
	free(p);
	return rc;
}

/* ---- the task ---- */

static void over(struct swept *q, struct rescue *r)
{
	if (r->gate) {
		q->rescued += r->returned;
		q->escaped += r->escaped;
	}
	drop(q, r);
}

static struct rescue *next_ready(struct swept *q, int64_t now_ms)
{
	struct rescue *r;

	TAILQ_FOREACH(r, &q->rescues, entry)
		if (!trouble_waits(&r->trouble, now_ms))
			return r;
	return NULL;
}

/* True: an owner is done with. Somebody may wait to hear that. */
static bool rescue_queue(struct sweeper *s, struct swept *q, int budget, int64_t now_ms)
{
	struct rescue *r;
	bool done = false;

	while (budget-- > 0 && sweeper_goes_on(s) && (r = next_ready(q, now_ms)) != NULL) {
		int rc = step_of(s, q, r);

		if (rc == -1) {
			trouble_note(s, q, &r->trouble, "rescue", now_ms);
			continue;
		}
		trouble_over(s, q, &r->trouble);
		if (rc == 1)
			over(q, r);
		done = done || rc == 1;
	}
	return done;
}

bool rescue_task(struct sweeper *s, int budget, int64_t now_ms)
{
	bool more = false;
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry) {
		if (TAILQ_EMPTY(&q->rescues))
			continue;
		more = rescue_queue(s, q, budget, now_ms) || more || next_ready(q, now_ms) != NULL;
	}
	return more;
}
