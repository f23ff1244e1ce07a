/*
 * quredis dlq retry --canary --rate: puts dead letters back into ingress with care. With --canary it moves one message back
 * and waits until that one is done. Then it puts back the others at the given rate, until more of them than allowed have
 * failed again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <time.h>

#include <bsd/stdlib.h>

#include "admin/cli/cli.h"
#include "admin/dead_letters/dead_letters.h"
#include "admin/moves/bulk.h"
#include "admin/moves/retry.h"
#include "admin/moves/returns.h"
#include "admin/queues/queues.h"
#include "common/base/base.h"

#define RATE_DEFAULT 50.0
#define RATE_MAX 1000000
#define LOOK_MS 250		/* between checks for messages that failed again */
#define CANARY_LOOK_MS 500
#define CANARY_LEAST_MS (10 * 60 * 1000)	/* the least time for the canary beyond the queue's timeout, since it may wait behind other messages */

struct paced {
	struct retry t;
	struct records records;
	struct returns returns;
	double per_ms;
	int64_t total, most_failures;
};

/* "50/s", "10/m", "3600/h" */
static int parse_rate(struct admin *a, double *per_ms)
{
	static const char units[] = "smh";
	static const double unit_ms[] = { 1000, 60 * 1000, 60 * 60 * 1000 };
	const char *text = a->options.rate, *slash = text == NULL ? NULL : strchr(text, '/'), *unit, *why = NULL;
	char *digits;
	long long n;

	*per_ms = RATE_DEFAULT / 1000;
	if (text == NULL)
		return 0;
	unit = slash == NULL || slash[1] == '\0' || slash[2] != '\0' ? NULL : strchr(units, slash[1]);
	digits = alloc_copy(text, slash == NULL ? strlen(text) : (size_t)(slash - text));
	n = strtonum(digits, 1, RATE_MAX, &why);
	free(digits);
	if (unit == NULL || why != NULL)
		return admin_fail(a, EX_USAGE, "--rate: expected a number and /s, /m or /h, such as 50/s");
	*per_ms = (double)n / unit_ms[unit - units];
	return 0;
}

static void rest(int64_t ms)
{
	struct timespec ts = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	if (ms > 0)
		nanosleep(&ts, NULL);
}

/* Moves the n oldest dead letters back. Returns how many there were; -1: error of Redis */
static int64_t put_back(struct paced *p, int64_t n)
{
	struct entries oldest;
	int64_t had;
	int rc;

	if (entries_read(p->t.a, p->t.a->keys.escape, -1 - p->t.claimed, true, n, &oldest) == -1)
		return -1;
	for (size_t i = 0; i < oldest.n; i++)
		returns_add(&p->returns, oldest.all[i].sha1);
	rc = retry_redrive(&p->t, &p->records, &oldest);
	had = (int64_t)oldest.n;
	entries_free(&oldest);
	return rc == -1 ? -1 : had;
}

static int failed_again(struct paced *p)
{
	return admin_fail(p->t.a, EX_DATAERR, "%" PRId64 " of %" PRId64 " messages put back became dead letters again (the last: record %s)%s",
	    p->returns.failed, p->t.moved, p->returns.last, p->t.moved + p->t.gone + p->t.claimed < p->total ? ": stopped" : "");
}

/* ---- the canary ---- */

static int64_t patience_ms(const struct admin *a)
{
	return CANARY_LEAST_MS + (a->queue == NULL ? 0 : a->queue->timeout_ms);
}

/* The canary is done if two checks in a row find it nowhere and it is no dead letter. */
static int wait_for_canary(struct paced *p, const struct list_entry *message)
{
	int64_t until_ms = clock_monotonic_ms() + patience_ms(p->t.a);
	int missed = 0, there;

	while (missed < 2 && !interrupt_asked()) {
		if (clock_monotonic_ms() >= until_ms)
			return admin_fail(p->t.a, EX_TEMPFAIL, "the first message still waits or is in flight: nothing else was put back");
		rest(CANARY_LOOK_MS);
		there = returns_is_under_way(p->t.a, message);
		if (there == -1 || returns_look(p->t.a, &p->returns) == -1)
			return -1;
		if (p->returns.failed > 0)
			return failed_again(p);
		missed = there == 1 ? 0 : missed + 1;
	}
	if (!interrupt_asked())
		admin_note("the first message is done; the others follow");
	return 0;
}

static int send_canary(struct paced *p)
{
	struct admin *a = p->t.a;
	struct entries oldest;
	int rc = 0;

	if (entries_read(a, a->keys.escape, -1, true, 1, &oldest) == -1)
		return -1;
	if (oldest.n == 1) {
		rc = put_back(p, 1) == -1 ? -1 : 0;
		if (rc == 0 && p->t.moved == 1)
			rc = wait_for_canary(p, &oldest.all[0]);
	}
	entries_free(&oldest);
	return rc;
}

/* ---- the others ---- */

static int send_others(struct paced *p)
{
	int64_t begun_ms = clock_monotonic_ms(), looked_ms = begun_ms, before = p->t.moved + p->t.gone + p->t.claimed, had = 1;

	while (had > 0 && p->t.moved + p->t.gone + p->t.claimed < p->total && !interrupt_asked()) {
		int64_t now_ms = clock_monotonic_ms(), sent = p->t.moved + p->t.gone + p->t.claimed;
		int64_t due = before + 1 + (int64_t)((double)(now_ms - begun_ms) * p->per_ms) - sent;

		due = due > p->total - sent ? p->total - sent : due;
		if (due > 0 && (had = put_back(p, due > ENTRIES_MAX ? ENTRIES_MAX : due)) == -1)
			return -1;
		if (now_ms - looked_ms >= LOOK_MS || due <= 0) {
			looked_ms = now_ms;
			if (returns_look(p->t.a, &p->returns) == -1)
				return -1;
			if (p->returns.failed > p->most_failures)
				return failed_again(p);
		}
		if (due <= ENTRIES_MAX)
			rest(1 / p->per_ms < LOOK_MS ? (int64_t)(1 / p->per_ms) + 1 : LOOK_MS);
	}
	return 0;
}

static int run_paced(struct paced *p)
{
	int rc = returns_begin(p->t.a, &p->returns);

	if (rc == 0 && p->t.a->options.canary)
		rc = send_canary(p);
	if (rc == 0 && !interrupt_asked())
		rc = send_others(p);
	if (rc != 0 || returns_look(p->t.a, &p->returns) == -1 || p->returns.failed == 0)
		return rc;
	if (p->returns.failed > p->most_failures)
		return failed_again(p);
	admin_note("%" PRId64 " of them became dead letters again until now", p->returns.failed);
	return 0;
}

static int act_paced(struct paced *p, struct outcome *o)
{
	int rc;

	if (confirm_messages(p->t.a, "Put", p->total, "escape", " back into ingress") == -1)
		return -1;
	interrupt_begin();
	records_init(&p->records);
	progress_begin(&p->t.progress, "dlq retry", p->total);
	rc = run_paced(p);
	progress_end(&p->t.progress);
	retry_note_claimed(&p->t);
	records_free(&p->records);
	returns_free(&p->returns);
	o->count = p->t.moved;
	o->interrupted = interrupt_asked() && p->t.moved + p->t.gone + p->t.claimed < p->total;
	return rc;
}

int bulk_retry_paced(struct admin *a)
{
	struct paced p = { .t = { .a = a }, .most_failures = a->options.max_failures < 0 ? 0 : a->options.max_failures };
	struct outcome o = retry_outcome("dlq retry", "escape");
	int rc;

	if (a->queue != NULL && !a->queue->dead_letter.enabled)
		return admin_fail(a, EX_USAGE, "without records (dead_letter.enabled = false) the command cannot see which messages fail again");
	if (parse_rate(a, &p.per_ms) == -1)
		return -1;
	redis_appendf(&a->redis, "LLEN %s", a->keys.escape);
	if (admin_integer(a, &p.total, a->keys.escape) == -1)
		return -1;
	o.count = p.total;
	rc = a->options.dry_run ? 0 : act_paced(&p, &o);
	if (rc == 0 || p.t.moved > 0)
		outcome_say(a, &o);
	interrupt_end();
	return rc;
}
