/*
 * The archive's side of letters.c: who may write it, errands that do, and what they left there. An errand never
 * knows whether its lines are removed from Redis, and Redis never whether they were written: the last batch of the
 * file is what is asked, after a start and after each failure.
 */
#include <sys/wait.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/letters.h"

#include "common/alloc.h"
#include "common/clock.h"
#include "common/digest.h"
#include "sweeper/archive.h"
#include "sweeper/sweeper.h"

#define ERRAND_MS 60000

/* ---- the archive of a queue is held by one of our master's sweepers ---- */

static int64_t our_mark(const struct sweeper *s)
{
	return (int64_t)(slot_generation(s->slot) << 16) + s->child->slot + 1;
}

static bool is_alive(const struct sweeper *s, int64_t mark)
{
	const struct slot *holder = &s->child->board->slots[(mark & 0xffff) - 1];

	return slot_state(holder) != SLOT_FREE && slot_generation(holder) == (uint64_t)mark >> 16;
}

bool letters_hold(struct sweeper *s, struct swept *q)
{
	int64_t mark = atomic_load(&q->board->archiver);

	if (bounds_of(q)->holds)
		return true;
	if (mark != 0 && is_alive(s, mark))
		return false;
	bounds_of(q)->holds = atomic_compare_exchange_strong(&q->board->archiver, &mark, our_mark(s));
	return bounds_of(q)->holds;
}

void letters_forget_batch(struct bounds *b)
{
	free(b->named);
	b->named = NULL;
	b->nnamed = 0;
}

static struct letter_name *name(struct bounds *b, const char *id, bool orphan)
{
	struct letter_name *n;

	b->named = alloc_resize(b->named, b->nnamed + 1, sizeof(*b->named));
	n = &b->named[b->nnamed++];
	*n = (struct letter_name){ .orphan = orphan };
	strlcpy(n->id, id, sizeof(n->id));
	return n;
}

void letters_let_go(struct swept *q)
{
	if (bounds_of(q)->holds)
		atomic_store(&q->board->archiver, 0);
	bounds_of(q)->holds = bounds_of(q)->settled = false;
	letters_forget_batch(bounds_of(q));
}

void letters_free_state(struct swept *q)
{
	errand_free(&bounds_of(q)->errand);
	letters_let_go(q);
}

/* ---- errands ---- */

struct job {
	struct archive archive;
	const struct letters *letters;	/* those that LEAVE are written */
	int64_t server_ms;
	const char *batch;
};

static void describe(struct buffer *lines, const struct job *job, const struct letter *r, const char *at)
{
	const struct letters *l = job->letters;
	char digest[DIGEST_HEX_SIZE];

	letter_digest(r, digest);
	record_line(lines, &(struct record_line){ .record_id = r->id, .fields = r->fields, .nfields = r->nfields,
	    .message = r->entry == -1 ? NULL : &l->entries[r->entry].message, .archived_at = at, .reason = r->reason,
	    .batch = job->batch, .digest = digest, .orphan = r->orphan });
}

static int write_batch(void *arg, int out)
{
	const struct job *job = arg;
	char at[CLOCK_RFC3339_SIZE], stamp[CLOCK_RFC3339_SIZE], *to = stamp;
	struct buffer lines = {0};

	clock_rfc3339(job->server_ms, at);
	for (const char *p = at; *p != '\0'; p++)
		if (*p != '-' && *p != ':')
			*to++ = *p;
	*to = '\0';
	for (size_t i = 0; i < job->letters->nrecords; i++)
		if (job->letters->records[i].fate == LETTER_LEAVES)
			describe(&lines, job, &job->letters->records[i], at);
	return archive_append(&job->archive, lines.data, lines.len, stamp, out);
}

static int settle(void *arg, int out)
{
	return archive_last_batch(&((const struct job *)arg)->archive, out);
}

static int archive_trouble(struct sweeper *s, struct swept *q, const char *why, int64_t now_ms)
{
	trouble_say(s, TROUBLE_ARCHIVE, why);
	bounds_of(q)->archive_trouble.leads = true;
	return trouble_note(s, q, &bounds_of(q)->archive_trouble, "archive", now_ms);
}

void letters_writable(struct sweeper *s, struct swept *q)
{
	bounds_of(q)->unwritten = false;
	trouble_over(s, q, &bounds_of(q)->archive_trouble);
}

bool letters_are_unarchived(const struct swept *q)
{
	return bounds_of(q)->archive_trouble.kind != TROUBLE_NONE;
}

static int begin_errand(struct sweeper *s, struct swept *q, int (*work)(void *, int), struct job *job, int64_t now_ms)
{
	const struct conf_dead_letter *conf = &q->conf->dead_letter;
	char why[128];

	job->archive = (struct archive){ conf->archive, q->keys.name, s->conf->supervisor.node, conf->archive_size };
	bounds_of(q)->settling = work == settle;
	if (errand_start(&bounds_of(q)->errand, work, job, ERRAND_MS, now_ms) == 0)
		return 0;
	snprintf(why, sizeof(why), "fork failed: %s", strerror(errno));
	return archive_trouble(s, q, why, now_ms);
}

void letters_settle(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	begin_errand(s, q, settle, &(struct job){0}, now_ms);
}

void letters_archive(struct sweeper *s, struct swept *q, const struct letters *l, int64_t server_ms, int64_t now_ms)
{
	struct job job = { .letters = l, .server_ms = server_ms };
	struct bounds *b = bounds_of(q);

	letters_forget_batch(b);
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == LETTER_LEAVES)
			letter_digest(&l->records[i], name(b, l->records[i].id, l->records[i].orphan)->digest);
	if (b->nnamed == 0)
		return;			/* others took all of them meanwhile */
	job.batch = b->named[0].id;
	if (begin_errand(s, q, write_batch, &job, now_ms) == -1)
		letters_forget_batch(b);
}

/* What the last batch names, a line each: as archive_last_batch() writes them. */
static void read_names(struct bounds *b)
{
	char *line, *rest = b->errand.said.data;

	letters_forget_batch(b);
	buffer_append(&b->errand.said, "", 1);
	for (rest = b->errand.said.data; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
		const char *id = strsep(&line, " "), *digest = strsep(&line, " ");

		strlcpy(name(b, id, line != NULL)->digest, digest == NULL ? "" : digest, DIGEST_HEX_SIZE);
	}
}

/* An errand that failed may have left something all the same: the file is asked again. */
static void ended_badly(struct sweeper *s, struct swept *q, int status, int64_t now_ms)
{
	struct bounds *b = bounds_of(q);

	buffer_append(&b->errand.said, "", 1);
	b->settled = false;
	b->unwritten = b->unwritten || !b->settling;
	letters_forget_batch(b);
	if (WIFEXITED(status) && b->errand.said.data[0] != '\0')
		archive_trouble(s, q, b->errand.said.data, now_ms);
	else
		archive_trouble(s, q, "it did not answer in time, or was killed", now_ms);
	task_wake_at(q, TASK_letters, b->archive_trouble.retry_at_ms);
}

bool letters_look_at_errand(struct sweeper *s, struct swept *q, int64_t now_ms)
{
	struct bounds *b = bounds_of(q);
	int status;

	if (!errand_look(&b->errand, &status, now_ms)) {
		if (errand_under_way(&b->errand))
			task_wake_at(q, TASK_letters, b->errand.until_ms);
		return !errand_under_way(&b->errand);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		ended_badly(s, q, status, now_ms);
		return false;
	}
	if (!b->settling || !b->unwritten)
		letters_writable(s, q);
	if (b->settling) {
		b->settled = true;
		read_names(b);
	}
	return true;
}
