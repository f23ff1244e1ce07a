/*
 * Executes the orders of operators to cancel messages (common/queue/cancels.h). The sweeper reads with its look at the
 * queue whether there are any, and writes it on the scoreboard; while there are, each worker of the queue reads them
 * every EVERY_MS.
 *
 * An order names a message by its bytes, and equal messages are common. So this file ends a run only on evidence that
 * it is the one that the operator saw: the message was in a tray of this worker before the order was written; or
 * another process had it then, and it has been redelivered since. An equal message without this evidence may run, and
 * the order stays, since this worker cannot tell. If no equal message is in flight here, and the order names a tray of
 * this process, the message has ended: the worker writes that as the result.
 *
 * All of it is a state in Redis: the order stays until its result stands in its place, which the move of the message
 * writes. So whichever process dies, and whenever, the next one reads it again, or its result.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "worker/worker.h"

#include "common/base/base.h"

#define EVERY_MS 1000

void cancel_init(struct worker *w)
{
	w->cancels.before = slot_generation(w->env->slot);
}

void cancel_free(struct worker *w)
{
	free(w->cancels.all);
}

void cancel_lost(struct worker *w)
{
	w->cancels.asking = false;
	w->cancels.next_ms = 0;
}

static bool are_there(const struct worker *w)
{
	return atomic_load(&w->env->board->sweeper.cancels) > 0;
}

int64_t cancel_deadline_ms(const struct worker *w, int64_t now_ms)
{
	(void)now_ms;
	return are_there(w) && session_usable(w) && !w->cancels.asking ? w->cancels.next_ms : INT64_MAX;
}

void cancel_tick(struct worker *w, int64_t now_ms)
{
	struct cancels *c = &w->cancels;

	if (!are_there(w) || c->asking || now_ms < c->next_ms || !session_usable(w) || w->exit.leaving || w->exit.left)
		return;
	queue_cancels(&w->session.redis, &w->env->keys);
	session_expect(w, ANSWER_CANCELS, -1, CANCEL_READS, now_ms + REDIS_TIMEOUT_MS);
	c->asking = true;
	c->sent_ms = now_ms;
	c->next_ms = now_ms + EVERY_MS;
}

/* ---- the orders that this worker executes ---- */

static struct cancel *find_executing(struct cancels *c, const char *field)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->all[i].field, field) == 0)
			return &c->all[i];
	return NULL;
}

static void add_executing(struct worker *w, struct place p, const char *field, const struct queue_cancel *order)
{
	struct cancels *c = &w->cancels;

	c->all = alloc_resize(c->all, c->n + 1, sizeof(*c->all));
	c->all[c->n] = (struct cancel){ .place = p, .serial = tray_item(&w->trays, p)->serial, .order = *order };
	strlcpy(c->all[c->n++].field, field, sizeof(c->all->field));
}

static void drop_executing(struct cancels *c, struct cancel *e)
{
	*e = c->all[--c->n];
}

struct cancel *cancel_of(struct worker *w, struct place p)
{
	for (struct cancel *e = w->cancels.all; e < w->cancels.all + w->cancels.n; e++)
		if (e->serial == tray_item(&w->trays, p)->serial)
			return e;
	return NULL;
}

/* No evidence against message or handler: it counts no attempt, and the breaker does not hear of it. */
void cancel_settle(struct worker *w, struct place p, const struct handler_result *result)
{
	struct cancel *c = cancel_of(w, p);
	char why[sizeof("cancelled by ") + QUEUE_CANCEL_BY_SIZE];

	if (c != NULL)
		c->settled = true;
	if (c != NULL && c->order.retry) {
		settle_hand_back(w, p, result == NULL ? SETTLE_AS_IT_WAS : SETTLE_REDELIVERED);
		return;
	}
	snprintf(why, sizeof(why), "cancelled by %s", c == NULL ? "an operator" : c->order.by);
	settle_escape(w, p, "Cancelled", why, result);
}

void cancel_undone(struct worker *w, struct place p)
{
	struct cancel *c = cancel_of(w, p);

	if (c != NULL)
		c->undone = true;
}

void cancel_moved(struct worker *w, struct place p)
{
	struct cancel *c = cancel_of(w, p);

	if (c != NULL && !c->undone)
		drop_executing(&w->cancels, c);
}

const struct queue_cancel_end *cancel_end_of(struct worker *w, struct place p, struct cancel_end *room)
{
	const struct cancel *c = cancel_of(w, p);

	if (c == NULL || !c->settled || c->undone)
		return NULL;
	queue_cancel_format(&c->order, room->order);
	queue_cancel_format(&(struct queue_cancel){ .result = c->order.retry ? CANCEL_HANDED_BACK : CANCEL_ESCAPED },
	    room->result);
	room->end = (struct queue_cancel_end){ c->field, room->order, room->result };
	return &room->end;
}

/* ---- which message an order means ---- */

enum meant { MEANT_NO, MEANT_PERHAPS, MEANT_YES };

struct seen_order {
	char field[ENCODE_SHA1_SIZE];
	int64_t age_ms;			/* below 0: the clock of Redis was set back since */
	bool ours;			/* its message was in a tray of this process */
	struct queue_cancel c;
};

static bool is_of_this_process(const struct worker *w, const char *incarnation)
{
	const struct incarnation *own = &w->session.id;
	struct incarnation i;

	return incarnation_parse(&i, incarnation) == 0 && strcmp(i.node, own->node) == 0 && i.boot == own->boot &&
	    i.slot == own->slot && i.generation > w->cancels.before;
}

/* The order was written after the message had arrived. Its age is at least age_ms at the moment at which the worker
 * asked for it. */
static bool arrived_before(const struct worker *w, const struct item *item, const struct seen_order *o)
{
	return o->age_ms >= 0 && item->received_us / 1000 <= w->cancels.sent_ms - o->age_ms;
}

static enum meant is_meant(struct worker *w, struct place p, const struct seen_order *o)
{
	const struct item *item = tray_item(&w->trays, p);
	const struct message *m = tray_message(&w->trays, p);
	bool moved = queue_cancel_marks(&m->wrapper) > o->c.marks;
	char field[ENCODE_SHA1_SIZE];

	if (item->lost || m->wrapper.attempts != o->c.attempts || m->wrapper.redriven_ms != o->c.redriven_ms ||
	    (!o->ours && !moved))
		return MEANT_NO;
	message_digest(m, field);
	if (strcmp(field, o->field) != 0)
		return MEANT_NO;
	return moved || item->again || arrived_before(w, item, o) ? MEANT_YES : MEANT_PERHAPS;
}

/* Returns MEANT_YES with its place, or the best that it finds. */
static enum meant find_meant(struct worker *w, const struct seen_order *o, struct place *found)
{
	enum meant best = MEANT_NO;

	for (int tray = 0; tray < QUEUE_TRAYS; tray++)
		for (int i = 0; i < w->trays.tray[tray].n; i++) {
			struct place p = { tray, i };
			enum item_state state = tray_item(&w->trays, p)->state;
			enum meant meant =
			    state == ITEM_RUNNING || state == ITEM_WAITING ? is_meant(w, p, o) : MEANT_NO;

			if (meant > best) {
				best = meant;
				*found = p;
			}
		}
	return best;
}

/* Its run, or the move of its message, has not ended. */
static bool is_unfinished(struct worker *w, const struct cancel *e)
{
	const struct tray *t = &w->trays.tray[e->place.tray];
	const struct item *item = &t->items[e->place.item];

	return e->place.item < t->n && item->serial == e->serial && !item->lost &&
	    (item->state == ITEM_RUNNING || item->state == ITEM_MOVING);
}

/* ---- answers ---- */

static void note(struct worker *w, const struct seen_order *o, const struct queue_cancel *after, int64_t now_ms)
{
	char before[QUEUE_CANCEL_TEXT_SIZE];

	queue_cancel_format(&o->c, before);
	queue_cancel_note(&w->session.redis, &w->env->keys, o->field, before, after);
	session_expect(w, ANSWER_CANCELS, -1, CANCEL_NOTES, now_ms + REDIS_TIMEOUT_MS);
}

static void execute(struct worker *w, struct place p, const struct seen_order *o, int64_t now_ms)
{
	bool runs = tray_item(&w->trays, p)->state == ITEM_RUNNING;
	struct message *m = tray_message(&w->trays, p);

	add_executing(w, p, o->field, &o->c);
	log_info("message_cancelled", log_str("id", message_id(m)), log_str("traceparent", message_traceparent(m)),
	    log_str("by", o->c.by), log_str("then", o->c.retry ? "retry" : "escape"),
	    log_str("running", runs ? "yes" : "no"));
	if (runs) {
		w->starter.runner->cancel(w, now_ms);
		return;
	}
	cancel_settle(w, p, NULL);
	tray_close(&w->trays, p.tray);
}

/* An operator may have given a second order for the same bytes, after another worker had answered to the first one. */
static bool is_same_order(const struct queue_cancel *a, const struct queue_cancel *b)
{
	char texts[2][QUEUE_CANCEL_TEXT_SIZE];

	queue_cancel_format(a, texts[0]);
	queue_cancel_format(b, texts[1]);
	return strcmp(texts[0], texts[1]) == 0;
}

/*
 * The move that ends an order also writes its result. So if an order still stands after its run has ended, the worker
 * does not know where its message is: another process has it, or a sweeper will return it. Then the order stays, for
 * the worker that gets the message next.
 */
static void follow(struct worker *w, const struct seen_order *o, int64_t now_ms)
{
	struct cancel *e = find_executing(&w->cancels, o->field);
	bool in_doubt = e != NULL && e->settled && is_same_order(&e->order, &o->c);
	struct queue_cancel taken = o->c;
	struct place p = { -1, -1 };
	enum meant meant;

	if (e != NULL && is_unfinished(w, e))
		return;
	meant = find_meant(w, o, &p);
	if (e != NULL && (!in_doubt || meant == MEANT_YES))
		drop_executing(&w->cancels, e);
	if (meant == MEANT_YES && o->c.retry && queue_cancel_marks(&tray_message(&w->trays, p)->wrapper) > o->c.marks) {
		/* Its run has ended, and this is the next one. */
		note(w, o, &(struct queue_cancel){ .result = CANCEL_HANDED_BACK }, now_ms);
	} else if (meant == MEANT_YES && o->ours) {
		execute(w, p, o, now_ms);
	} else if (meant == MEANT_YES) {
		/* One worker executes it, also if there are equal messages: the one whose name it has. */
		strlcpy(taken.owner, w->session.incarnation, sizeof(taken.owner));
		note(w, o, &taken, now_ms);
	} else if (meant == MEANT_NO && o->ours && !in_doubt) {
		note(w, o, &(struct queue_cancel){ .result = CANCEL_NOT_RUNNING }, now_ms);
	}
}

/* Orders that are gone from Redis: they are too old, or Redis went back. What was begun ends all the same. */
static void forget_gone(struct worker *w, const struct redis_reply *reply)
{
	for (size_t i = w->cancels.n; i > 0; i--) {
		struct cancel *e = &w->cancels.all[i - 1];
		bool there = is_unfinished(w, e);

		for (size_t k = 0; k < reply->n && !there; k += 3)
			there = strcmp(redis_element(reply, k).str, e->field) == 0;
		if (!there)
			drop_executing(&w->cancels, e);
	}
}

static void take_orders(struct worker *w, const struct redis_reply *reply, int64_t now_ms)
{
	w->cancels.asking = false;
	if (!redis_is_strings(reply) || reply->n % 3 != 0)
		return;			/* the sweeper shows an error of this key */
	forget_gone(w, reply);
	/* Redis holds no more, but another program may write more: each one may cost an answer that session.c
	 * expects. */
	for (size_t i = 0; i < reply->n && i < (size_t)3 * QUEUE_CANCELS_MAX; i += 3) {
		struct redis_reply field = redis_element(reply, i), text = redis_element(reply, i + 2);
		struct seen_order o = { .age_ms = strtoll(redis_element(reply, i + 1).str, NULL, 10) };

		if (queue_cancel_parse(&o.c, text.str, text.len) == -1 || o.c.result != CANCEL_WANTED ||
		    strlcpy(o.field, field.str, sizeof(o.field)) >= sizeof(o.field))
			continue;
		o.ours = is_of_this_process(w, o.c.owner);
		follow(w, &o, now_ms);
	}
}

void cancel_answer(struct worker *w, struct place of, const struct redis_reply *reply, int64_t now_ms)
{
	if (of.item == CANCEL_READS)
		take_orders(w, reply, now_ms);
	else if (reply->type == REDIS_INTEGER && reply->integer == 1)
		w->cancels.next_ms = now_ms;	/* what the operator sees follows at once */
}
