/*
 * quredis cancel: finds a message in flight by its id, and orders its worker to end it, on whichever host that runs
 * (common/queue/cancels.h). Then it waits until the worker has written the result.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include <bsd/string.h>

#include "admin/moves/moves.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SHOWN (64 * 1024)	/* as peek */
#define LOOKS 3			/* searches for a message that changes its place between the look and the order */
#define EVERY_MS 100
#define SERVED_MS 8000		/* a request of the console must be answered in 10 s */
#define EXECUTE_MS 20000	/* until a worker has read the order, and its handler is gone: beside kill_grace */

struct run {
	struct admin *a;
	const char *id;
	bool found;
	char worker[INCARNATION_SIZE];	/* that has it */
	bool alive;
	char field[ENCODE_SHA1_SIZE];	/* "": the order is not given yet */
	const char *result;
};

static bool is_of_worker(const char *wanted, const char *incarnation)
{
	size_t len = wanted == NULL ? 0 : strlen(wanted);

	return wanted == NULL || strcmp(wanted, incarnation) == 0 ||
	    (strncmp(wanted, incarnation, len) == 0 && incarnation[len] == '.');
}

/* ---- the order ---- */

/* Returns 1: the order is given; 0: the message is not at this place any more; -1: error. */
static int give_order(struct run *run, const char *tray, int64_t at, const struct queue_looked *l,
    const struct message *m)
{
	struct queue_entry e = { .raw = l->head.str, .len = l->size, .at = at,
	    .tail = l->size > l->head.len ? l->tail.str : NULL };
	struct queue_cancel c = { .attempts = m->wrapper.attempts, .marks = queue_cancel_marks(&m->wrapper),
		.redriven_ms = m->wrapper.redriven_ms,
		.retry = run->a->options.again };
	char *by = admin_name(run->a, sizeof(c.by) - 1);
	struct redis_reply reply;

	strlcpy(c.owner, run->worker, sizeof(c.owner));
	strlcpy(c.by, by, sizeof(c.by));
	free(by);
	queue_cancel(&run->a->redis, &run->a->keys, tray, &e, m->wrapper_len, &c);
	if (admin_reply(run->a, &reply, run->a->keys.cancels) == -1)
		return -1;
	if (reply.type == REDIS_INTEGER && reply.integer == -3)
		return admin_fail(run->a, EX_TEMPFAIL,
		    "%s has %d orders to cancel messages already; the oldest ends in at most %d minutes",
		    run->a->keys.name, QUEUE_CANCELS_MAX, (int)(QUEUE_CANCEL_KEEP_MS / 60000));
	if (reply.type == REDIS_STRING)
		strlcpy(run->field, reply.str, sizeof(run->field));
	return reply.type == REDIS_STRING;
}

/* In a shared queue the worker knows the counts of the message from its note. Of more than QUEUE_LOOK_SUM_MAX bytes the
 * note has no name. */
static int read_note(struct run *run, const struct queue_looked *l, struct message *m)
{
	struct admin *a = run->a;
	struct queue_note note;
	struct wrapper wrapper;
	struct redis_reply reply;
	const char *field = note.field;

	if (!a->keys.shared || (l->size > l->head.len && l->sha1.len == 0))
		return 0;
	if (l->size > l->head.len)
		field = l->sha1.str;
	else
		queue_note_of(&note, m, NULL);
	queue_notes_by_sha1(&a->redis, &a->keys, &field, 1);
	if (admin_reply(a, &reply, a->keys.notes) == -1)
		return -1;
	if (queue_note_read(&reply, 0, &wrapper))
		m->wrapper = wrapper;
	return 0;
}

/* As give_order(). l and m are views into the last answer. */
static int give_order_by_note(struct run *run, const char *tray, int64_t at, const struct queue_looked *l,
    struct message *m)
{
	void *kept = redis_keep(&run->a->redis);
	int rc = read_note(run, l, m);

	if (rc == 0)
		rc = give_order(run, tray, at, l, m);
	redis_let_go(kept);
	return rc;
}

/* ---- the search ---- */

/* Returns 1: found, and the order is given; 2: found, and it has moved since; 0: not found; -1: error. */
static int search_page(struct run *run, const char *tray, int64_t first, const struct redis_reply *reply, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int64_t at = first - (int64_t)i;
		struct queue_looked l;
		struct message m;
		int rc;

		queue_looked(reply, i, &l);
		message_parse(&m, &run->a->keys.lines, l.head.str, l.head.len);
		if ((l.size > l.head.len && m.id[0] == '\0') || strcmp(message_id(&m), run->id) != 0)
			continue;
		run->found = true;
		if (run->a->options.dry_run)
			return 1;
		rc = give_order_by_note(run, tray, at, &l, &m);
		return rc == 0 ? 2 : rc;
	}
	return 0;
}

/* Oldest first: in a worker that runs one message at a time, that is the one that runs. */
static int search_tray(struct run *run, const char *tray)
{
	struct admin *a = run->a;
	struct redis_reply reply;
	int64_t first = -1;
	size_t n = 1;
	int rc = 0;

	while (rc == 0 && n > 0) {
		queue_look(&a->redis, &(struct queue_look){ .key = tray, .first = first, .backwards = true,
		    .most = ENTRIES_MAX,
		    .bytes = ENTRIES_STEP_BYTES, .shown = SHOWN, .ends = QUEUE_ENTRY_ENDS, .sums = a->keys.shared });
		if (admin_reply(a, &reply, tray) == -1)
			return -1;
		n = queue_look_count(&reply);
		if (n == SIZE_MAX)
			return admin_fail(a, EX_PROTOCOL, "unexpected reply type from Redis to a look at %s", tray);
		rc = search_page(run, tray, first, &reply, n);
		first -= (int64_t)n;
	}
	return rc;
}

static int search_worker(struct run *run, const struct queue_worker *w, const struct owner *owner)
{
	int rc = 0;

	strlcpy(run->worker, w->incarnation, sizeof(run->worker));
	run->alive = owner->alive;
	for (int t = 0; t < QUEUE_TRAYS && rc == 0; t++) {
		char *tray = queue_tray_key(&run->a->keys, w->incarnation, t);

		if (owner->trays[t] > 0)
			rc = search_tray(run, tray);
		free(tray);
	}
	return rc;
}

/* Returns as search_page(). */
static int search(struct run *run)
{
	struct lists l;
	int rc = lists_read(run->a, &run->a->keys, LIST_BIT(LIST_TRANSIT), &l);

	for (size_t i = 0; i < l.nworkers && rc == 0; i++)
		if (is_of_worker(run->a->options.worker, l.workers[i].incarnation))
			rc = search_worker(run, &l.workers[i], &l.owners[i]);
	lists_free(&l);
	return rc;
}

static int not_running(struct run *run)
{
	const char *name = run->a->keys.name;

	run->result = queue_cancel_results[CANCEL_NOT_RUNNING];
	return admin_fail(run->a, EX_NOINPUT, "%s is not running in %s%s; if it waits: quredis rm %s ingress %s; if it "
	    "is delayed: quredis rm %s delayed %s",
	    run->id, name, run->a->options.worker == NULL ? "" : " on that worker", name, run->id, name, run->id);
}

static int find_and_order(struct run *run)
{
	int rc = 2;

	for (int look = 0; look < LOOKS && rc == 2; look++)
		rc = search(run);
	if (rc == 2)
		return admin_fail(run->a, EX_TEMPFAIL,
		    "the message changed its place in %s during each search; run the command again", run->a->keys.name);
	return rc == 0 ? not_running(run) : rc == 1 ? 0 : -1;
}

/* ---- the result ---- */

/* Returns 1: there is one; 0: not yet; -1: error. */
static int read_result(struct run *run)
{
	struct redis_reply reply;
	struct queue_cancel c;
	const char *text;

	queue_cancel_read(&run->a->redis, &run->a->keys, run->field);
	if (admin_reply(run->a, &reply, run->a->keys.cancels) == -1)
		return -1;
	text = reply.type == REDIS_STRING ? strchr(reply.str, ' ') : NULL;
	if (text == NULL || queue_cancel_parse(&c, text + 1, strlen(text + 1)) == -1) {
		run->result = "unknown";
		return admin_fail(run->a, EX_TEMPFAIL,
		    "the order is gone, without a result: Redis went back to an earlier state, or another program "
		    "deleted it; run the command again");
	}
	run->result = queue_cancel_results[c.result];
	return c.result != CANCEL_WANTED;
}

static int await_result(struct run *run)
{
	const struct conf_queue *q = run->a->queue;
	int64_t grace = q == NULL || q->kill_grace_ms < 0 ? 0 : q->kill_grace_ms;
	int64_t by_ms = clock_monotonic_ms() + (run->a->served ? SERVED_MS : EXECUTE_MS + grace);
	int rc = 0;

	run->result = queue_cancel_results[CANCEL_WANTED];
	if (run->a->options.no_wait || run->a->options.dry_run)
		return 0;
	interrupt_begin();
	while ((rc = read_result(run)) == 0 && clock_monotonic_ms() < by_ms && !interrupt_asked())
		poll(NULL, 0, EVERY_MS);
	interrupt_end();
	if (rc == 1 && strcmp(run->result, queue_cancel_results[CANCEL_NOT_RUNNING]) == 0)
		return not_running(run);
	if (rc == 0)
		return admin_fail(run->a, EX_TEMPFAIL,
		    "the worker %s has not ended it yet%s; the order stays for %d minutes", run->worker,
		    run->alive ? "" : ": it is silent, so the next worker that gets the message ends it",
		    (int)(QUEUE_CANCEL_KEEP_MS / 60000));
	return rc == 1 ? 0 : -1;
}

static void say(const struct run *run)
{
	static const struct column columns[] = {
		{ "queue", "", COLUMN_NAME }, { "action", "", COLUMN_NAME }, { "id", "", COLUMN_ID },
		{ "then", "", COLUMN_NAME },
		{ "worker", "", COLUMN_NAME }, { "result", "", COLUMN_NAME }, { "dry_run", "", COLUMN_NAME },
	};
	struct admin *a = run->a;
	const char *then = a->options.again ? "to be run again" : "a dead letter, class Cancelled";
	bool ended = strcmp(run->result, queue_cancel_results[CANCEL_WANTED]) != 0;

	if (a->options.json) {
		output_object(&a->output, columns, nitems(columns),
		    (struct cell[]){ cell_str(a->keys.name), cell_str("cancel"), cell_str(run->id),
		    cell_str(a->options.again ? "retry" : "escape"), run->found ? cell_str(run->worker) : cell_none(),
		    cell_str(run->result), cell_bool(a->options.dry_run) });
		return;
	}
	if (a->status == EX_OK)
		notice_say("%s %s in %s, on %s: %s",
		    a->options.dry_run ? "would cancel" : ended ? "cancelled" : "ordered to cancel", run->id,
		    a->keys.name, run->worker, then);
}

int cmd_cancel(struct admin *a)
{
	struct run run = { .a = a, .id = a->operands[1], .result = queue_cancel_results[CANCEL_WANTED] };
	int rc;

	if (a->options.again && a->options.escape)
		return admin_fail(a, EX_USAGE, "--retry and --escape cannot be combined");
	if (!a->options.dry_run && confirm(a, "End the run of %s in %s? %s", run.id, a->keys.name,
	    a->options.again ? "It will run again." : "It becomes a dead letter.") == -1)
		return -1;
	rc = find_and_order(&run);
	if (rc == 0)
		rc = await_result(&run);
	if (rc == 0 || run.found)
		say(&run);
	return rc;
}
