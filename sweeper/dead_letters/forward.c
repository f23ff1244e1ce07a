/*
 * Copies records to another queue, whose handler processes dead letters. The sweeper pushes a page first, and then
 * stores the id of its last record. The keys belong to two queues, so no script can do both. If the sweeper is killed
 * in between, the next one pushes the page again; it skips no record.
 */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/dead_letters/dead_letters.h"
#include "sweeper/core/core.h"

#define PAGE 50
#define PAGE_BYTES (512 * 1024)
#define EVERY_MS 1000

struct copies {
	struct buffer lines[PAGE];
	struct queue_bytes messages[PAGE];
	size_t n;
	/* ids: the last record forwarded before this page, and the last record of this page */
	char before[QUEUE_RECORD_ID_SIZE], last[QUEUE_RECORD_ID_SIZE];
};

static void append_copy(struct copies *c, const struct redis_reply *record)
{
	struct redis_reply id = redis_element(record, 0), fields = redis_element(record, 1);
	struct record_field *pairs = alloc_zero(fields.n / 2 + 1, sizeof(*pairs));
	struct buffer *line = &c->lines[c->n];

	for (size_t i = 0; i + 1 < fields.n; i += 2) {
		struct redis_reply name = redis_element(&fields, i), value = redis_element(&fields, i + 1);

		pairs[i / 2] = (struct record_field){ { name.str, name.len }, { value.str, value.len } };
	}
	record_line(line, &(struct record_line){ .record_id = id.str, .fields = pairs, .nfields = fields.n / 2 });
	c->messages[c->n++] = (struct queue_bytes){ line->data, line->len - 1 };	/* without the newline */
	strlcpy(c->last, id.str, sizeof(c->last));
	free(pairs);
}

static int read_page(struct sweeper *s, struct sweeper_queue *q, struct copies *c)
{
	struct redis_reply page;

	queue_forward_page(&s->redis, &q->keys, PAGE, PAGE_BYTES);
	if (connection_answer(s, &page) == -1)
		return -1;
	if (queue_forward_paged(&page) == -1)
		return connection_unexpected(s);
	strlcpy(c->before, redis_element(&page, 0).str, sizeof(c->before));
	for (size_t i = 1; i < page.n && i <= PAGE; i++) {
		struct redis_reply record = redis_element(&page, i);

		append_copy(c, &record);
	}
	return 0;
}

static int push_copies(struct sweeper *s, struct sweeper_queue *q, const struct sweeper_queue *to,
    const struct copies *c)
{
	struct redis_reply reply;
	int64_t waiting;

	queue_push(&s->redis, &to->keys, false, c->messages, c->n);
	if (connection_integer(s, &waiting) == -1)
		return -1;
	queue_forward_done(&s->redis, &q->keys, c->before, c->last);
	if (connection_answer(s, &reply) == -1)
		return -1;
	if (queue_forward_paged(&reply) == -1 || strcmp(redis_element(&reply, 0).str, c->last) != 0)
		log_warning("forward_repeated", log_str("queue", q->keys.name), log_str("to", to->keys.name),
		    log_str("last", c->last));
	return 0;
}

/* 1: there may be more; 0: none; -1: error */
static int forward_page(struct sweeper *s, struct sweeper_queue *q, const struct sweeper_queue *to)
{
	struct copies *c = alloc_zero(1, sizeof(*c));
	int rc = read_page(s, q, c);

	if (rc == 0 && c->n > 0 && (rc = push_copies(s, q, to, c)) == 0) {
		sweeper_queue_count(q, COUNT_FORWARDED, c->n);
		log_info("dead_letters_forwarded", log_str("queue", q->keys.name), log_str("to", to->keys.name),
		    log_int("messages", (int64_t)c->n), log_str("last", c->last));
		rc = 1;
	}
	for (size_t i = 0; i < c->n; i++)
		buffer_free(&c->lines[i]);
	free(c);
	return rc;
}

static enum task_end run_forward(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	const struct sweeper_queue *to = sweeper_queue_find(s, q->conf->dead_letter.forward_to);
	int rc = to != NULL;

	(void)now_ms;
	while (rc == 1 && budget-- > 0 && sweeper_goes_on(s))
		rc = forward_page(s, q, to);
	return rc == -1 ? TASK_FAILED : rc == 1 ? TASK_MORE : TASK_DONE;
}

static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	(void)s;
	return q->conf != NULL && q->conf->dead_letter.enabled && q->conf->dead_letter.forward_to != NULL;
}

const struct task forward_task = { .name = "forward", .interval_ms = EVERY_MS, .budget = 4, .leads = true,
    .wanted = is_wanted, .run_queue = run_forward };
