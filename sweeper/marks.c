/*
 * Once a second the newest waiting message is marked with the server's time, which proves the age of all that was
 * pushed before it. Only for queues of which anybody wants to know how long messages wait: ttl.c and others.
 */
#include <string.h>

#include "sweeper/sweeper.h"

#include "common/queue_waiting.h"
#include "sweeper/ttl.h"

#define EVERY_MS 1000

/* It begins like a wrapper. If it is one, it is replaced, or it has its mark; if not, it is the producer's. */
static int mark_seen(struct sweeper *s, struct swept *q, const struct redis_reply *begins)
{
	struct queue_seen seen = { .len = begins->len };
	char line[QUEUE_MARK_LINE_SIZE];
	struct message m;
	int64_t marked;

	message_parse(&m, begins->str, begins->len);
	if (m.wrapper.mark_ms != 0)
		return 0;
	if (m.wrapper_len > 0)
		seen.len = seen.drop = m.wrapper_len;
	seen.data = begins->str;
	queue_mark_line(line, &m.wrapper);
	queue_mark(&s->redis, &q->keys, line, &seen);
	return connection_integer(s, &marked);
}

static int mark_newest(struct sweeper *s, struct swept *q)
{
	char line[QUEUE_MARK_LINE_SIZE];
	struct redis_reply reply;

	queue_mark_line(line, &(struct wrapper){0});
	queue_mark(&s->redis, &q->keys, line, NULL);
	if (connection_answer(s, &reply) == -1)
		return -1;
	return reply.type == REDIS_STRING ? mark_seen(s, q, &reply) : 0;
}

struct mark mark_of(const struct message *m, int64_t at, const struct age_clock *c)
{
	const struct wrapper marked = { .mark_ms = m->wrapper.mark_ms };
	struct mark mark = { .at = at, .len = m->wrapper_len, .since_ms = age_since(&marked, 0, c) };

	if (mark.len > sizeof(mark.line))
		mark.len = 0;		/* nobody of ours writes so much: it proves nothing */
	memcpy(mark.line, m->raw, mark.len);
	return mark;
}

static bool is_ours(const struct sweeper *s, const struct swept *q)
{
	return q->conf != NULL && conf_queue_ages(s->conf, q->conf) && lead_is_ours(q);
}

int64_t marks_wake_ms(const struct sweeper *s)
{
	int64_t at = INT64_MAX;
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (is_ours(s, q) && q->marks.at_ms < at)
			at = q->marks.at_ms;
	return at;
}

bool marks_task(struct sweeper *s, int budget, int64_t now_ms)
{
	struct swept *q;

	(void)budget;
	TAILQ_FOREACH(q, &s->queues, entry) {
		struct marks *m = &q->marks;

		if (!is_ours(s, q) || now_ms < m->at_ms || !sweeper_goes_on(s))
			continue;
		m->at_ms = now_ms + EVERY_MS;
		if (mark_newest(s, q) == 0) {
			trouble_over(s, q, &m->trouble);
		} else {
			trouble_note(s, q, &m->trouble, "marks", now_ms);
			m->at_ms = trouble_waits(&m->trouble, m->at_ms) ? m->trouble.retry_at_ms : m->at_ms;
		}
		connection_drain(s);
	}
	return false;
}
