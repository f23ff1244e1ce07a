/*
 * Bounds of dead letters. A dead letter that is older than dead_letter.ttl, or beyond dead_letter.max_entries, leaves
 * with its record, oldest first. If there is an archive, the sweeper writes it there first. Without archive and without
 * `discard`, bounds only raise an alarm. After the write, or after a restart, the sweeper removes only dead letters
 * that it finds in the last batch of the archive. So no dead letter is removed that is not in the archive.
 * dead_letters/pair.c decides which ones leave, archive.c owns the files.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "sweeper/dead_letters/bounds.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"

#define EVERY_MS 1000		/* between looks while max_entries is set */
#define EVERY_MOST_MS 10000	/* the longest pause between looks for ttl alone */
/* between looks for dead letters without a record, or records without a dead letter, that are not the oldest */
#define ODD_EVERY_MS 60000
#define OVER_EVERY_MS (60 * 60 * 1000)

/* A turn of one queue. */
struct turn {
	struct sweeper *s;
	struct sweeper_queue *q;
	const struct conf_dead_letter *conf;
	struct queue_dead_letters_glance glance;
	int64_t oldest_ms;		/* as in struct dead_letters_bounds */
	bool claims_are_stale;		/* this node has claims on dead letters that were not written */
	int64_t now_ms;
};

/* ---- removal ---- */

struct gone {
	int64_t messages, orphans;
	const char *first, *last, *reason;
};

static void account(const struct turn *t, const struct gone *g)
{
	bool archived = t->conf->archive != NULL;

	sweeper_queue_count(t->q, archived ? COUNT_ARCHIVED : COUNT_DISCARDED, (uint64_t)g->messages);
	sweeper_queue_count(t->q, COUNT_ORPHANED, (uint64_t)g->orphans);
	if (g->messages + g->orphans > 0)
		log_info("dead_letters_removed", log_str("queue", t->q->keys.name), log_int("messages", g->messages),
		    log_int("orphans", g->orphans), log_str("first", g->first), log_str("last", g->last),
		    log_str("reason", g->reason), log_str("archive", t->conf->archive));
}

static int take_counts(struct sweeper *s, size_t answers, int64_t *sum)
{
	int rc = 0;

	for (; answers > 0 && s->redis.state != REDIS_CLOSED; answers--) {
		int64_t n;

		if (connection_integer(s, &n) == -1)
			rc = -1;
		else
			*sum += n;
	}
	return s->redis.state == REDIS_CLOSED ? -1 : rc;
}

/* Removes the pairs of this fate that have a message, in groups. */
static int remove_pairs(const struct turn *t, const struct dead_letters *l, enum dead_letter_fate fate, int64_t *gone)
{
	struct queue_dead_letter group[QUEUE_DEAD_LETTERS_GROUP];
	size_t n = 0, answers = 0;
	int64_t depth = 1;

	for (size_t i = 0; i < l->nrecords; i++) {
		const struct dead_letter_record *r = &l->records[i];

		if (r->fate == fate && r->entry != -1) {
			group[n++] = (struct queue_dead_letter){ .message = l->entries[r->entry].message,
			    .record_id = r->id };
			depth = r->entry + 1 > depth ? r->entry + 1 : depth;
		}
		if (n == QUEUE_DEAD_LETTERS_GROUP || (n > 0 && i + 1 == l->nrecords)) {
			queue_dead_letters_remove(&t->s->redis, &t->q->keys, depth, group, n);
			answers++;
			n = 0;
		}
	}
	return take_counts(t->s, answers, gone);
}

static int remove_orphans(const struct turn *t, const struct dead_letters *l, enum dead_letter_fate fate, int64_t *gone)
{
	const char *ids[QUEUE_RECORDS_GROUP];
	size_t n = 0, answers = 0;

	for (size_t i = 0; i < l->nrecords; i++) {
		if (l->records[i].fate == fate && l->records[i].orphan)
			ids[n++] = l->records[i].id;
		if (n == QUEUE_RECORDS_GROUP || (n > 0 && i + 1 == l->nrecords)) {
			queue_records_remove(&t->s->redis, &t->q->keys, ids, n);
			answers++;
			n = 0;
		}
	}
	return take_counts(t->s, answers, gone);
}

static int remove_those(const struct turn *t, const struct dead_letters *l, enum dead_letter_fate fate, struct gone *g)
{
	int rc;

	*g = (struct gone){ .reason = fate == DEAD_LETTER_NAMED ? "archived" : NULL };
	for (size_t i = 0; i < l->nrecords; i++) {
		if (l->records[i].fate != fate)
			continue;
		g->first = g->first == NULL ? l->records[i].id : g->first;
		g->last = l->records[i].id;
		g->reason = g->reason == NULL ? l->records[i].reason : g->reason;
	}
	rc = remove_orphans(t, l, fate, &g->orphans);
	if (t->s->redis.state != REDIS_CLOSED && remove_pairs(t, l, fate, &g->messages) == -1)
		rc = -1;
	account(t, g);
	return rc;
}

/* ---- records for dead letters that have none ---- */

static void append_adoption(const struct turn *t, const struct dead_letter_entry *e, int64_t depth, const char *newest,
    int64_t server_ms)
{
	const struct record record = {
		.queue = t->q->keys.name,
		.error_class = "Unrecorded",
		.error_message =
		    "found in the escape list without a record: another program put it there, or records were off",
		.failed_at_ms = server_ms,
		.exit_code = -1,
		.duration_ms = -1,
		.node = t->s->conf->supervisor.node,
		.payload_max = (size_t)t->conf->payload_max,
	};
	struct message m;

	message_parse(&m, &t->q->keys.lines, e->message.data, e->message.len);
	/* the record covers the whole entry, also a beginning that looks like a wrapper */
	m.wrapper_len = 0;
	queue_dead_letters_adopt(&t->s->redis, &t->q->keys, depth, &m, newest, &record);
}

/* Adds records one after the other, since each request names the newest record. Returns how many dead letters got one;
 * -1: error */
static int64_t adopt_unrecorded(const struct turn *t, const struct dead_letters *l,
    const struct queue_dead_letters_page *page)
{
	char newest[QUEUE_RECORD_ID_SIZE];
	struct redis_reply reply;
	int64_t n = 0;
	int rc = 0;

	strlcpy(newest, page->newest, sizeof(newest));
	for (size_t i = 0; i < l->nentries && rc == 0 && newest[0] != '\0'; i++) {
		if (!l->entries[i].unrecorded)
			continue;
		append_adoption(t, &l->entries[i], (int64_t)i + 1, newest, page->server_ms);
		if ((rc = connection_answer(t->s, &reply)) == 0 && reply.type != REDIS_STRING)
			rc = connection_unexpected(t->s);
		strlcpy(newest, rc == 0 ? reply.str : "", sizeof(newest));
		n += newest[0] != '\0';
	}
	if (n > 0)
		log_info("dead_letters_unrecorded", log_str("queue", t->q->keys.name), log_int("messages", n));
	return rc == -1 ? -1 : n;
}

/* ---- a page ---- */

/* Limits a batch to what one write to the archive takes; without an archive there is no limit. */
static size_t count_leaving(struct dead_letters *l, bool archive)
{
	size_t n = 0;

	for (size_t i = 0; i < l->nrecords; i++) {
		if (l->records[i].fate != DEAD_LETTER_LEAVES)
			continue;
		if (archive && n == DEAD_LETTERS_BATCH)
			l->records[i].fate = DEAD_LETTER_STAYS;
		else
			n++;
	}
	return n;
}

/* 1: call again at once; 0: nothing to do, or a subprocess runs; -1: error */
static int act_on_page(struct turn *t, struct dead_letters *l, size_t named, const struct queue_dead_letters_page *page)
{
	bool archive = t->conf->archive != NULL;
	struct bounds *b = bounds_of(t->q);
	int64_t adopted;
	size_t leaving;
	struct gone gone;

	if (named > 0 && remove_those(t, l, DEAD_LETTER_NAMED, &gone) == -1)
		return -1;
	if (named > 0 && (size_t)(gone.messages + gone.orphans) < b->archiver.nnamed)
		/* the other records of the batch are on another page, or were removed already */
		return 1;
	if (named == 0 && dead_letters_hides_named(l, b->archiver.named, b->archiver.nnamed)) {
		adopted = adopt_unrecorded(t, l, page);
		return adopted == -1 ? -1 : adopted > 0;
	}
	archiver_forget_batch(&b->archiver);
	leaving = count_leaving(l, archive);
	if (leaving > 0 && archive) {
		if (claim_letters(t->s, t->q, l) == -1)
			return -1;
		archiver_write(t->s, t->q, l, page->server_ms, t->now_ms);
	}
	if (leaving > 0 && !archive && remove_those(t, l, DEAD_LETTER_LEAVES, &gone) == -1)
		return -1;
	adopted = adopt_unrecorded(t, l, page);
	if (adopted == -1)
		return -1;
	if (adopted > 0)
		b->odd_at_ms = 0;	/* there may be more of them behind */
	return leaving > 0 ? !archive : adopted > 0;
}

/* Reads which record was forwarded last: newer ones must stay. */
int forward_last_id(struct sweeper *s, const struct sweeper_queue *q, char forwarded[QUEUE_RECORD_ID_SIZE])
{
	struct redis_reply reply;

	queue_forwarded(&s->redis, &q->keys);
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (queue_forward_paged(&reply) == -1)
		return connection_unexpected(s);
	strlcpy(forwarded, redis_element(&reply, 0).str, QUEUE_RECORD_ID_SIZE);
	return 0;
}

static int look_at_page(struct turn *t)
{
	char forwarded[QUEUE_RECORD_ID_SIZE] = "0-0";
	struct bounds *b = bounds_of(t->q);
	struct dead_letters_bounds bounds =
	    { .oldest_ms = t->oldest_ms, .max_entries = t->conf->max_entries > 0 ? t->conf->max_entries : -1,
		.named = b->archiver.named, .nnamed = b->archiver.nnamed };
	struct queue_dead_letters_page page;
	struct dead_letters *l;
	void *kept;
	int rc;

	if (t->conf->forward_to != NULL) {
		bounds.forwarded = forwarded;
		if (forward_last_id(t->s, t->q, forwarded) == -1)
			return -1;
	}
	rc = dead_letters_page_read(t->s, t->q, NULL, &page);
	if (rc != 1)
		return rc;
	kept = redis_keep(&t->s->redis);
	l = dead_letters_new(&page);
	rc = act_on_page(t, l, dead_letters_judge(l, &bounds), &page);
	dead_letters_free(l);
	redis_let_go(kept);
	return rc;
}

/* ---- a turn ---- */

/*
 * Sets the time before which dead letters leave. Only a proven age counts: a message that failed before the clock was
 * set may be younger than it seems.
 */
static void learn_age(struct turn *t, int64_t sent_ms)
{
	struct age_clock clock;

	t->oldest_ms = -1;
	clock_learn(t->s, t->glance.server_ms, sent_ms);
	if (t->conf->ttl_ms > 0 && server_clock_age(&t->s->clock, clock_boottime_ms(), &clock) &&
	    (clock.stepped_ms == 0 || clock.now_ms - clock.stepped_ms > t->conf->ttl_ms))
		t->oldest_ms = clock.now_ms - t->conf->ttl_ms;
}

static bool is_over(const struct turn *t)
{
	return (t->conf->max_entries > 0 && t->glance.entries > t->conf->max_entries) ||
	       (t->glance.records > 0 && t->glance.oldest_ms <= t->oldest_ms);
}

bool bounds_are_stuck(const struct sweeper_queue *q)
{
	return bounds_of(q)->stuck.too_long;
}

bool bounds_are_exceeded(const struct sweeper_queue *q)
{
	return bounds_of(q)->over || bounds_of(q)->stuck.too_long;
}

/* Logs the beginning of the alarm, each hour of it, and its end. */
static void alarm_about(struct turn *t, bool over)
{
	struct bounds *b = bounds_of(t->q);

	if (over && (!b->over || t->now_ms - b->over_logged_ms >= OVER_EVERY_MS)) {
		log_warning("dead_letters_over", log_str("queue", t->q->keys.name),
		    log_int("messages", t->glance.entries),
		    log_int("max_entries", t->conf->max_entries),
		    log_int("oldest_ms", t->glance.server_ms - t->glance.oldest_ms),
		    log_int("limit_ms", t->conf->ttl_ms),
		    log_str("advice",
		    "without dead_letter.archive, or dead_letter.discard = true, none of them is removed"));
		b->over_logged_ms = t->now_ms;
	}
	if (!over && b->over)
		log_info("dead_letters_within", log_str("queue", t->q->keys.name),
		    log_int("messages", t->glance.entries));
	b->over = over;
}

/*
 * A dead letter without a record has no age. If there is a ttl, the task looks for such dead letters once a minute, to
 * give them a record.
 */
static bool is_odd(const struct turn *t)
{
	struct bounds *b = bounds_of(t->q);

	if (t->conf->ttl_ms <= 0 || t->glance.entries == t->glance.records || t->now_ms < b->odd_at_ms)
		return false;
	b->odd_at_ms = t->now_ms + ODD_EVERY_MS;
	return true;
}

static int glance_at(struct turn *t)
{
	int64_t sent_ms = clock_boottime_ms();
	struct redis_reply reply;

	queue_dead_letters_glance(&t->s->redis, &t->q->keys);
	if (connection_answer(t->s, &reply) == -1)
		return -1;
	if (queue_dead_letters_glanced(&reply, &t->glance) == -1)
		return connection_unexpected(t->s);
	/*
	 * No write is under way, and the last batch of the archive is known, so every other claim of this node is on a
	 * dead letter that was not written.
	 */
	t->claims_are_stale = t->conf->archive != NULL && bounds_of(t->q)->archiver.nnamed == 0 &&
	    strcmp(t->glance.claimed_by, t->s->conf->supervisor.node) == 0;
	t->glance.claimed_by = NULL;
	learn_age(t, sent_ms);
	return 0;
}

static int look_at_old_end(struct turn *t)
{
	bool removes = t->conf->archive != NULL || t->conf->discard;
	struct bounds *b = bounds_of(t->q);

	if (t->conf->archive != NULL && !archiver_hold(t->s, t->q))
		return 0;
	if (t->conf->archive != NULL && !b->archiver.settled) {
		archiver_settle(t->s, t->q, t->now_ms);
		return 0;
	}
	if (glance_at(t) == -1)
		return -1;
	if (t->claims_are_stale && claim_release(t->s, t->q) == -1)
		return -1;
	if (!removes)
		alarm_about(t, is_over(t));
	if (b->archiver.nnamed > 0 || (removes && (is_over(t) || is_odd(t) || b->stuck.too_long)))
		return look_at_page(t);
	if (t->conf->archive != NULL)
		archiver_clear_error(t->s, t->q);
	return 0;
}

static int64_t next_look_ms(const struct turn *t)
{
	int64_t left = t->conf->ttl_ms - (t->glance.server_ms - t->glance.oldest_ms);

	if (t->conf->max_entries > 0 || left < EVERY_MS)
		return t->now_ms + EVERY_MS;
	return t->now_ms + (left < EVERY_MOST_MS ? left : EVERY_MOST_MS);
}

static enum task_end run_letters(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct turn t = { .s = s, .q = q, .conf = &q->conf->dead_letter, .now_ms = now_ms };
	const struct bounds *b = bounds_of(q);
	int64_t at_ms;
	int rc = 1;

	if (!archiver_poll(s, q, now_ms))
		return TASK_DONE;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(s))
		rc = look_at_old_end(&t);
	at_ms = next_look_ms(&t);
	if (subprocess_runs(&b->archiver.subprocess))
		at_ms = b->archiver.subprocess.until_ms;
	task_wake_at(q, &bounds_task, task_error_waits(&b->archiver.error, at_ms) ? b->archiver.error.retry_at_ms
	    : at_ms);
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

/*
 * Another sweeper leads now. It gets the archive as soon as this one has no write under way. If this sweeper gets the
 * lead back, the task runs at once, since its next run was scheduled for the end of the subprocess.
 */
static bool let_archive_go(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	archiver_poll(s, q, now_ms);
	if (subprocess_runs(&bounds_of(q)->archiver.subprocess))
		return false;
	archiver_let_go(q);
	task_wake_at(q, &bounds_task, now_ms);
	return true;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	const struct conf_dead_letter *conf = q->conf == NULL ? NULL : &q->conf->dead_letter;

	(void)s;
	return conf != NULL && conf->enabled && q->board != NULL &&
	    (conf->ttl_ms > 0 || conf->max_entries > 0 || conf->archive != NULL);
}

static const struct subprocess *subprocess_of(const struct sweeper_queue *q)
{
	return &bounds_of(q)->archiver.subprocess;
}

const struct task bounds_task = { .name = "dead_letters", .budget = 4, .leads = true, .wanted = is_wanted,
	.run_queue = run_letters, .stop = let_archive_go,
	.state_size = sizeof(struct bounds), .free = archiver_free, .subprocess = subprocess_of };
