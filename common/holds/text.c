/* The reason of a hold in more words, from what workers, sweeper and master know of it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <bsd/string.h>

#include "common/base/base.h"
#include "common/handler/handler.h"
#include "common/holds/holds.h"

static void add_next(int64_t at_ms, int64_t now_ms, const char *what, const char *due, char out[HOLD_TEXT_SIZE])
{
	char text[UNITS_SIZE];

	if (now_ms == 0)
		return;
	if (at_ms > now_ms)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), "; %s in %s", what,
		    units_elapsed(at_ms - now_ms, text));
	else
		strlcat(out, due, HOLD_TEXT_SIZE);
}

static void explain_breaker(const struct board_queue *q, const struct slot *failed, const struct conf_queue *conf,
    char out[HOLD_TEXT_SIZE])
{
	uint64_t word = atomic_load(&q->workers.breaker.cause);
	char cause[HANDLER_CAUSE_SIZE];
	struct slot_text_seen words;

	strlcpy(out, handler_cause_text(word, conf == NULL ? NULL : conf->handler, cause), HOLD_TEXT_SIZE);
	if (failed == NULL || !handler_cause_has_words(word))
		return;
	words = slot_text_read(&failed->failure);
	snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), "%s%s", words.text[0] == '\0' ? "" : ": ",
	    words.text);
}

/* worker: whose start failed. */
static void explain_shortage(const struct slot *worker, char out[HOLD_TEXT_SIZE])
{
	uint32_t error = worker == NULL ? 0 : atomic_load(&worker->not_started);

	if (error != 0)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), " (%s)", strerror((int)error));
}

static void explain_no_worker(const struct board_queue *q, int64_t now_ms, char out[HOLD_TEXT_SIZE])
{
	int64_t ended_ms = atomic_load(&q->master.ended_ms);
	uint32_t how = atomic_load(&q->master.ended);
	char text[UNITS_SIZE];

	if (ended_ms == 0 || atomic_load(&q->master.waits) != 0)
		return;
	snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out),
	    how & QUEUE_ENDED_BY_SIGNAL ? ": signal %u ended the last one" :
	    ": the last one exited with status %u", (unsigned)(how & ~QUEUE_ENDED_BY_SIGNAL));
	if (now_ms > ended_ms)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), " %s ago",
		    units_elapsed(now_ms - ended_ms, text));
}

/* No worker has shown its error yet, only that it has no connection. */
static void explain_loss(const struct slot *next, char out[HOLD_TEXT_SIZE])
{
	struct slot_text_seen why;

	if (next == NULL)
		return;
	why = slot_text_read(&next->redis_why);
	if (why.number != -1)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), ": %s", why.text);
}

/* Its end and the words of the handler; a moment after the first of them no sweeper has read them yet. */
static void explain_held(const struct board_queue *q, char out[HOLD_TEXT_SIZE])
{
	struct slot_text_seen held = slot_text_read(&q->sweeper.held);

	if (held.number != -1)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), " %s", held.text);
}

static bool tells_not_ready(const struct board_queue *q, const struct judged *judged)
{
	return judged->hold == HOLD_NONE && judged->reason != NULL && judged->reason == holds_not_ready(q);
}

const char *holds_explain_not_ready(const struct board_queue *q, char out[HOLD_TEXT_SIZE])
{
	struct slot_text_seen why = slot_text_read(&q->master.not_ready_why);
	const char *words = holds_not_ready(q);

	if (words == NULL)
		return NULL;
	strlcpy(out, words, HOLD_TEXT_SIZE);
	if (why.number != -1)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), ": %s", why.text);
	return out;
}

/* The worker may have got a seat since it was read. */
static void explain_throttled(const struct hold_workers *w, const char *throttle, char out[HOLD_TEXT_SIZE])
{
	uint64_t seats = w->throttled == NULL && w->seatless != NULL ? atomic_load(&w->seatless->seats) : 0;
	const char *of = throttle == NULL ? "" : "throttle ", *name = throttle == NULL ? "" : throttle,
	    *colon = throttle == NULL ? "" : ": ";

	if (seats >> 32 != 0)
		snprintf(out, HOLD_TEXT_SIZE, "%s%s%s%" PRIu64 " of %" PRIu64 " seats are taken", of, name, colon,
		    seats >> 32, seats & UINT32_MAX);
	else if (seats != 0)
		snprintf(out, HOLD_TEXT_SIZE, "%s%s%sRedis was restarted or replaced, and gives no seats until all "
		    "workers can have told which they have", of, name, colon);
	else if (throttle != NULL)
		snprintf(out, HOLD_TEXT_SIZE, "throttle %s allows no start now", throttle);
}

/* More of the reason of this one hold, without times that are to come. */
static void explain(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms, char out[HOLD_TEXT_SIZE])
{
	char more[QUEUE_ERROR_MORE_SIZE];

	if (judged->hold == HOLD_THROTTLED)
		explain_throttled(&slots->of_queue[q - b->queues], conf == NULL ? NULL : conf->throttle, out);
	else if (tells_not_ready(q, judged))
		holds_explain_not_ready(q, out);
	else if (judged->hold == HOLD_BREAKER)
		explain_breaker(q, slots->of_queue[q - b->queues].failed, conf, out);
	else if (judged->hold == HOLD_NO_PROCESS)
		explain_shortage(slots->of_queue[q - b->queues].starts, out);
	else if (judged->hold == HOLD_NO_WORKER)
		explain_no_worker(q, now_ms, out);
	else if (judged->hold == HOLD_HELD)
		explain_held(q, out);
	else if (judged->error != 0 && judged->error == queue_error_shown(b, q, &slots->errors))
		strlcat(out, queue_error_more(b, q, judged->error, more), HOLD_TEXT_SIZE);
	else if (judged->hold == HOLD_NO_REDIS)
		explain_loss(holds_next_to_connect(q, b, slots), out);
}

#define ALSO_MAX 2		/* further holds that the text names; it counts the rest */

static void add_others(uint32_t also, char out[HOLD_TEXT_SIZE])
{
	int n = 0;

	for (int hold = HOLDS - 1; hold > HOLD_NONE; hold--)
		if ((also & 1U << hold) != 0 && n++ < ALSO_MAX)
			snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), "; also %s (by %s, until %s)",
			    holds_table[hold].name, holds_table[hold].setter, holds_table[hold].end);
	if (n > ALSO_MAX)
		snprintf(out + strlen(out), HOLD_TEXT_SIZE - strlen(out), "; and %d more", n - ALSO_MAX);
}

/* When the hold may end. A shut queue tries no handler. */
static void add_next_attempt(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, int64_t now_ms, char out[HOLD_TEXT_SIZE])
{
	const struct slot *starts = slots->of_queue[q - b->queues].starts,
	    *connects = holds_next_to_connect(q, b, slots);
	const char *with_message = "; next attempt with the next message";

	if (judged->hold == HOLD_THROTTLED && slots->of_queue[q - b->queues].throttled != NULL)
		add_next(atomic_load(&slots->of_queue[q - b->queues].throttled->throttled_ms), now_ms, "next start", "",
		    out);
	else if (judged->hold == HOLD_BREAKER && !judged->shut)
		add_next(atomic_load(&q->workers.breaker.until_ms), now_ms, "next attempt", with_message, out);
	else if (judged->hold == HOLD_NO_PROCESS && !judged->shut && starts != NULL &&
	    atomic_load(&starts->not_started) != 0)
		add_next(atomic_load(&starts->next_start_ms), now_ms, "next attempt", with_message, out);
	else if (judged->hold == HOLD_NO_WORKER && atomic_load(&q->master.ended_ms) != 0 &&
	    atomic_load(&q->master.waits) == 0)
		add_next(atomic_load(&q->master.next_start_ms), now_ms, "the next one starts", "", out);
	else if ((judged->hold == HOLD_REFUSED || judged->hold == HOLD_NO_REDIS) && connects != NULL)
		add_next(atomic_load(&connects->redis_retry_ms), now_ms, "next attempt", "", out);
}

const char *holds_explain(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms, char out[HOLD_TEXT_SIZE])
{
	if (judged->reason == NULL)
		return NULL;
	strlcpy(out, judged->reason, HOLD_TEXT_SIZE);
	explain(b, q, slots, judged, conf, now_ms, out);
	add_others(judged->also, out);
	add_next_attempt(b, q, slots, judged, now_ms, out);
	return out;
}

const char *holds_explain_alone(const struct scoreboard *b, const struct board_queue *q, const struct hold_slots *slots,
    const struct judged *judged, const struct conf_queue *conf, int64_t now_ms, char out[HOLD_TEXT_SIZE])
{
	const struct judged alone = { .hold = judged->hold, .reason = judged->reason, .error = judged->error,
	    .shut = judged->shut };

	return holds_explain(b, q, slots, &alone, conf, now_ms, out);
}

const char *holds_lasting_reason(const struct scoreboard *b, const struct board_queue *q,
    const struct hold_slots *slots, const struct judged *judged, const struct conf_queue *conf,
    char out[HOLD_TEXT_SIZE])
{
	return judged->hold == HOLD_NONE && !tells_not_ready(q, judged) ? holds_understaffed(q, slots, b)
	    : holds_explain(b, q, slots, judged, conf, 0, out);
}
