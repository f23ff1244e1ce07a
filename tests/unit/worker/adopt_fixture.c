/* A worker's first tray, as the worker remembers it and as it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/adopt_fixture.h"

#include "worker/worker.h"

struct worker *w;
int set_aside;

/* ---- the rest of a worker ---- */

void session_renew_incarnation(struct worker *worker, const char *why)
{
	(void)why;
	worker->session.registered = false;
}

void session_adopted(struct worker *worker)
{
	worker->session.registered = true;
}

void settle_hand_back(struct worker *worker, struct place p, enum settle_back how)
{
	(void)worker, (void)p, (void)how;
}

void settle_set_aside(struct worker *worker, struct place p, const char *error)
{
	(void)error;
	set_aside++;
	tray_move(&worker->trays, p, MOVE_ASIDE);
}

void cancel_undone(struct worker *worker, struct place p)
{
	(void)worker, (void)p;
}

void cancel_moved(struct worker *worker, struct place p)
{
	(void)worker, (void)p;
}

const struct queue_cancel_end *cancel_end_of(struct worker *worker, struct place p, struct cancel_end *room)
{
	(void)worker, (void)p, (void)room;
	return NULL;
}

void fetcher_received(struct worker *worker, struct item *item)
{
	(void)worker, (void)item;
}

void fence_claim_lost(struct fence *f)
{
	f->claim_gone = true;
}

void history_done(struct worker *worker, int tray)
{
	queue_done(&lone_server.r, &worker->session.owner, tray);
}

void history_done_one(struct worker *worker, struct place p, const struct queue_entry *entry)
{
	(void)worker, (void)p, (void)entry;
}

void history_answer(struct worker *worker, const struct redis_reply *reply)
{
	(void)worker, (void)reply;
}

bool emit_any(const struct item *item)
{
	(void)item;
	return false;
}

enum emit_next emit_after(const struct item *item, const struct redis_reply *reply)
{
	(void)item, (void)reply;
	return EMIT_WAITS;
}

bool emit_was_asked(const struct item *item)
{
	(void)item;
	return false;
}

void emit_forget(struct worker *worker, struct place p)
{
	(void)worker, (void)p;
}

void emit_send(struct worker *worker, struct place p, const struct queue_entry *entry)
{
	(void)worker, (void)p, (void)entry;
}

void settle_hold_answered(struct worker *worker, struct outcome *o)
{
	(void)worker, (void)o;
}

void settle_pushed(struct worker *worker, struct place p)
{
	(void)worker, (void)p;
}

void emit_fail(struct worker *worker, struct place p, const char *error, int64_t now_ms)
{
	(void)worker, (void)p, (void)error, (void)now_ms;
}

/* ---- */

int adopt_fixture_setup(void **state)
{
	(void)state;
	REDIS(&lone_server, "FLUSHALL");
	lone_worker_begin(false);
	w = lone.w;
	w->session.redis.state = REDIS_CLOSED;
	w->session.registered = w->session.confirmed = false;
	w->adoption.server = w->session.server = (struct redis_identity){ .run_id = "a run", .replid = "a history" };
	set_aside = 0;
	return 0;
}

int adopt_fixture_teardown(void **state)
{
	(void)state;
	assert_int_equal(lone.dropped, 0);
	lone_worker_end();
	return 0;
}

static void become(struct place p, char c)
{
	if (c == 'r' || c == 'd')
		tray_start(&w->trays, p);
	if (c == 'd')
		tray_done(&w->trays, p, 0, 0);
	if (c == 'm' || c == 'u')
		tray_move(&w->trays, p, MOVE_RETRY);
	if (c == 'm')
		tray_move_sent(&w->trays, p, true);
	if (c == 'g')
		tray_gone(&w->trays, p);
}

void adopt_fixture_believe(enum tray_state state, const char *items)
{
	struct tray *t = &w->trays.tray[0];

	for (const char *p = items; *p != '\0'; p += 2) {
		tray_add(&w->trays, 0, p, 1, false);
		become((struct place){ 0, t->n - 1 }, p[1]);
	}
	if (t->n > 0)
		tray_filled(&w->trays, 0);
	t->state = state;
}

const char *adopt_fixture_believed(void)
{
	static char out[64];
	const struct tray *t = &w->trays.tray[0];
	char *p = out;

	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];

		*p++ = tray_raw(t, item)[0];
		*p++ = item->state == ITEM_WAITING ? item->again ? 'W' : 'w' : item->state == ITEM_RUNNING ? item->lost ? 'l' : 'r'
		     : item->state == ITEM_DONE ? 'd' : item->state == ITEM_GONE ? 'g' : item->sent ? 'm' : 'u';
	}
	*p = '\0';
	return out;
}

uint64_t adopt_fixture_lost(void)
{
	return atomic_load(&lone.env->slot->counters[COUNT_CLAIM_LOST]);
}

void adopt_fixture_compare(const char *there)
{
	struct redis_reply reply;

	for (const char *p = there; *p != '\0'; p++)
		REDIS(&lone_server, "LPUSH %s %b", w->session.owner.trays[0], p, (size_t)1);
	queue_list(&lone_server.r, w->session.owner.trays[0], 0, -1);
	reply = private_redis_answer(&lone_server);
	adopt_answer(w, (struct place){ 0, 0 }, &reply, 0);
}
