/*
 * Trays and the messages in them: memory, states and counts, nothing else. No function here sends anything. A tray
 * mirrors the list of the same number in Redis, except for GONE items. Only this file assigns the fields of trays and
 * items, but for the indexes from which tray_find.c searches. It owns the memory of an outcome, which settle.c fills.
 */
#include <assert.h>
#include <stdlib.h>

#include "worker/tray.h"

#include "common/base/base.h"
#include "worker/settle.h"

/*
 * Bytes that an empty tray keeps: enough for a batch (about 1 MiB, pacing.c), since the kernel would have to clear each
 * page anew for the next one. tray_free_memory() frees more when no message comes.
 */
#define KEPT_MAX (2 * 1024 * 1024)
#define KEPT_IDLE_MAX (256 * 1024)
#define COPIED_MAX (64 * 1024)	/* a message up to this size is copied into its tray's bytes */

#define TO(state) (1u << (state))

void tray_init(struct trays *ts, const struct queue_keys *keys)
{
	ts->keys = keys;
}

/* ---- states ---- */

/* FILLED -> EMPTY: all its messages left it one by one. -> FETCHING: it takes more. DELETING -> FILLED: its list was
 * read after a doubt. */
static void change_tray(struct tray *t, enum tray_state to)
{
	static const unsigned legal[TRAY_STATES] = {
		[TRAY_EMPTY] = TO(TRAY_FETCHING) | TO(TRAY_FILLED),
		[TRAY_FETCHING] = TO(TRAY_FILLED),
		[TRAY_FILLED] = TO(TRAY_DELETING) | TO(TRAY_EMPTY) | TO(TRAY_FETCHING),
		[TRAY_DELETING] = TO(TRAY_EMPTY) | TO(TRAY_FILLED),
	};

	assert((legal[t->state] & TO(to)) != 0);
	t->state = to;
}

/* WAITING -> MOVING: it is handed back, or escapes without a run. MOVING -> MOVING: another move was chosen. */
static struct item *change_item(struct trays *ts, struct place p, enum item_state to)
{
	static const unsigned legal[ITEM_STATES] = {
		[ITEM_WAITING] = TO(ITEM_RUNNING) | TO(ITEM_MOVING) | TO(ITEM_GONE),
		[ITEM_RUNNING] = TO(ITEM_WAITING) | TO(ITEM_DONE) | TO(ITEM_MOVING) | TO(ITEM_GONE),
		[ITEM_DONE] = TO(ITEM_MOVING) | TO(ITEM_GONE),
		[ITEM_MOVING] = TO(ITEM_MOVING) | TO(ITEM_GONE),
	};
	struct tray *t = &ts->tray[p.tray];
	struct item *item = tray_item(ts, p);

	assert((legal[item->state] & TO(to)) != 0 && t->count[item->state] > 0);
	if (item->state == ITEM_WAITING && item->solo)
		t->solos--;
	if (to == ITEM_WAITING) {
		t->solos += item->solo;
		t->next = p.item < t->next ? p.item : t->next;
	}
	t->count[item->state]--;
	t->count[to]++;
	item->state = to;
	return item;
}

/* ---- parsed messages ---- */

static void forget_parsed(struct trays *ts, struct item *item)
{
	parsed_drop(&ts->pool, item->parsed);
	item->parsed = NULL;
}

static void parse_item(struct trays *ts, struct tray *t, struct item *item)
{
	item->parsed = parsed_new(&ts->pool, &ts->keys->lines, tray_raw(t, item), item->len);
	if (item->note != NULL)
		item->parsed->message.wrapper = *item->note;
	item->parsed->message.wrapper.redelivered += item->again;
}

void tray_forget_message(struct trays *ts, struct place p)
{
	forget_parsed(ts, tray_item(ts, p));
}

struct message *tray_message(struct trays *ts, struct place p)
{
	struct tray *t = &ts->tray[p.tray];
	struct item *item = &t->items[p.item];

	if (item->parsed == NULL)
		parse_item(ts, t, item);
	item->parsed->message.raw = tray_raw(t, item);	/* the tray's bytes may have moved since */
	return &item->parsed->message;
}

/* Reads what the wrapper says of the message. For a message without one this costs one comparison. */
static void read_wrapper(struct trays *ts, struct tray *t, struct item *item)
{
	if (!message_may_be_wrapped(tray_raw(t, item), item->len))
		return;
	parse_item(ts, t, item);
	item->solo = message_is_suspect(&item->parsed->message.wrapper);
	item->fresh = item->parsed->message.wrapper.fresh;
	t->solos += item->solo;
	t->doubtful = t->doubtful || item->parsed->message.doubtful;
}

/* ---- adding ---- */

static void mark_refused(struct trays *ts, bool *mark, bool refused)
{
	ts->refusals += refused - *mark;
	assert(ts->refusals >= 0);
	*mark = refused;
}

static void free_item(struct trays *ts, struct item *item)
{
	mark_refused(ts, &item->refused, false);
	forget_parsed(ts, item);
	free(item->note);
	redis_let_go(item->kept);
	if (item->outcome == NULL)
		return;
	buffer_free(&item->outcome->line);
	buffer_free(&item->outcome->stderr_tail);
	handler_emissions_free(item->outcome->emitted);
	free(item->outcome);
}

/* A handler reads its message from these bytes until it ends (common/handler/handler.h). So they must not move: keep
 * them, and let a copy grow. */
static void keep_for_running(struct tray *t, size_t more)
{
	struct buffer copy = {0};

	if (t->count[ITEM_RUNNING] == 0 || t->bytes.cap - t->bytes.len >= more)
		return;
	buffer_append(&copy, t->bytes.data, t->bytes.len);
	t->outgrown = alloc_resize(t->outgrown, t->noutgrown + 1, sizeof(*t->outgrown));
	t->outgrown[t->noutgrown++] = t->bytes;
	t->bytes = copy;
}

static struct item *append_item(struct tray *t)
{
	if (t->n == t->cap) {
		t->cap = t->cap == 0 ? 4 : t->cap * 2;
		t->items = alloc_resize(t->items, (size_t)t->cap, sizeof(*t->items));
	}
	return &t->items[t->n++];
}

/* A tray that takes one fetch after the other, and is never empty, must not grow with each message. */
static struct item *reuse_gone_item(struct trays *ts, struct tray *t)
{
	struct item *item = t->items;

	while (item->state != ITEM_GONE)
		item++;			/* the count says that there is one */
	free_item(ts, item);
	t->count[ITEM_GONE]--;
	if (item - t->items < t->next)
		t->next = (int)(item - t->items);
	return item;
}

static struct item *new_item(struct trays *ts, struct tray *t, size_t len, bool again)
{
	struct item *item = t->refilled && t->count[ITEM_GONE] > 0 ? reuse_gone_item(ts, t) : append_item(t);

	*item = (struct item){ .at = t->bytes.len, .len = len, .state = ITEM_WAITING, .again = again,
		.serial = ++ts->messages };
	t->count[ITEM_WAITING]++;
	return item;
}

struct item *tray_add(struct trays *ts, int tray, const char *raw, size_t len, bool again)
{
	struct tray *t = &ts->tray[tray];
	struct item *item = new_item(ts, t, len, again);

	keep_for_running(t, len + 1);
	/* Adds a NUL behind the message, for functions that read text. */
	buffer_append(&t->bytes, raw, len);
	buffer_append(&t->bytes, "", 1);
	read_wrapper(ts, t, item);
	return item;
}

struct item *tray_add_reply(struct trays *ts, int tray, struct redis *r, const struct redis_reply *reply)
{
	struct tray *t = &ts->tray[tray];
	struct item *item;

	t->arrived++;
	/* bytes would grow with each message while the tray is never empty */
	if (reply->len <= COPIED_MAX && !t->refilled)
		return tray_add(ts, tray, reply->str, reply->len, false);
	item = new_item(ts, t, reply->len, false);
	item->kept_raw = reply->str;
	item->kept = redis_keep(r);
	read_wrapper(ts, t, item);
	return item;
}

/* ---- a tray ---- */

void tray_ask(struct trays *ts, int tray, int n)
{
	struct tray *t = &ts->tray[tray];

	t->refilled = t->state == TRAY_FILLED;
	change_tray(t, TRAY_FETCHING);
	t->asked = n;
}

bool tray_answered(struct trays *ts, int tray)
{
	struct tray *t = &ts->tray[tray];

	assert(t->state == TRAY_FETCHING && t->answered < t->asked);
	return ++t->answered == t->asked;
}

static void free_outgrown(struct tray *t)
{
	for (size_t i = 0; i < t->noutgrown; i++)
		buffer_free(&t->outgrown[i]);
	free(t->outgrown);
}

/* Keeps the memory, the state and the serial. */
static void clear_tray(struct trays *ts, struct tray *t)
{
	for (int i = 0; i < t->n; i++)
		free_item(ts, &t->items[i]);
	free_outgrown(t);
	mark_refused(ts, &t->refused, false);
	if (t->bytes.cap > KEPT_MAX)
		buffer_free(&t->bytes);
	buffer_clear(&t->bytes);
	*t = (struct tray){ t->state, .serial = t->serial, .bytes = t->bytes, .items = t->items, .cap = t->cap };
}

void tray_empty(struct trays *ts, int tray)
{
	change_tray(&ts->tray[tray], TRAY_EMPTY);
	clear_tray(ts, &ts->tray[tray]);
}

void tray_filled(struct trays *ts, int tray)
{
	struct tray *t = &ts->tray[tray];

	change_tray(t, TRAY_FILLED);
	t->asked = t->answered = t->arrived = 0;
	t->notes = t->count[ITEM_WAITING] > 0 && (ts->keys->shared || t->doubtful) ? NOTES_WANTED : NOTES_KNOWN;
	if (!t->refilled)
		t->serial = ++ts->fillings;
	if (t->count[ITEM_GONE] == t->n)
		tray_empty(ts, tray);
}

void tray_close(struct trays *ts, int tray)
{
	struct tray *t = &ts->tray[tray];

	if (t->state != TRAY_FILLED || t->count[ITEM_WAITING] + t->count[ITEM_RUNNING] + t->count[ITEM_MOVING] > 0)
		return;
	if (t->count[ITEM_DONE] == 0) {
		tray_empty(ts, tray);
	} else {
		change_tray(t, TRAY_DELETING);
		t->sent = false;
	}
}

void tray_let_done_leave(struct trays *ts, int tray)
{
	const struct tray *t = &ts->tray[tray];

	for (int i = 0; i < t->n && t->count[ITEM_DONE] > 0; i++)
		if (t->items[i].state == ITEM_DONE)
			tray_move(ts, (struct place){ tray, i }, MOVE_DONE);
}

void tray_reopen(struct trays *ts, int tray)
{
	struct tray *t = &ts->tray[tray];

	change_tray(t, TRAY_FILLED);
	mark_refused(ts, &t->refused, false);
	t->sent = false;
}

void tray_delete_sent(struct trays *ts, int tray, bool sent)
{
	assert(ts->tray[tray].state == TRAY_DELETING);
	ts->tray[tray].sent = sent;
}

void tray_delete_refused(struct trays *ts, int tray, bool refused)
{
	mark_refused(ts, &ts->tray[tray].refused, refused);
}

void tray_mix(struct trays *ts, int tray)
{
	ts->tray[tray].mixed = true;
}

void tray_set_notes(struct trays *ts, int tray, enum tray_notes notes)
{
	ts->tray[tray].notes = notes;
}

void tray_secrets_learnt(struct trays *ts, int tray)
{
	struct tray *t = &ts->tray[tray];

	for (struct item *item = t->items; item < t->items + t->n; item++) {
		if (item->state != ITEM_WAITING || !message_may_be_wrapped(tray_raw(t, item), item->len))
			continue;
		t->solos -= item->solo;		/* its line may be a wrapper now */
		forget_parsed(ts, item);
		read_wrapper(ts, t, item);
	}
	t->doubtful = false;
}

/* ---- an item ---- */

void tray_add_note(struct trays *ts, struct place p, const struct wrapper *note)
{
	struct tray *t = &ts->tray[p.tray];
	struct item *item = tray_item(ts, p);

	assert(item->state == ITEM_WAITING);
	free(item->note);
	item->note = alloc_zero(1, sizeof(*item->note));
	*item->note = *note;
	forget_parsed(ts, item);
	item->fresh = item->fresh || note->fresh;
	t->solos += !item->solo && message_is_suspect(note);
	item->solo = item->solo || message_is_suspect(note);
}

void tray_start(struct trays *ts, struct place p)
{
	change_item(ts, p, ITEM_RUNNING);
}

void tray_unstart(struct trays *ts, struct place p)
{
	change_item(ts, p, ITEM_WAITING);
}

void tray_lose(struct trays *ts, struct place p)
{
	assert(tray_item(ts, p)->state == ITEM_RUNNING);
	tray_item(ts, p)->lost = true;
}

void tray_done(struct trays *ts, struct place p, int64_t done_ms, int64_t duration_ms)
{
	struct item *item = change_item(ts, p, ITEM_DONE);

	item->done_ms = done_ms;
	item->duration_ms = duration_ms;
	if (done_ms == 0 && item->note == NULL)
		forget_parsed(ts, item);
}

void tray_move(struct trays *ts, struct place p, enum move move)
{
	struct item *item = change_item(ts, p, ITEM_MOVING);

	item->move = move;
	item->sent = false;
}

void tray_move_sent(struct trays *ts, struct place p, bool sent)
{
	assert(tray_item(ts, p)->state == ITEM_MOVING);
	tray_item(ts, p)->sent = sent;
}

void tray_move_refused(struct trays *ts, struct place p, bool refused)
{
	mark_refused(ts, &tray_item(ts, p)->refused, refused);
}

int tray_count_refusal(struct trays *ts, struct place p)
{
	struct item *item = tray_item(ts, p);

	return item->refusals == UINT8_MAX ? UINT8_MAX : ++item->refusals;
}

void tray_gone(struct trays *ts, struct place p)
{
	struct item *item = change_item(ts, p, ITEM_GONE);

	mark_refused(ts, &item->refused, false);
	forget_parsed(ts, item);
	if (item->kept == NULL)
		return;
	redis_let_go(item->kept);	/* it may be large, and its item unused for long */
	item->kept = NULL;
	item->at = item->len = 0;
}

struct outcome *tray_outcome(struct trays *ts, struct place p)
{
	struct item *item = tray_item(ts, p);

	if (item->outcome == NULL)
		item->outcome = alloc_zero(1, sizeof(*item->outcome));
	return item->outcome;
}

/* ---- memory ---- */

void tray_free_memory(struct trays *ts)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		if (ts->tray[i].state == TRAY_EMPTY && ts->tray[i].bytes.cap > KEPT_IDLE_MAX)
			buffer_free(&ts->tray[i].bytes);
	parsed_pool_free(&ts->pool);
}

void tray_free_all(struct trays *ts)
{
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		clear_tray(ts, &ts->tray[i]);
		buffer_free(&ts->tray[i].bytes);
		free(ts->tray[i].items);
	}
	parsed_pool_free(&ts->pool);
}
