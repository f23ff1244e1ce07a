/*
 * Measures how long the messages in ingress have waited. A short list is read whole, a long one in ten evenly spaced
 * pages. The average is then that of these pages, and `stuck` is at least the number counted in them. Only the
 * beginnings of entries are read, and only messages that contain a time count. If some do not, `stuck` is an estimate:
 * a list is in the order of its pushes, unless an operator moved messages, so all messages between a stuck one and the
 * pop end are assumed to be stuck, too.
 */
#include "sweeper/report/gauge.h"

#include "common/message/message.h"
#include "common/queue/queue.h"
#include "sweeper/core/core.h"

#define PAGES 10
#define PAGE 100			/* entries; a reply has fewer if they are large */

/* Entries are read from the newest to the oldest. Offsets count from the pop end; 0 is the oldest. */
struct ages {
	const struct message_keys *lines;
	struct age_clock clock;
	int64_t stuck_ms;		/* messages of at least this age are stuck */
	int64_t known, sum_ms, oldest_ms;
	int64_t stuck;			/* stuck messages that were counted */
	int64_t behind;			/* entries from the newest stuck one to the pop end */
};

/*
 * The time since which a message waits: its own, or the time that its producer wrote if that is earlier and the message
 * was never redriven. 0: not known
 */
static int64_t since(const struct message *m, const struct ages *a)
{
	int64_t noted = age_since(&m->wrapper, &a->clock);

	if (m->wrapper.redriven_ms == 0 && m->enqueued_ms > 0 && m->enqueued_ms <= a->clock.now_ms &&
	    (noted == 0 || m->enqueued_ms < noted))
		return m->enqueued_ms;
	return noted;
}

static void take_entry(struct ages *a, const struct redis_reply *begins, int64_t offset)
{
	struct message m;
	int64_t at, age, own;

	message_parse(&m, a->lines, begins->str, begins->len);
	own = age_since(&m.wrapper, &a->clock);
	if (own != 0 && a->behind == 0 && a->clock.now_ms - own >= a->stuck_ms)
		a->behind = offset + 1;
	at = since(&m, a);
	if (at == 0)
		return;
	age = a->clock.now_ms > at ? a->clock.now_ms - at : 0;
	a->known++;
	a->sum_ms += age;
	a->stuck += age >= a->stuck_ms;
	if (age > a->oldest_ms)
		a->oldest_ms = age;
}

static int take_page(struct sweeper *s, struct ages *a, const struct redis_reply *page, int64_t offset)
{
	struct queue_glanced glanced;

	if (queue_glanced(page, &glanced) == -1)
		return connection_unexpected(s);
	for (size_t i = 0; i < glanced.n; i++) {
		struct redis_reply begins = redis_element(page, i);

		take_entry(a, &begins, offset + (int64_t)(glanced.n - 1 - i));
	}
	return 0;
}

/* Reads pages from the push end to the pop end; if they cover the list, all of it. */
static int take_pages(struct sweeper *s, struct sweeper_queue *q, struct ages *a, int64_t size)
{
	int64_t page = PAGE, n = (size + page - 1) / page, count = n < PAGES ? n : PAGES, offsets[PAGES];
	struct redis_reply reply;
	int rc = 0;

	for (int64_t i = 0; i < count; i++)
		offsets[i] = n <= PAGES ? i * page : i * (size - page) / (PAGES - 1);
	for (int64_t i = count; i-- > 0;) {
		int64_t end = offsets[i] + page > size ? size : offsets[i] + page;

		queue_glance(&s->redis, q->keys.ingress, -end, -1 - offsets[i]);
	}
	for (int64_t i = count; i-- > 0 && s->redis.state != REDIS_CLOSED;)
		if (connection_answer(s, &reply) == -1 || take_page(s, a, &reply, offsets[i]) == -1)
			rc = -1;
	return rc;
}

void gauge_waiting(struct sweeper *s, struct sweeper_queue *q, struct facts *f, const struct age_clock *clock,
    const struct redis_reply *first, bool *wrong)
{
	struct ages a = { .lines = &q->keys.lines, .clock = *clock, .stuck_ms = gauge_thresholds(s, q)->stuck_age_ms };
	int64_t size = f->n[FACT_INGRESS_SIZE];

	if (size == 0)
		f->n[FACT_INGRESS_STUCK] = 0;
	if (size <= 0)
		return;
	if ((size <= GAUGE_FIRST ? take_page(s, &a, first, 0) : take_pages(s, q, &a, size)) == -1)
		*wrong = true;
	if (a.known > 0) {
		f->n[FACT_INGRESS_OLDEST] = a.oldest_ms;
		f->n[FACT_INGRESS_AVERAGE] = a.sum_ms / a.known;
		f->n[FACT_INGRESS_STUCK] = a.stuck > a.behind ? a.stuck : a.behind;
	}
}
