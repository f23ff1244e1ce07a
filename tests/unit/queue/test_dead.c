
/* What the sweeper decides without asking anybody: who is dead by lease, who is blamed, what a server is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/queue/dead.h"
#include "sweeper/core/core.h"
#include "sweeper/dead_letters/bounds.h"
#include "sweeper/rescue/rescue.h"
#include "sweeper/rescue/watch.h"

/* No task runs here: what the linked files ask of the core, of watch.c and of other tasks. */
void tasks_enter(struct sweeper *s, struct sweeper_queue *q)
{
	(void)s;
	(void)q;
}

void tasks_leave(struct sweeper_queue *q)
{
	(void)q;
}

int tasks_connected(struct sweeper *s)
{
	(void)s;
	return 0;
}

void tasks_disconnected(struct sweeper *s)
{
	(void)s;
}

void *task_state(const struct sweeper_queue *q, const struct task *t)
{
	(void)q;
	(void)t;
	return NULL;
}

void task_wake_at(struct sweeper_queue *q, const struct task *t, int64_t at_ms)
{
	(void)q;
	(void)t;
	(void)at_ms;
}

bool lead_was_ours(const struct sweeper_queue *q)
{
	(void)q;
	return true;
}

void watch_publish_undecided(struct sweeper_queue *q)
{
	(void)q;
}

bool sweeper_is_active(const struct sweeper *s)
{
	(void)s;
	return true;
}

const struct task bounds_task;

#define LEASE 30000

bool sweeper_goes_on(struct sweeper *s)
{
	(void)s;
	return true;
}

void sweeper_beat(const struct sweeper *s)
{
	(void)s;
}

static struct pulse at(int64_t ms)
{
	return (struct pulse){ .boottime_ms = ms, .server_ms = 1700000000000 + ms, .server = { .run_id = "run", .replid = "first" }, .connection = 1 };
}

/* Pulses every quarter of a lease from..to, all as they should be. */
static void calm_from(struct calm *c, int64_t from, int64_t to)
{
	for (int64_t ms = from; ms <= to; ms += LEASE / 4) {
		struct pulse p = at(ms);

		calm_pulse(c, &p, LEASE);
	}
}

/* An owner that looks miss from now on; the pulse before the first of them is at ms. */
static struct absence missed_from(int64_t ms)
{
	struct absence a = { .lease_ms = LEASE };
	struct pulse p = at(ms);

	calm_pulse(&a.calm, &p, LEASE);
	return a;
}

static void two_looks_a_lease_apart(void **state)
{
	struct absence a = missed_from(1000);

	(void)state;
	assert_false(dead_missed(&a, 1001, 1005, LEASE));
	assert_int_equal(a.since_ms, 1005);		/* it may have come while it was asked for */
	calm_from(&a.calm, 1000 + LEASE / 4, 1000 + LEASE);
	assert_false(dead_missed(&a, 20000, 20001, LEASE));
	assert_int_equal(a.since_ms, 1005);
	assert_false(dead_missed(&a, 1005 + LEASE - 1, 90000, LEASE));
	assert_true(dead_missed(&a, 1005 + LEASE, 90000, LEASE));
	assert_false(dead_missed(&a, 1005 + LEASE, 90000, 4 * LEASE));	/* one of our own */
}

/* One disturbance between the looks: the first look counts for nothing, and why is remembered. */
static void assert_disturbed_by(struct pulse p, enum doubt why)
{
	struct absence a = missed_from(46000);

	assert_false(dead_missed(&a, 46001, 46002, LEASE));
	calm_pulse(&a.calm, &p, LEASE);
	assert_int_equal(a.calm.doubt, why);
	assert_false(dead_missed(&a, 46002 + LEASE + 30000, 46003 + LEASE + 30000, LEASE));
	assert_int_equal(a.since_ms, 46003 + LEASE + 30000);
}

static void what_breaks_the_calm(void **state)
{
	struct pulse p;

	(void)state;
	p = at(53500);
	p.server = (struct redis_identity){ .run_id = "another", .replid = "first" };
	assert_disturbed_by(p, DOUBT_SERVER);
	p = at(53500);
	p.server = (struct redis_identity){ .run_id = "run", .replid = "second" };	/* it was a replica meanwhile */
	assert_disturbed_by(p, DOUBT_SERVER);
	p = at(53500);
	p.server = (struct redis_identity){0};
	assert_disturbed_by(p, DOUBT_SERVER);
	p = at(46000 + LEASE / 2 + 1);			/* we stood still */
	assert_disturbed_by(p, DOUBT_STALL);
	p = at(53500);
	p.server_ms += LEASE / 8 + 1;			/* the server's clock was set, or it stood still */
	assert_disturbed_by(p, DOUBT_CLOCK);
	p = at(53500);
	p.server_ms -= LEASE / 8 + 1;
	assert_disturbed_by(p, DOUBT_CLOCK);
}

/* A Redis with `timeout` closes what is idle: the same server, asked often enough, is proof all the same. */
static void one_server_over_many_connections(void **state)
{
	struct absence a = missed_from(1000);

	(void)state;
	assert_false(dead_missed(&a, 1001, 1002, LEASE));
	for (int i = 1; i <= 4; i++) {
		struct pulse p = at(1000 + i * LEASE / 4);

		p.connection = i + 1;
		calm_pulse(&a.calm, &p, LEASE);
	}
	assert_false(dead_missed(&a, 1001 + LEASE, 1002 + LEASE, LEASE));
	assert_true(dead_missed(&a, 1002 + LEASE, 1003 + LEASE, LEASE));
}

static void one_connection_to_a_server_that_hides_who_it_is(void **state)
{
	struct pulse p = at(1000);

	(void)state;
	p.server = (struct redis_identity){0};
	for (int breaks = 0; breaks < 2; breaks++) {
		struct absence a = { .lease_ms = LEASE };

		p.connection = 1;
		p.boottime_ms = 1000, p.server_ms = 1700000001000;
		calm_pulse(&a.calm, &p, LEASE);
		assert_false(dead_missed(&a, 1001, 1002, LEASE));
		for (int i = 0; i < 4; i++) {
			p.boottime_ms += LEASE / 4, p.server_ms += LEASE / 4;
			p.connection += breaks;
			calm_pulse(&a.calm, &p, LEASE);
		}
		assert_int_equal(a.calm.doubt, breaks ? DOUBT_CONNECTION : DOUBT_NONE);
		assert_int_equal(dead_missed(&a, 1002 + LEASE, 1003 + LEASE, LEASE), !breaks);
	}
}

/* Four leases, whatever happens in between; three more than one of our own may be silent. */
static void what_cannot_be_decided_is_told(void **state)
{
	struct absence a = missed_from(1000);

	(void)state;
	assert_false(dead_is_undecided(&a, 1000 + 100 * LEASE, LEASE));	/* no look missed it yet */
	assert_false(dead_missed(&a, 1001, 1002, LEASE));
	for (int i = 1; i <= 4; i++) {
		struct pulse p = at(1000 + i * LEASE);		/* too seldom */

		calm_pulse(&a.calm, &p, LEASE);
		assert_false(dead_missed(&a, 1001 + i * LEASE, 1002 + i * LEASE, LEASE));
		assert_int_equal(dead_is_undecided(&a, 1002 + i * LEASE, LEASE), i == 4);
		assert_false(dead_is_undecided(&a, 1002 + i * LEASE, 4 * LEASE));
	}
	assert_true(dead_is_undecided(&a, 1002 + 7 * LEASE, 4 * LEASE));
	assert_non_null(strstr(doubt_text(a.calm.doubt), "keeps stalling"));
}

static void a_look_that_was_cut_short_proves_nothing(void **state)
{
	struct absence a = missed_from(1000);

	(void)state;
	assert_false(dead_missed(&a, 1001, 1002, LEASE));
	calm_from(&a.calm, 1000 + LEASE / 4, 1000 + LEASE);
	dead_unseen(&a);
	assert_false(dead_missed(&a, 1002 + LEASE, 1003 + LEASE, LEASE));
	calm_from(&a.calm, 1000 + LEASE, 1000 + 2 * LEASE);
	assert_false(dead_missed(&a, 1002 + 2 * LEASE, 1002 + 2 * LEASE, LEASE));
	assert_true(dead_missed(&a, 1003 + 2 * LEASE, 1004 + 2 * LEASE, LEASE));
	assert_int_equal(a.first_ms, 1002);
	assert_int_equal(a.calm.doubt, DOUBT_LOOK);
}

static void what_does_not(void **state)
{
	struct absence a = missed_from(46000);
	struct pulse p = at(46000 + LEASE / 2);

	(void)state;
	assert_false(dead_missed(&a, 46001, 46002, LEASE));
	p.server_ms += LEASE / 8;
	calm_pulse(&a.calm, &p, LEASE);
	assert_true(dead_missed(&a, 46002 + LEASE, 46003 + LEASE, LEASE));
}

static void a_refused_pulse_breaks_it_too(void **state)
{
	struct absence a = missed_from(46000);

	(void)state;
	assert_false(dead_missed(&a, 46001, 46002, LEASE));
	calm_broken(&a.calm, DOUBT_REFUSED);
	assert_false(dead_missed(&a, 90000, 90001, LEASE));
	calm_from(&a.calm, 92500, 150000);
	assert_false(dead_missed(&a, 150001, 150002, LEASE));
	assert_true(dead_missed(&a, 150002 + LEASE, 150003 + LEASE, LEASE));
	assert_int_equal(a.calm.doubt, DOUBT_REFUSED);
}

/* What is much for one of a short lease is nothing for another. */
static void each_owner_is_disturbed_by_its_own_measure(void **state)
{
	struct absence brief = missed_from(1000), patient = { .lease_ms = 10 * LEASE };
	struct pulse p = at(1000);

	(void)state;
	calm_pulse(&patient.calm, &p, patient.lease_ms);
	assert_false(dead_missed(&brief, 1001, 1002, brief.lease_ms));
	assert_false(dead_missed(&patient, 1001, 1002, patient.lease_ms));
	p = at(1000 + 2 * LEASE);
	calm_pulse(&brief.calm, &p, brief.lease_ms);
	calm_pulse(&patient.calm, &p, patient.lease_ms);
	assert_false(dead_missed(&brief, 1002 + 2 * LEASE, 1003 + 2 * LEASE, brief.lease_ms));
	assert_false(dead_missed(&patient, 1002 + 2 * LEASE, 1003 + 2 * LEASE, patient.lease_ms));
	assert_int_equal(patient.since_ms, 1002);
	assert_true(dead_missed(&patient, 1002 + 10 * LEASE, 1003 + 10 * LEASE, patient.lease_ms));
}

static void small_steps_of_a_clock_add_up(void **state)
{
	struct calm c = {0};
	struct pulse p;

	(void)state;
	for (int i = 0; i < 4; i++) {
		p = at(1000 + i * 7000);
		p.server_ms += i * 1300;
		calm_pulse(&c, &p, LEASE);
	}
	assert_int_equal(c.since_boottime_ms, 1000 + 3 * 7000);	/* 3900 > lease / 8: a new beginning */
}

static void without_calm_nobody_is_dead(void **state)
{
	struct absence a = { .lease_ms = LEASE };

	(void)state;
	assert_false(dead_missed(&a, 1000, 1001, LEASE));
	assert_false(dead_missed(&a, 1000000, 1000001, LEASE));
	assert_int_equal(a.since_ms, 1000001);
}

/* ---- blame ---- */

static void alone_in_its_tray_it_is_charged(void **state)
{
	struct wrapper w = { .redelivered = 2 };

	(void)state;
	assert_false(rescue_judge(&w, BLAME_WORKER, false, 1, 1));
	assert_int_equal(w.crashes, 1);
	assert_int_equal(w.redelivered, 3);
	assert_false(w.solo);
	assert_true(rescue_judge(&w, BLAME_WORKER, false, 1, 1));
	assert_int_equal(w.crashes, 2);
}

static void among_others_it_is_set_apart(void **state)
{
	struct wrapper w = { .crashes = 1 };

	(void)state;
	assert_false(rescue_judge(&w, BLAME_WORKER, false, 2, 1));
	assert_int_equal(w.crashes, 1);
	assert_true(w.solo);
	w = (struct wrapper){ .crashes = 1 };
	assert_false(rescue_judge(&w, BLAME_WORKER, false, -1, 1));	/* nobody knows how many there were */
	assert_int_equal(w.crashes, 1);
	assert_true(w.solo);
}

static void late_or_without_attempts(void **state)
{
	struct wrapper w = { .crashes = 7 };

	(void)state;
	assert_false(rescue_judge(&w, BLAME_NOBODY, false, 1, 1));	/* it came late and never ran: not charged, whatever came before */
	assert_int_equal(w.crashes, 7);
	w = (struct wrapper){0};
	assert_true(rescue_judge(&w, BLAME_WORKER, false, 1, 0));
}

/* Nobody knows whose doing an outage was: at first everything is only set apart, then tried, one message at a time. */
static void an_outage_charges_only_what_was_on_trial(void **state)
{
	struct wrapper w = {0};

	(void)state;
	for (int i = 0; i < 5; i++) {
		assert_false(rescue_judge(&w, BLAME_OUTAGE, false, 1, 0));
		assert_int_equal(w.crashes, 0);
		assert_true(w.solo);
		assert_int_equal(w.redelivered, i + 1);
		assert_int_equal(message_needs_trial(&w), i >= 1);
	}
	assert_false(rescue_judge(&w, BLAME_OUTAGE, true, 2, 0));	/* it was not alone after all */
	assert_int_equal(w.crashes, 0);
	assert_false(rescue_judge(&w, BLAME_OUTAGE, true, 1, 1));
	assert_int_equal(w.crashes, 1);
	assert_true(rescue_judge(&w, BLAME_OUTAGE, true, 1, 1));
	assert_int_equal(w.crashes, 2);
}

/* The longest that a message which kills its whole container can go on: with recovery_attempts = 1 it is found by the fourth. */
static void a_message_that_kills_everything_is_found(void **state)
{
	for (int attempts = 0; attempts < 4; attempts++) {
		struct wrapper w = {0};
		int outages = 1;

		while (!rescue_judge(&w, BLAME_OUTAGE, message_needs_trial(&w), 1, attempts))
			outages++;
		assert_int_equal(outages, MESSAGE_OUTAGES_MAX + attempts + 1);
	}
	(void)state;
}

static void its_time_stays_known(void **state)
{
	struct wrapper w = { .own_ms = 3 };

	(void)state;
	rescue_judge(&w, BLAME_WORKER, false, 9, 1);
	assert_int_equal(w.own_ms, 3);
}

static void pages_shrink_and_grow(void **state)
{
	(void)state;
	assert_int_equal(rescue_page(8, 80), 100);
	assert_int_equal(rescue_page(8, 8 << 20), 1);
	assert_int_equal(rescue_page(1, 1 << 30), 1);
	assert_int_equal(rescue_page(0, 0), 100);
	assert_in_range(rescue_page(10, 10 * 65536), 10, 16);
}

/* ---- the server ---- */

static void info_is_read(void **state)
{
	const char *info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n\r\n# Memory\r\nused_memory:1\r\nmaxmemory_policy:allkeys-lru\r\n";
	const char *replication = "# Replication\r\nrole:master\r\nmaster_replid:def\r\nmaster_replid2:0\r\n";
	struct redis_identity id = {0}, other;
	struct server s = {0};

	(void)state;
	server_parse(&s, info, strlen(info));
	assert_int_equal(s.major, 7);
	assert_string_equal(s.version, "7.0.15");
	assert_string_equal(s.run_id, "abc");
	assert_string_equal(s.maxmemory_policy, "allkeys-lru");
	assert_true(server_evicts(&s));
	server_parse(&s, "maxmemory_policy:noeviction", 27);	/* no line end */
	assert_false(server_evicts(&s));
	server_parse(&s, "maxmemory_policy:volatile-ttl\n", 30);
	assert_true(server_evicts(&s));
	s = (struct server){0};
	server_parse(&s, "", 0);
	server_parse(&s, "xredis_version:1\nredis_version", 30);
	assert_int_equal(s.major, 0);
	assert_false(server_evicts(&s));
	other = id;
	assert_true(!redis_identity_known(&id) && redis_identity_same(&id, &other));
	redis_identity_read(&id, info, strlen(info));
	redis_identity_read(&id, replication, strlen(replication));
	assert_string_equal(id.run_id, "abc");
	assert_string_equal(id.replid, "def");
	assert_true(redis_identity_known(&id) && !redis_identity_same(&id, &other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_looks_a_lease_apart),
		cmocka_unit_test(what_breaks_the_calm),
		cmocka_unit_test(what_does_not),
		cmocka_unit_test(one_server_over_many_connections),
		cmocka_unit_test(one_connection_to_a_server_that_hides_who_it_is),
		cmocka_unit_test(what_cannot_be_decided_is_told),
		cmocka_unit_test(a_look_that_was_cut_short_proves_nothing),
		cmocka_unit_test(a_refused_pulse_breaks_it_too),
		cmocka_unit_test(each_owner_is_disturbed_by_its_own_measure),
		cmocka_unit_test(small_steps_of_a_clock_add_up),
		cmocka_unit_test(without_calm_nobody_is_dead),
		cmocka_unit_test(alone_in_its_tray_it_is_charged),
		cmocka_unit_test(among_others_it_is_set_apart),
		cmocka_unit_test(late_or_without_attempts),
		cmocka_unit_test(an_outage_charges_only_what_was_on_trial),
		cmocka_unit_test(a_message_that_kills_everything_is_found),
		cmocka_unit_test(its_time_stays_known),
		cmocka_unit_test(pages_shrink_and_grow),
		cmocka_unit_test(info_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
