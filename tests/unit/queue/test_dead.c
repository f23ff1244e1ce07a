/* An owner is dead by its lease: what two looks prove, what breaks the proof, and what stays undecided. Clocks and replies are parameters. */
#include <string.h>

#include "common/queue/dead.h"
#include "tests/unit/unit.h"

#define LEASE 30000

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

TEST(two_looks_a_lease_apart)
{
	struct absence a = missed_from(1000);

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

TEST(what_breaks_the_calm)
{
	struct pulse p;

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
TEST(one_server_over_many_connections)
{
	struct absence a = missed_from(1000);

	assert_false(dead_missed(&a, 1001, 1002, LEASE));
	for (int i = 1; i <= 4; i++) {
		struct pulse p = at(1000 + i * LEASE / 4);

		p.connection = i + 1;
		calm_pulse(&a.calm, &p, LEASE);
	}
	assert_false(dead_missed(&a, 1001 + LEASE, 1002 + LEASE, LEASE));
	assert_true(dead_missed(&a, 1002 + LEASE, 1003 + LEASE, LEASE));
}

TEST(one_connection_to_a_server_that_hides_who_it_is)
{
	struct pulse p = at(1000);

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
TEST(what_cannot_be_decided_is_told)
{
	struct absence a = missed_from(1000);

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

TEST(a_look_that_was_cut_short_proves_nothing)
{
	struct absence a = missed_from(1000);

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

TEST(what_does_not)
{
	struct absence a = missed_from(46000);
	struct pulse p = at(46000 + LEASE / 2);

	assert_false(dead_missed(&a, 46001, 46002, LEASE));
	p.server_ms += LEASE / 8;
	calm_pulse(&a.calm, &p, LEASE);
	assert_true(dead_missed(&a, 46002 + LEASE, 46003 + LEASE, LEASE));
}

TEST(a_refused_pulse_breaks_it_too)
{
	struct absence a = missed_from(46000);

	assert_false(dead_missed(&a, 46001, 46002, LEASE));
	calm_broken(&a.calm, DOUBT_REFUSED);
	assert_false(dead_missed(&a, 90000, 90001, LEASE));
	calm_from(&a.calm, 92500, 150000);
	assert_false(dead_missed(&a, 150001, 150002, LEASE));
	assert_true(dead_missed(&a, 150002 + LEASE, 150003 + LEASE, LEASE));
	assert_int_equal(a.calm.doubt, DOUBT_REFUSED);
}

/* What is much for one of a short lease is nothing for another. */
TEST(each_owner_is_disturbed_by_its_own_measure)
{
	struct absence brief = missed_from(1000), patient = { .lease_ms = 10 * LEASE };
	struct pulse p = at(1000);

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

TEST(small_steps_of_a_clock_add_up)
{
	struct calm c = {0};
	struct pulse p;

	for (int i = 0; i < 4; i++) {
		p = at(1000 + i * 7000);
		p.server_ms += i * 1300;
		calm_pulse(&c, &p, LEASE);
	}
	assert_int_equal(c.since_boottime_ms, 1000 + 3 * 7000);	/* 3900 > lease / 8: a new beginning */
}

TEST(without_calm_nobody_is_dead)
{
	struct absence a = { .lease_ms = LEASE };

	assert_false(dead_missed(&a, 1000, 1001, LEASE));
	assert_false(dead_missed(&a, 1000000, 1000001, LEASE));
	assert_int_equal(a.since_ms, 1000001);
}

UNIT_MAIN(NULL, NULL)
