/*
 * A message that has waited for too long is not started. What it says of its age is held against the clock
 * of Redis as the sweeper knows it; before that counts, the server is asked once more, since its clock may
 * have been set right now. Most messages have no limit, and none of this is done for them.
 */
#include "worker/worker.h"

#include "common/age.h"
#include "common/clock.h"
#include "common/queue_watch.h"
#include "common/server_clock.h"

static bool is_late(const struct worker *w, struct age_excess *excess)
{
	struct server_clock known;
	struct age_clock clock;

	server_clock_read(&known, &w->child->board->clock);
	return server_clock_age(&known, clock_boottime_ms(), &clock) &&
	       age_expired(&w->message, w->conf->ttl_ms, &clock, excess);
}

static void ask_time(struct worker *w, int64_t now_ms)
{
	queue_time(&w->redis);
	session_expect(w, ANSWER_TIME, -1, 0, now_ms + REDIS_TIMEOUT_MS);
	w->time_sent_ms = clock_boottime_ms();
	w->time_asked_serial = w->fillings;
	w->asking_time = true;
}

bool expiry_holds(struct worker *w, struct place p, int64_t now_ms)
{
	char text[AGE_TEXT_SIZE];
	struct age_excess excess;

	if (w->conf->ttl_ms <= 0 && w->message.ttl_ms < 0)
		return false;
	if (w->message.wrapper_len + w->message.header_len == 0)
		return false;		/* it says nothing of itself */
	if (!is_late(w, &excess))
		return false;
	if (w->trays[p.tray].serial > w->time_serial) {
		ask_time(w, now_ms);
		return true;
	}
	if (!w->time_agrees)
		return false;
	settle_expired(w, p, age_describe(&excess, text));
	return true;
}

void expiry_time_answer(struct worker *w, const struct redis_reply *reply)
{
	struct server_time t = { .server_ms = queue_time_parse(reply), .sent_ms = w->time_sent_ms, .answered_ms = clock_boottime_ms() };
	struct server_clock known;

	server_clock_read(&known, &w->child->board->clock);
	w->time_agrees = t.server_ms != -1 && server_clock_agrees(&known, &t);
	w->time_serial = w->time_asked_serial;
	w->asking_time = false;
}
