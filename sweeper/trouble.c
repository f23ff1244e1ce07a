/* What is wrong with one queue: said once, shown on the board, tried again less and less often. */
#include <string.h>

#include <bsd/stdlib.h>
#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/backoff.h"
#include "common/nitems.h"

#define RETRY_BASE_MS 200
#define RETRY_CAP_MS 15000

static const char *const mends[] = {
	[TROUBLE_WRONG_TYPE] = "a key of this queue has a type quredis does not give it: rename or delete that key",
	[TROUBLE_NO_PERMISSION] = "grant the Redis user the queue's keys and this command",
	[TROUBLE_STORM] = NULL,
	[TROUBLE_ARCHIVE] = NULL,
	[TROUBLE_OTHER] = NULL,
	[TROUBLE_LEFTOVERS] = NULL,
};

enum queue_trouble trouble_kind(const char *error)
{
	/* Inside a script the code may not come first, or there may be none (Redis 7). */
	static const struct {
		const char *text;
		enum queue_trouble kind;
	} known[] = {
		{ "WRONGTYPE", TROUBLE_WRONG_TYPE },
		{ "NOPERM", TROUBLE_NO_PERMISSION },
		{ "The user executing the script can't", TROUBLE_NO_PERMISSION },
		{ "ACL failure in script", TROUBLE_NO_PERMISSION },
	};

	for (size_t i = 0; i < nitems(known); i++)
		if (strstr(error, known[i].text) != NULL)
			return known[i].kind;
	if (strncmp(error, "OOM", 3) == 0 || strncmp(error, "TRYAGAIN", 8) == 0)
		return TROUBLE_STORM;
	return TROUBLE_OTHER;
}

void trouble_say(struct sweeper *s, enum queue_trouble kind, const char *error)
{
	s->error_kind = kind;
	strlcpy(s->error, error, sizeof(s->error));
}

static void try_later(struct trouble *t, int64_t now_ms)
{
	t->times++;
	t->retry_at_ms = now_ms + backoff_ms(RETRY_BASE_MS, 2, RETRY_CAP_MS, 0.5, t->times, arc4random());
}

static void log_trouble(const struct swept *q, struct trouble *t, const char *at, const char *error)
{
	strlcpy(t->text, error, sizeof(t->text));
	log_error("queue_trouble", log_str("queue", q->keys.name), log_str("at", at), log_str("error", t->text),
	    log_str("advice", mends[t->kind]));
}

int trouble_note(struct sweeper *s, struct swept *q, struct trouble *t, const char *at, int64_t now_ms)
{
	bool news;

	if (s->redis.state == REDIS_CLOSED)
		return -1;		/* the connection's trouble, not the queue's */
	if (s->error_kind == TROUBLE_NONE)
		s->error_kind = TROUBLE_OTHER;
	news = t->kind != s->error_kind || strcmp(t->text, s->error) != 0;
	if (t->kind == TROUBLE_NONE)
		TAILQ_INSERT_TAIL(&q->troubles, t, entry);
	t->kind = s->error_kind;
	try_later(t, now_ms);
	if (news)
		log_trouble(q, t, at, s->error);
	swept_publish(s, q);
	return -1;
}

void trouble_cut(struct swept *q, struct trouble *t, const char *at, int64_t now_ms)
{
	try_later(t, now_ms);
	if (t->times >= TROUBLE_GOES_ON && t->text[0] == '\0')
		log_trouble(q, t, at, "the connection to Redis is lost each time");
}

void trouble_over(struct sweeper *s, struct swept *q, struct trouble *t)
{
	if (t->times == 0)
		return;
	if (t->text[0] != '\0')
		log_info("queue_mended", log_str("queue", q->keys.name), log_str("error", t->text));
	trouble_forget(q, t);
	swept_publish(s, q);
}

void trouble_forget(struct swept *q, struct trouble *t)
{
	if (t->kind != TROUBLE_NONE)
		TAILQ_REMOVE(&q->troubles, t, entry);
	*t = (struct trouble){ .leads = t->leads };
}
