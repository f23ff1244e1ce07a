/* A lone worker of a queue with max_in_flight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/worker/seats_fixture.h"

#define OTHER "n.00000000000000b0.5.1"

int seats_room, seats_renewed;

/* ---- the rest of a worker ---- */

bool session_usable(const struct worker *w)
{
	return w->session.registered;
}

void session_renew_incarnation(struct worker *w, const char *why)
{
	(void)why;
	w->session.registered = false;
	seats_renewed++;
}

static int room_of(const struct worker *w)
{
	(void)w;
	return seats_room;
}

static const struct runner runner = { .room = room_of };

int64_t seats_now_ms(void)
{
	return lone.w->now_us / 1000;
}

int seats_setup(void **state)
{
	(void)state;
	lone_worker_begin(false);
	queue_keys_use_seats(&lone.env->keys, NULL, NULL);
	lone_worker_connect();
	lone.queue.max_in_flight = 3;
	lone.w->session.server = (struct redis_identity){ .run_id = "one", .up_ms = 100000000 };
	lone.w->session.lease.until_ms = INT64_MAX;
	lone.w->starter.runner = &runner;
	lone.w->now_us = SEATS_NOW_MS * INT64_C(1000);
	seats_room = 4;
	seats_renewed = 0;
	seats_init(lone.w);
	seats_adopted(lone.w);
	seats_take_answer();
	return 0;
}

/* ---- requests ---- */

void seats_take_answer(void)
{
	struct redis_reply reply = lone_worker_answer();

	if (lone.last.answer == ANSWER_SEAT_FREE)
		seats_woken(lone.w, AT(-1, 0), &reply, seats_now_ms());
	else
		seats_answer(lone.w, AT(-1, 0), &reply, seats_now_ms());
}

bool seats_asked(int wanted, bool from_ingress)
{
	int before = lone.expected;

	seats_ask(lone.w, wanted, from_ingress, seats_now_ms());
	assert_true(lone.expected == before || lone.last.answer == ANSWER_SEATS);
	return lone.expected > before;
}

bool seats_asked_and_answered(int wanted, bool from_ingress)
{
	bool asked = seats_asked(wanted, from_ingress);

	seats_take_answer();
	return asked;
}

const char *seats_in_redis(void)
{
	struct redis_reply reply;

	redis_appendf(&lone.w->session.redis, "HGET " SEATS " " LONE_INCARNATION);
	reply = lone_worker_answer();
	return reply.type == REDIS_STRING ? reply.str : "";
}

void seats_others_take(int n)
{
	redis_appendf(&lone.w->session.redis, "HSET " SEATS " " OTHER " %b", n == 1 ? "1 mail" : n == 2 ? "2 mail" : "3 mail", (size_t)6);
	lone_worker_answer();
}

/* ---- messages ---- */

void seats_fill(int n)
{
	tray_ask(&lone.w->trays, 0, n);
	for (int i = 0; i < n; i++) {
		lone_worker_add(0, "m");
		tray_answered(&lone.w->trays, 0);
	}
	tray_filled(&lone.w->trays, 0);
}

void seats_run(int item)
{
	tray_start(&lone.w->trays, AT(0, item));
}

void seats_end(int item)
{
	tray_done(&lone.w->trays, AT(0, item), 0, 0);
}
