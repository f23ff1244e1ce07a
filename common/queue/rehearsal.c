/*
 * Moves one message through every step of workers and sweeper, on scratch keys. It only shows whether the server allows
 * the moves, not whether they are correct.
 */
#include <stdlib.h>
#include <string.h>

#include "common/queue/rehearsal.h"

#include "common/base/base.h"
#include "common/queue/admin.h"
#include "common/queue/history.h"
#include "common/queue/look.h"
#include "common/queue/notes.h"
#include "common/queue/records.h"
#include "common/queue/rehearsal_steps.h"
#include "common/queue/schedules.h"
#include "common/queue/throttle.h"
#include "common/queue/waiting.h"
#include "common/queue/watch.h"

#define LEASE_MS 60000
#define MESSAGE "rehearsal"
#define DEFINITION "0000000000000000"

/* seals the wrappers of the rehearsal only; no other process uses it */
static const struct seal_secrets nobodys = { .n = 1 };

/* The note for the moves of a shared queue. */
static const struct queue_note *note_of(const struct rehearsal *h)
{
	return h->keys.shared ? &h->note : NULL;
}

static void rehearse_plant(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "LPUSH %s %b", h->keys.ingress, h->raw.data, h->raw.len);
}

static void rehearse_enrol(struct redis *r, struct rehearsal *h)
{
	queue_renew(r, &h->first, NULL, "{}");
}

static void rehearse_renew(struct redis *r, struct rehearsal *h)
{
	queue_renew(r, &h->second, &h->first, "{}");
}

static void rehearse_renew_lease(struct redis *r, struct rehearsal *h)
{
	queue_lease_renew(r, &h->second);
}

static void rehearse_annotate(struct redis *r, struct rehearsal *h)
{
	queue_annotate(r, &h->second, QUEUE_STOPPING, "1");
}

static void rehearse_fetch(struct redis *r, struct rehearsal *h)
{
	queue_fetch(r, &h->second, 0, 0);
}

static void rehearse_fetch_blocking(struct redis *r, struct rehearsal *h)
{
	queue_fetch(r, &h->second, 0, 1000);
}

static void rehearse_fetch_oom(struct redis *r, struct rehearsal *h)
{
	queue_fetch_oom(r, &h->second, 0);
}

static void rehearse_hand_back(struct redis *r, struct rehearsal *h)
{
	queue_hand_back(r, &(struct queue_move){ QUEUE_FROM_TRAY(&h->second, 0),
	    .entry = &h->by_place, .change = &h->change, .note = note_of(h) }, false);
}

static void rehearse_retry(struct redis *r, struct rehearsal *h)
{
	queue_retry(r, &(struct queue_move){ QUEUE_FROM_TRAY(&h->second, 0),
	    .entry = &h->by_value, .change = &h->change }, 0);
}

static void rehearse_hold(struct redis *r, struct rehearsal *h)
{
	queue_hold(r, &(struct queue_move){ QUEUE_FROM_TRAY(&h->second, 0),
	    .entry = &h->by_value, .change = &h->change }, LEASE_MS, "{}");
}

/* The script only answers that the hold could not be written; here Redis says why. */
static void rehearse_write_hold(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "SET %s {} PX %d", h->keys.paused, LEASE_MS);
}

static void rehearse_hold_look(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "PTTL %s", h->keys.paused);
}

static void rehearse_quiet(struct redis *r, struct rehearsal *h)
{
	queue_quiet(r, &h->keys);
}

static void rehearse_due(struct redis *r, struct rehearsal *h)
{
	queue_due(r, &h->keys, false, 1, NULL);
}

static void rehearse_delay(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "ZADD %s 0 %b", h->keys.pushed, h->raw.data, h->raw.len);
}

static void rehearse_pushed(struct redis *r, struct rehearsal *h)
{
	queue_pushed(r, &h->keys, false, 1, 1);
}

static void rehearse_fence(struct redis *r, struct rehearsal *h)
{
	queue_fence(r, &h->keys, h->second.incarnation, h->second.trays[0], h->rescue);
}

static void rehearse_size(struct redis *r, struct rehearsal *h)
{
	queue_rescue_size(r, &h->keys, h->second.incarnation);
}

static void rehearse_weigh(struct redis *r, struct rehearsal *h)
{
	queue_weigh(r, h->first.lease, h->rescue, QUEUE_END_LEFT, 1, 1);
}

static void rehearse_look(struct redis *r, struct rehearsal *h)
{
	queue_look(r, &(struct queue_look){ .key = h->rescue, .most = 1, .bytes = 1 });
}

static void rehearse_digest(struct redis *r, struct rehearsal *h)
{
	queue_digest(r, h->first.lease, h->rescue, &h->by_place, &(size_t){ 0 }, 1);
}

static void rehearse_too_large_first(struct redis *r, struct rehearsal *h)
{
	queue_too_large_first(r, &h->keys, h->first.lease, h->rescue, INT64_MAX, NULL, NULL);
}

static void rehearse_give_back(struct redis *r, struct rehearsal *h)
{
	queue_return(r, h->second.incarnation, &(struct queue_move){ .keys = &h->keys, .from = h->rescue,
	    .entry = &h->by_value, .change = &h->change, .note = note_of(h) });
}

/* Scripts only answer that the record could not be written; here Redis says why. */
static void rehearse_record(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "XADD %s * %s 1", h->keys.log, MESSAGE);
}

static void rehearse_escape(struct redis *r, struct rehearsal *h)
{
	const struct record record = { .queue = h->keys.name, .error_class = "Rehearsal", .exit_code = -1,
	    .duration_ms = -1 };
	struct message m = h->message;

	queue_escape(r, &(struct queue_move){ QUEUE_FROM_TRAY(&h->second, 0),
	    .entry = &h->by_value, .message = &m, .note = note_of(h), .record = &record });
}

static void rehearse_too_large(struct redis *r, struct rehearsal *h)
{
	queue_too_large(r, &h->second, 0, 0, NULL, NULL, false);
}

static void rehearse_done(struct redis *r, struct rehearsal *h)
{
	queue_done(r, &h->second, 0);
}

static void rehearse_stamp(struct redis *r, struct rehearsal *h)
{
	struct message_stamp line;

	message_stamp(&line, &h->keys.lines, &(struct wrapper){0});
	queue_stamp(r, &h->keys, &(struct queue_walk){ &line, QUEUE_NEWEST, 1, 1, (int64_t)h->raw.len });
}

static void rehearse_glance(struct redis *r, struct rehearsal *h)
{
	queue_glance(r, h->keys.ingress, -1, -1);
}

static void rehearse_unstamp(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "LSET %s -1 %s", h->keys.ingress, MESSAGE);
}

static void rehearse_expire(struct redis *r, struct rehearsal *h)
{
	const struct record record = { .queue = h->keys.name, .error_class = "Rehearsal", .exit_code = -1,
	    .duration_ms = -1 };
	struct message m = h->message;

	queue_escape(r, &(struct queue_move){ .keys = &h->keys, .lease = h->second.lease, .lease_ms = LEASE_MS,
	    .from = h->keys.ingress, .count = -1, .entry = &h->by_value, .message = &m, .record = &record });
}

static void rehearse_workers(struct redis *r, struct rehearsal *h)
{
	queue_workers(r, &h->keys);
}

static void rehearse_holdings(struct redis *r, struct rehearsal *h)
{
	queue_holdings(r, &h->keys, &(const char *){ h->first.incarnation }, 1);
}

static void rehearse_mark_dead(struct redis *r, struct rehearsal *h)
{
	queue_mark_dead(r, &h->keys, h->first.incarnation);
}

static void rehearse_forget(struct redis *r, struct rehearsal *h)
{
	queue_forget(r, &h->keys, h->first.incarnation);
}

static void rehearse_deregister(struct redis *r, struct rehearsal *h)
{
	queue_deregister(r, &h->second);
}

static void rehearse_read_notes(struct redis *r, struct rehearsal *h)
{
	queue_notes(r, &h->keys, &(struct queue_bytes){ h->message.raw, h->message.raw_len }, 1);
}

static void rehearse_starts(struct redis *r, struct rehearsal *h)
{
	struct queue_throttle_text text;

	queue_throttle_format(&(struct queue_throttle_figures){ .n = 1, .per_ms = 1, .burst = 1, .node = MESSAGE },
	    &text);
	queue_throttle(r, &h->keys, &text, 1, true, (struct queue_throttle_unused){0});
}

static void rehearse_schedule(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "HSET %s %s %s", h->keys.schedules, MESSAGE, DEFINITION " 0 0 0 0 0");
}

/* The next rehearsal may be of a queue without schedules, which does not clear the hash. */
static void rehearse_schedule_expiry(struct redis *r, struct rehearsal *h)
{
	redis_appendf(r, "PEXPIRE %s %d", h->keys.schedules, LEASE_MS);
}

static void rehearse_tick(struct redis *r, struct rehearsal *h)
{
	struct queue_places places = { .keys = h->first.trays, .n = 1 };

	encode_sha1("", 0, places.registered);	/* the workers have left */
	queue_tick(r, &h->keys, &(struct queue_tick){ .name = MESSAGE, .definition = DEFINITION, .tick_ms = 1,
	    .message = h->raw.data, .len = h->raw.len, .alone = &places });
}

static void rehearse_schedules_forget(struct redis *r, struct rehearsal *h)
{
	queue_schedules_forget(r, &h->keys, 0, 1, NULL, 0);
}

/* A queue that emits, and one that is emitted to, each try their own keys. The script asks for the rights to take its
 * pushes back, too. */
static void rehearse_emit(struct redis *r, struct rehearsal *h)
{
	struct queue_history *none = queue_history_new(0);
	const struct queue_put puts[] = { { .data = h->raw.data, .len = h->raw.len },
		{ .target = 1, .delay_ms = LEASE_MS, .data = "later", .len = 5 } };

	queue_history_emit(r, &h->second, 0, &h->by_value, &(struct queue_emitted){
	    (const char *[]){ h->keys.ingress, h->keys.delayed }, h->keys.shared ? 1 : 2, puts,
	    h->keys.shared ? 1 : 2 }, none, 0, MESSAGE);
	queue_history_free(none);
}

/* Redis checks the rights to a key even if it does not exist: a queue names none that it does not use. */
static void rehearse_clear(struct redis *r, struct rehearsal *h)
{
	const struct queue_keys *k = &h->keys;
	const char *throttle = (h->what & REHEARSE_THROTTLE) != 0 ? k->throttle : k->ingress,
	    *schedules = (h->what & REHEARSE_SCHEDULES) != 0 ? k->schedules : k->ingress;

	redis_appendf(r, "DEL %s %s %s %s %s %s %s %s %s %s %s %s %s %s %s %s %s", k->ingress, k->escape, k->delayed,
	    k->pushed, k->workers, k->log, h->first.lease, h->first.trays[0], h->second.lease, h->second.trays[0],
	    h->rescue, k->paused, k->notes, throttle, schedules, k->seats == NULL ? k->ingress : k->seats,
	    k->seats == NULL ? k->ingress : k->seats_free);
}

static const struct step {
	const char *name;
	void (*append)(struct redis *r, struct rehearsal *h);
	unsigned only;			/* enum queue_rehearsal; 0: of every queue */
} steps[] = {
	{ "clear", rehearse_clear, 0 },
	{ "push", rehearse_plant, 0 },
	{ "register", rehearse_enrol, 0 },
	{ "renew", rehearse_renew, 0 },
	{ "renew lease", rehearse_renew_lease, 0 },
	{ "ask for a seat", queue_rehearse_seat_refused, REHEARSE_SEATS },
	{ "take a seat", queue_rehearse_seat, REHEARSE_SEATS },
	{ "give a seat back", queue_rehearse_seat_back, REHEARSE_SEATS },
	{ "wake for a seat", queue_rehearse_wake, REHEARSE_SEATS },
	{ "await a seat", queue_rehearse_await_seat, REHEARSE_SEATS },
	{ "free a seat", queue_rehearse_seats_leave, REHEARSE_SEATS },
	{ "annotate", rehearse_annotate, 0 },
	{ "fetch", rehearse_fetch, 0 },
	{ "hand back", rehearse_hand_back, 0 },
	{ "fetch at maxmemory", rehearse_fetch_oom, 0 },
	{ "retry", rehearse_retry, 0 },
	{ "look for retries", rehearse_quiet, 0 },
	{ "look at the pause", rehearse_hold_look, 0 },
	{ "due", rehearse_due, 0 },
	{ "blocking fetch", rehearse_fetch_blocking, 0 },
	{ "fence", rehearse_fence, 0 },
	{ "read rescue size", rehearse_size, 0 },
	{ "weigh rescue", rehearse_weigh, 0 },
	{ "read rescue", rehearse_look, 0 },
	{ "digest", rehearse_digest, 0 },
	{ "escape from rescue unread", rehearse_too_large_first, 0 },
	{ "return", rehearse_give_back, 0 },
	{ "fetch again", rehearse_fetch, 0 },
	{ "write the record", rehearse_record, 0 },
	{ "escape", rehearse_escape, 0 },
	{ "delay another", rehearse_delay, 0 },
	{ "due push", rehearse_pushed, 0 },
	{ "fetch another", rehearse_fetch, 0 },
	{ "emit", rehearse_emit, REHEARSE_EMIT },
	{ "fetch what was emitted", rehearse_fetch, REHEARSE_EMIT },
	{ "escape unread", rehearse_too_large, 0 },
	{ "done", rehearse_done, 0 },
	{ "push another", rehearse_plant, 0 },
	{ "fetch the other", rehearse_fetch, 0 },
	{ "hold the queue", rehearse_hold, 0 },
	{ "write the hold", rehearse_write_hold, 0 },
	{ "read workers", rehearse_workers, 0 },
	{ "look at trays", rehearse_holdings, 0 },
	{ "mark dead", rehearse_mark_dead, 0 },
	{ "forget", rehearse_forget, 0 },
	{ "deregister", rehearse_deregister, 0 },
	{ "push again", rehearse_plant, REHEARSE_AGES },
	{ "stamp", rehearse_stamp, REHEARSE_AGES },
	{ "read waiting messages", rehearse_glance, REHEARSE_AGES },
	{ "unstamp", rehearse_unstamp, REHEARSE_AGES },
	{ "expire", rehearse_expire, REHEARSE_AGES },
	{ "read notes", rehearse_read_notes, REHEARSE_NOTES },
	{ "push for a start", rehearse_plant, REHEARSE_THROTTLE },
	{ "throttle", rehearse_starts, REHEARSE_THROTTLE },
	{ "write the record of a schedule", rehearse_schedule, REHEARSE_SCHEDULES },
	{ "let the record expire", rehearse_schedule_expiry, REHEARSE_SCHEDULES },
	{ "tick", rehearse_tick, REHEARSE_SCHEDULES },
	{ "forget schedules", rehearse_schedules_forget, REHEARSE_SCHEDULES },
	{ "clear", rehearse_clear, 0 },
};

/* The i-th of the steps that are appended. */
static const struct step *step_of(size_t i, unsigned what)
{
	for (size_t k = 0; k < nitems(steps); k++)
		if ((steps[k].only == 0 || (steps[k].only & what) != 0) && i-- == 0)
			return &steps[k];
	return NULL;
}

static void init_rehearsal(struct rehearsal *h, const char *prefix, const struct queue_keys *k, const char *name,
    char first[INCARNATION_SIZE], char second[INCARNATION_SIZE])
{
	struct incarnation i = { .node = "rehearsal" };

	*h = (struct rehearsal){0};
	queue_rehearsal_keys(&h->keys, prefix, k, name);
	h->keys.lines.secrets = &nobodys;
	incarnation_format(&i, first);
	i.generation++;
	incarnation_format(&i, second);
	queue_owner_init(&h->first, &h->keys, first, LEASE_MS);
	queue_owner_init(&h->second, &h->keys, second, LEASE_MS);
	h->rescue = queue_tray_key(&h->keys, second, QUEUE_RESCUE);
	buffer_append(&h->raw, MESSAGE, sizeof(MESSAGE) - 1);
	message_parse(&h->message, &h->keys.lines, h->raw.data, h->raw.len);
	h->change = (struct queue_change){ &h->line, 0 };
	h->by_value = (struct queue_entry){ .raw = h->raw.data, .len = h->raw.len, .at = QUEUE_ANYWHERE };
	h->by_place = (struct queue_entry){ .raw = h->raw.data, .len = h->raw.len, .at = -1 };
	queue_note_of(&h->note, &h->message, &(struct wrapper){ .redelivered = 1 });
}

size_t queue_rehearse(struct redis *r, const struct queue_keys *k, const char *name, unsigned what)
{
	char first[INCARNATION_SIZE], second[INCARNATION_SIZE];
	struct rehearsal h;
	size_t n = 0;

	init_rehearsal(&h, redis_prefix(r), k, name, first, second);
	h.what = what;
	while (step_of(n, what) != NULL)
		step_of(n++, what)->append(r, &h);
	free(h.rescue);
	buffer_free(&h.raw);
	queue_owner_free(&h.first);
	queue_owner_free(&h.second);
	queue_keys_free(&h.keys);
	return n;
}

const char *queue_rehearsal_step(size_t i, unsigned what)
{
	return step_of(i, what)->name;
}

bool queue_rehearsal_is_of_record(size_t i, unsigned what)
{
	return step_of(i, what)->append == rehearse_record;
}
