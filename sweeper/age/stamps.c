/*
 * Writes into ingress since when each message waits. A raw message does not contain that time, so a script writes a
 * line with the server's time before the message. The line moves with the message, so it stays true. In a queue with
 * ttl every message gets a line, in a round that begins once a second at the newest message. If only health or metrics
 * need the age of the queue, only the newest message gets a line.
 */
#include <stdlib.h>

#include "sweeper/core/core.h"
#include "sweeper/age/waiting.h"

#include "common/base/base.h"
#include "common/queue/queue.h"
#include "sweeper/age/ttl.h"

#define EVERY_MS 1000
/* entries of one call; the script ends sooner if they are large, or far from both ends */
#define COUNT_MAX 1000
#define LINES_MAX 16		/* entries that one call of a round verifies */

/* A call, the entries that it met, and the ones that the next call must stamp. */
struct call {
	struct queue_stamp_one ones[LOOK_PAGE_MAX];
	size_t n;
	struct queue_stamped said;
	bool timed;		/* the call met an entry that has a time already */
	void *kept;		/* the reply, to which ones point */
};

/* Sorts an entry that begins like a wrapper: its wrapper has a time, or has none, or a producer wrote the line. */
static void sort_line(struct call *c, const struct sweeper_queue *q, const struct queue_line *line,
    const struct message *m)
{
	struct queue_stamp_one *one = &c->ones[c->n];

	if (m->wrapper.own_ms != 0) {
		c->timed = true;
	} else if (c->n < LOOK_PAGE_MAX && (int64_t)line->len <= q->conf->message_max) {
		*one = (struct queue_stamp_one){ .seen = *line, .drop = m->wrapper_len };
		message_stamp(&one->line, &q->keys.lines, &m->wrapper);
		c->n++;
	}
}

static int verify_lines(struct sweeper *s, struct call *c, const struct sweeper_queue *q,
    const struct redis_reply *reply)
{
	bool asked = false;

	for (size_t i = 0; i < c->said.n; i++) {
		struct queue_line line = queue_stamped_line(reply, i);
		struct message m;

		message_parse(&m, &q->keys.lines, line.line, line.line_len);
		if (m.doubtful && !asked) {
			if (connection_secret(s) == -1)
				return -1;
			asked = true;
			message_parse(&m, &q->keys.lines, line.line, line.line_len);
		}
		sort_line(c, q, &line, &m);
	}
	return 0;
}

static int stamp_call(struct sweeper *s, struct sweeper_queue *q, struct call *c, const struct message_stamp *line,
    int64_t from, int64_t count, int64_t lines)
{
	const struct queue_walk walk = { line, from, count, lines, q->conf->message_max };
	struct redis_reply reply;
	int64_t seen = 0;
	size_t n = c->n;

	if (n > 0)
		queue_stamp_seen(&s->redis, &q->keys, c->ones, n);
	queue_stamp(&s->redis, &q->keys, &walk);
	redis_let_go(c->kept);
	*c = (struct call){ .kept = NULL };
	if ((n > 0 && connection_integer(s, &seen) == -1) || connection_answer(s, &reply) == -1)
		return -1;
	if (queue_stamped(&reply, &c->said) == -1)
		return connection_unexpected(s);
	c->said.stamped += seen;
	c->kept = redis_keep(&s->redis);
	return verify_lines(s, c, q, &reply);
}

static void end_calls(struct call *c)
{
	redis_let_go(c->kept);
	free(c);
}

int stamps_range(struct sweeper *s, struct sweeper_queue *q, int64_t from, int64_t count)
{
	struct call *c = alloc_zero(1, sizeof(*c));
	int64_t end_at = from + count;
	struct message_stamp line;
	int rc = 0;

	message_stamp(&line, &q->keys.lines, &(struct wrapper){0});
	while (rc == 0 && (from < end_at || c->n > 0) && sweeper_goes_on(s)) {
		rc = stamp_call(s, q, c, &line, from, end_at - from, LOOK_PAGE_MAX);
		from = c->said.next;
	}
	end_calls(c);
	return rc;
}

static int stamp_newest(struct sweeper *s, struct sweeper_queue *q)
{
	struct call *c = alloc_zero(1, sizeof(*c));
	struct message_stamp line;
	int rc;

	message_stamp(&line, &q->keys.lines, &(struct wrapper){0});
	rc = stamp_call(s, q, c, &line, QUEUE_NEWEST, 1, 1);
	if (rc == 0 && c->n > 0)
		rc = stamp_call(s, q, c, &line, 0, 0, 0);
	end_calls(c);
	return rc;
}

/*
 * Walks from the newest message towards the pop end, until a call finds nothing to stamp. Indexes count from the pop
 * end, so pushes between two calls shift none. After pops a call meets some entries again, and recognises them by the
 * line of this round. 1: there is more.
 */
static int stamp_all(struct sweeper *s, struct sweeper_queue *q, int budget)
{
	struct call *c = alloc_zero(1, sizeof(*c));
	struct stamps *st = task_state(q, &stamps_task);
	int rc = 0;

	if (st->from == 0) {
		st->from = QUEUE_NEWEST;
		message_stamp(&st->line, &q->keys.lines, &(struct wrapper){0});
	}
	while (rc == 0 && (st->from != 0 || c->n > 0) && budget-- > 0 && sweeper_goes_on(s)) {
		rc = stamp_call(s, q, c, &st->line, st->from, COUNT_MAX, LINES_MAX);
		st->from = rc == -1 || (c->timed && c->said.stamped == 0 && c->n == 0) ? 0 : c->said.next;
	}
	end_calls(c);
	return rc == -1 ? -1 : st->from != 0;
}

/* ---- the task ---- */

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return !q->conf->shared && (q->conf->ttl_ms > 0 || sweeper_measures_queues(s));
}

static enum task_end run_stamps(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	int rc = q->conf->ttl_ms > 0 ? stamp_all(s, q, budget) : stamp_newest(s, q);

	(void)now_ms;
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

const struct task stamps_task = { .name = "stamps", .interval_ms = EVERY_MS, .budget = 20, .leads = true,
	.configured = true, .wanted = is_wanted,
	.run_queue = run_stamps,
	.state_size = sizeof(struct stamps) };
