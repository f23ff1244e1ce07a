/*
 * Runs the archive of bounds.c in subprocesses. One sweeper of a master holds the archive of a queue at a time. A
 * subprocess does not learn whether its dead letters are later removed from Redis, and Redis does not learn whether
 * they were written. So after a start and after each failure a subprocess reads the last batch of the file, and
 * bounds.c removes those dead letters that it names.
 */
#include <assert.h>
#include <sys/wait.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/dead_letters/bounds.h"

#include "common/base/base.h"
#include "sweeper/dead_letters/archive.h"
#include "sweeper/core/core.h"

#define SUBPROCESS_MS 60000

static struct archiver *archiver_of(const struct sweeper_queue *q)
{
	return &bounds_of(q)->archiver;
}

/* ---- holding the archive: one sweeper of this master for each queue ---- */

bool archiver_hold(struct sweeper *s, struct sweeper_queue *q)
{
	struct archiver *a = archiver_of(q);

	a->holds = a->holds || core_hold(s, &q->board->sweeper.archiver);
	return a->holds;
}

void archiver_forget_batch(struct archiver *a)
{
	free(a->named);
	a->named = NULL;
	a->nnamed = 0;
}

static struct dead_letter_name *name_record(struct archiver *a, const char *id, bool orphan)
{
	struct dead_letter_name *n;

	a->named = alloc_resize(a->named, a->nnamed + 1, sizeof(*a->named));
	n = &a->named[a->nnamed++];
	*n = (struct dead_letter_name){ .orphan = orphan };
	strlcpy(n->id, id, sizeof(n->id));
	return n;
}

void archiver_let_go(struct sweeper_queue *q)
{
	assert(!subprocess_runs(&archiver_of(q)->subprocess));		/* it may still write to the archive */
	if (archiver_of(q)->holds)
		atomic_store(&q->board->sweeper.archiver, 0);
	archiver_of(q)->holds = archiver_of(q)->settled = false;
	archiver_forget_batch(archiver_of(q));
}

void archiver_free(struct sweeper_queue *q)
{
	subprocess_free(&archiver_of(q)->subprocess);
	archiver_let_go(q);
}

/* ---- subprocesses ---- */

struct job {
	struct archive archive;
	const struct dead_letters *letters;	/* those with fate LEAVES are written */
	int64_t server_ms;
	const char *batch;
};

static void append_line(struct buffer *lines, const struct job *job, const struct dead_letter_record *r, const char *at)
{
	const struct dead_letters *l = job->letters;
	char digest[ENCODE_SHA1_SIZE];

	dead_letter_digest(r, digest);
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
		if (job->letters->records[i].fate == DEAD_LETTER_LEAVES)
			append_line(&lines, job, &job->letters->records[i], at);
	return archive_append(&job->archive, lines.data, lines.len, stamp, out);
}

static int read_last_batch(void *arg, int out)
{
	return archive_last_batch(&((const struct job *)arg)->archive, out);
}

static int archive_error(struct sweeper *s, struct sweeper_queue *q, const char *why, int64_t now_ms)
{
	connection_set_error(s, QUEUE_ERROR_ARCHIVE, why);
	task_error_init(&archiver_of(q)->error, true);
	return task_error_note(s, q, &archiver_of(q)->error, "archive", now_ms);
}

void archiver_clear_error(struct sweeper *s, struct sweeper_queue *q)
{
	archiver_of(q)->unwritten = false;
	task_error_clear(s, q, &archiver_of(q)->error);
}

const char *archiver_error(const struct sweeper_queue *q)
{
	return archiver_of(q)->error.text;
}

bool archiver_fails(const struct sweeper_queue *q)
{
	return archiver_of(q)->error.kind != QUEUE_ERROR_NONE;
}

static int start_subprocess(struct sweeper *s, struct sweeper_queue *q, int (*work)(void *, int), struct job *job,
    int64_t now_ms)
{
	const struct conf_dead_letter *conf = &q->conf->dead_letter;
	char why[128];

	job->archive = (struct archive){ conf->archive, q->keys.name, s->conf->supervisor.node, conf->archive_size };
	archiver_of(q)->settling = work == read_last_batch;
	if (subprocess_start(&archiver_of(q)->subprocess, work, job, SUBPROCESS_MS, now_ms) == 0)
		return 0;
	snprintf(why, sizeof(why), "fork failed: %s", strerror(errno));
	return archive_error(s, q, why, now_ms);
}

void archiver_settle(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	start_subprocess(s, q, read_last_batch, &(struct job){0}, now_ms);
}

void archiver_write(struct sweeper *s, struct sweeper_queue *q, const struct dead_letters *l, int64_t server_ms,
    int64_t now_ms)
{
	struct job job = { .letters = l, .server_ms = server_ms };
	struct archiver *a = archiver_of(q);

	assert(a->holds);
	archiver_forget_batch(a);
	for (size_t i = 0; i < l->nrecords; i++)
		if (l->records[i].fate == DEAD_LETTER_LEAVES)
			dead_letter_digest(&l->records[i],
			    name_record(a, l->records[i].id, l->records[i].orphan)->digest);
	if (a->nnamed == 0)
		return;			/* other processes took all of them meanwhile */
	job.batch = a->named[0].id;
	if (start_subprocess(s, q, write_batch, &job, now_ms) == -1)
		archiver_forget_batch(a);
}

/* Reads the output of archive_last_batch(): the records of the last batch, one a line. */
static void read_names(struct archiver *a)
{
	char *line, *rest = a->subprocess.said.data;

	archiver_forget_batch(a);
	buffer_append(&a->subprocess.said, "", 1);
	for (rest = a->subprocess.said.data; (line = strsep(&rest, "\n")) != NULL && *line != '\0';) {
		const char *id = strsep(&line, " "), *digest = strsep(&line, " ");

		strlcpy(name_record(a, id, line != NULL)->digest, digest == NULL ? "" : digest, ENCODE_SHA1_SIZE);
	}
}

/* A subprocess that failed may have written its lines all the same, so the next subprocess reads the last batch
 * again. */
static void ended_badly(struct sweeper *s, struct sweeper_queue *q, int status, int64_t now_ms)
{
	struct archiver *a = archiver_of(q);

	buffer_append(&a->subprocess.said, "", 1);
	a->settled = false;
	a->unwritten = a->unwritten || !a->settling;
	archiver_forget_batch(a);
	if (WIFEXITED(status) && a->subprocess.said.data[0] != '\0')
		archive_error(s, q, a->subprocess.said.data, now_ms);
	else
		archive_error(s, q, "it did not answer in time, or was killed", now_ms);
	task_wake_at(q, &bounds_task, a->error.retry_at_ms);
}

bool archiver_poll(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct archiver *a = archiver_of(q);
	int status;

	if (!subprocess_poll(&a->subprocess, &status, now_ms)) {
		if (subprocess_runs(&a->subprocess))
			task_wake_at(q, &bounds_task, a->subprocess.until_ms);
		return !subprocess_runs(&a->subprocess);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		ended_badly(s, q, status, now_ms);
		return false;
	}
	if (!a->settling || !a->unwritten)
		archiver_clear_error(s, q);
	if (a->settling) {
		a->settled = true;
		read_names(a);
	}
	return true;
}
