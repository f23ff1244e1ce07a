/*
 * A message that has waited longer than its TTL does not start: it escapes. Its age is computed with the clock of Redis
 * as the sweeper has measured it. Before a message escapes, the worker reads that clock once more, since it may have
 * been set meanwhile; the answer counts for all messages that were fetched before the question. Most messages have no
 * TTL, and cost nothing here.
 */
#include "worker/worker.h"

#include "common/base/base.h"
#include "common/board/board.h"
#include "common/message/message.h"
#include "common/queue/queue.h"

static bool is_late(const struct worker *w, struct age_excess *excess)
{
	struct server_clock known;
	struct age_clock clock;

	server_clock_read(&known, &w->env->child->board->sweeper.clock);
	return server_clock_age(&known, clock_boottime_ms(), &clock) &&
	       age_expired(w->starter.job.message, w->env->conf->ttl_ms, &clock, excess);
}

void expiry_lost(struct worker *w)
{
	w->expiry.asking = false;
}

static void ask_time(struct worker *w, int64_t now_ms)
{
	queue_time(&w->session.redis);
	session_expect(w, ANSWER_TIME, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	w->expiry.sent_ms = clock_boottime_ms();
	w->expiry.asked_serial = w->trays.messages;
	w->expiry.asking = true;
}

bool expiry_holds(struct worker *w, struct place p, int64_t now_ms)
{
	char text[AGE_TEXT_SIZE];
	struct age_excess excess;

	if (w->env->conf->ttl_ms <= 0 && w->starter.job.message->ttl_ms < 0)
		return false;
	if (w->starter.job.message->wrapper_len + w->starter.job.message->header_len == 0)
		return false;		/* it has neither wrapper nor header: it says nothing about its age */
	if (!is_late(w, &excess))
		return false;
	if (tray_item(&w->trays, p)->serial > w->expiry.known_serial) {
		ask_time(w, now_ms);
		return true;
	}
	if (!w->expiry.agrees)
		return false;
	settle_expired(w, p, age_describe(&excess, text));
	return true;
}

void expiry_time_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	struct server_time t = { .server_ms = queue_time_parse(reply), .sent_ms = w->expiry.sent_ms,
	    .answered_ms = clock_boottime_ms() };
	struct server_clock known;

	(void)of, (void)now_ms;
	server_clock_read(&known, &w->env->child->board->sweeper.clock);
	w->expiry.agrees = t.server_ms != -1 && server_clock_agrees(&known, &t);
	w->expiry.known_serial = w->expiry.asked_serial;
	w->expiry.asking = false;
}
