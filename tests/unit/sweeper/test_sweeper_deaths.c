/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=redis_output_write -Wl,--wrap=opendir -Wl,--wrap=setmntent */

/* Dead owners: those that the master reports, those that nobody reports, those in queues of other hosts. */
#include "tests/unit/sweeper/sweeper_process.h"
#include "tests/unit/unit.h"

/* ---- reported deaths ---- */

TEST(a_reported_death_is_answered_when_its_trays_are_empty, setup, teardown)
{
	struct message m;

	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	add_worker("mail", "n." OUR_BOOT ".5.1", LOCK);
	add_worker("mail", "n." OUR_BOOT ".5.3", LOCK);
	add_worker("mail", "n." OUR_BOOT ".6.1", LOCK);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.1:1 first");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.2:0 second");	/* never registered */
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.3:0 later");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".6.1:0 other");
	tell(17, 5, 2, "mail");
	assert_int_equal(told(WAIT_MS), 17);
	assert_int_equal(llen("ingress:mail"), 2);
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".5.3:0"), 1);
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".6.1:0"), 1);
	m = entry("ingress:mail", 0);
	assert_int_equal(m.wrapper.crashes, 1);
	m = entry("ingress:mail", 1);
	assert_int_equal(m.wrapper.crashes, 1);
	/* marked, not forgotten */
	assert_non_null(strstr(REDIS(&server, "HGET transit:mail:workers n." OUR_BOOT ".5.1").str, "died_at"));
	/* told again, it is answered again */
	tell(17, 5, 2, "mail");
	assert_int_equal(told(WAIT_MS), 17);
	assert_int_equal(llen("ingress:mail"), 2);
	finish();
}

/* The later death is reported first: its blame says nothing about the earlier worker. */
TEST(each_death_in_a_slot_charges_its_own_message, setup, teardown)
{
	struct message m;

	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	add_worker("mail", "n." OUR_BOOT ".5.1", LOCK);
	add_worker("mail", "n." OUR_BOOT ".5.2", LOCK);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.1:0 killer");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.2:0 innocent");
	tell_death((struct child_death){ .serial = 2, .slot = 5, .first_generation = 2, .generation = 2, .blame = BLAME_NOBODY }, "mail");
	assert_int_equal(told(WAIT_MS), 2);
	m = entry("ingress:mail", 0);
	assert_payload(&m, "innocent");
	assert_int_equal(m.wrapper.crashes, 0);
	assert_int_equal(llen("ingress:mail"), 1);
	tell_death((struct child_death){ .serial = 1, .slot = 5, .first_generation = 1, .generation = 1, .blame = BLAME_WORKER }, "mail");
	assert_int_equal(told(WAIT_MS), 1);
	assert_int_equal(llen("ingress:mail"), 2);
	m = entry("ingress:mail", -1);
	assert_payload(&m, "killer");
	assert_int_equal(m.wrapper.crashes, 1);
	finish();
}

TEST(deaths_in_queues_that_left_the_configuration, setup, teardown)
{
	REDIS(&server, "SET quredis:queue:gone %s", "{\"name\":\"gone\",\"ingress\":\"i\",\"transit\":\"t\",\"escape\":\"e\"}");
	REDIS(&server, "LPUSH t:n." OUR_BOOT ".5.1:0 x");
	REDIS(&server, "LPUSH transit:unknown:n." OUR_BOOT ".6.1:0 y");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	tell(1, 5, 1, "gone");
	assert_int_equal(told(WAIT_MS), 1);
	assert_int_equal(llen("i"), 1);
	tell(2, 6, 1, "unknown");
	assert_int_equal(told(WAIT_MS), 2);
	assert_int_equal(llen("ingress:unknown"), 1);
	finish();
}

TEST(deaths_known_at_the_order_are_still_seen_to, setup, teardown)
{
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	for (int i = 1; i <= 50; i++) {
		char *tray = alloc_format("transit:mail:n." OUR_BOOT ".%d.1:0", i);

		REDIS(&server, "LPUSH %s x", tray);
		free(tray);
		tell((uint64_t)i, i, 1, "mail");
	}
	order(ORDER_HAND_BACK);
	for (uint64_t sum = 0, i = 0; i < 50; i++, assert_true(i < 50 || sum == 50 * 51 / 2))
		sum += told(WAIT_MS);
	assert_int_equal(wait_end(WAIT_MS), 0);
	assert_int_equal(llen("ingress:mail"), 50);
	atomic_store(&board->master.orders[0], ORDER_RUN);
}

TEST(the_end_of_the_master_ends_it, setup, teardown)
{
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	shutdown(master_fd, SHUT_RDWR);
	assert_int_equal(wait_end(WAIT_MS), 0);
}

/* ---- owners nobody reports ---- */

TEST(an_owner_without_lease_is_dead_after_two_looks, setup, teardown)
{
	struct message m;

	conf.supervisor.lease_ms = 800;
	add_worker("mail", "far." OLD_BOOT ".1.1", "another:lock");
	add_worker("mail", "near." OLD_BOOT ".1.1", "another:lock");
	REDIS(&server, "LPUSH transit:mail:far." OLD_BOOT ".1.1:0 x");
	REDIS(&server, "LPUSH transit:mail:near." OLD_BOOT ".1.1:0 y");
	REDIS(&server, "SET transit:mail:lease:near." OLD_BOOT ".1.1 1");
	add_worker("mail", "n." OUR_BOOT ".4.1", LOCK);		/* of our master: he will say when it dies */
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".4.1:0 z");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	WAIT_FOR(llen("ingress:mail") == 1);
	m = entry("ingress:mail", 0);
	assert_payload(&m, "x");
	assert_int_equal(m.wrapper.crashes, 0);		/* the whole host is gone */
	assert_int_equal(m.wrapper.outages, 1);
	WAIT_FOR(strstr(REDIS(&server, "HGET transit:mail:workers far." OLD_BOOT ".1.1").str, "died_at") != NULL);
	assert_int_equal(llen("transit:mail:near." OLD_BOOT ".1.1:0"), 1);
	/* what comes under the dead name goes back too, and is not charged */
	REDIS(&server, "LPUSH transit:mail:far." OLD_BOOT ".1.1:2 late");
	WAIT_FOR(llen("ingress:mail") == 2);
	m = entry("ingress:mail", -1);
	assert_payload(&m, "late");
	assert_int_equal(m.wrapper.crashes, 0);
	assert_int_equal(m.wrapper.redelivered, 1);
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".4.1:0"), 1);
	finish();
}

TEST(the_dead_are_forgotten_after_an_hour_when_nothing_is_left, setup, teardown)
{
	int64_t now = clock_realtime_ms();

	conf.supervisor.lease_ms = 400;
	for (int i = 1; i <= 3; i++) {
		char *json = alloc_format("{\"lock\":\"l\",\"node\":\"n\",\"pid\":1,\"since\":1,\"died_at\":%lld}",
		    (long long)(now - (i == 2 ? 1800 : 3700) * 1000));

		char *incarnation = alloc_format("far." OLD_BOOT ".1.%d", i);

		REDIS(&server, "HSET transit:mail:workers %s %s", incarnation, json);
		free(incarnation);
		free(json);
	}
	REDIS(&server, "LPUSH transit:mail:far." OLD_BOOT ".1.3:0 x");
	REDIS(&server, "HSET transit:mail:workers far." OLD_BOOT ".1.4 garbage");
	start();
	WAIT_FOR(REDIS_INT(&server, "HLEN transit:mail:workers") == 1);
	assert_int_equal(REDIS_INT(&server, "HEXISTS transit:mail:workers far." OLD_BOOT ".1.2"), 1);
	assert_int_equal(llen("ingress:mail"), 1);
	finish();
}

TEST(an_owner_is_given_its_own_lease, setup, teardown)
{
	char *patient = queue_registration("another:lock", "n", 1, 1, 2000, false), *endless = queue_registration("another:lock", "n", 1, 1, INT64_MAX, false);
	int64_t since;

	conf.supervisor.lease_ms = 400;
	add_worker("mail", "far." OLD_BOOT ".1.1", "another:lock");	/* says nothing of it: ours */
	REDIS(&server, "HSET transit:mail:workers far." OLD_BOOT ".1.2 %s far." OLD_BOOT ".1.3 %s", patient, endless);
	for (int i = 1; i <= 3; i++) {
		char *tray = alloc_format("transit:mail:far." OLD_BOOT ".1.%d:0", i);

		REDIS(&server, "LPUSH %s %d", tray, (int64_t)i);
		free(tray);
	}
	since = clock_monotonic_ms();
	start();
	WAIT_FOR(llen("ingress:mail") == 1);
	assert_true(clock_monotonic_ms() - since >= 400 && llen("transit:mail:far." OLD_BOOT ".1.2:0") == 1);
	WAIT_FOR(llen("ingress:mail") == 2);
	assert_true(clock_monotonic_ms() - since >= 2000 && llen("transit:mail:far." OLD_BOOT ".1.3:0") == 1);
	finish();
	free(patient);
	free(endless);
}

/* ---- rescues that were broken off, and nobody would come upon ---- */

TEST(a_rescue_that_was_broken_off_goes_on, setup, teardown)
{
	struct message m;

	conf.supervisor.lease_ms = 400;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	REDIS(&server, "RPUSH transit:mail:rescue new old");
	REDIS(&server, "HSET transit:mail:workers none:rescue 2 far." OLD_BOOT ".1.9:rescue 1");
	REDIS(&server, "RPUSH transit:mail:far." OLD_BOOT ".1.9:rescue theirs");
	REDIS(&server, "RPUSH transit:mail foreign");
	WAIT_FOR(llen("ingress:mail") == 3);
	WAIT_FOR(REDIS_INT(&server, "EXISTS transit:mail:workers transit:mail:rescue") == 0);
	m = entry("ingress:mail", llen("ingress:mail") - 1);
	assert_int_equal(m.wrapper.redelivered, 1);
	assert_int_equal(m.wrapper.crashes, 0);
	assert_int_equal(llen("transit:mail"), 1);	/* nobody has fenced that: it is another program's */
	REDIS(&server, "HSET transit:mail:workers none:rescue 7");
	WAIT_FOR(REDIS_INT(&server, "EXISTS transit:mail:workers") == 0);
	finish();
}

/* ---- the registry ---- */

static void list_queue(const char *name, const char *json)
{
	char *key = alloc_format("quredis:queue:%s", name);

	REDIS(&server, "ZADD quredis:queues 1 %s", name);
	if (json != NULL)
		REDIS(&server, "SET %s %s", key, json);
	free(key);
}

/* One with lists called by default. */
static void list_default(const char *name)
{
	char *json = alloc_format("{\"name\":\"%s\",\"ingress\":\"ingress:%s\",\"transit\":\"transit:%s\",\"escape\":\"escape:%s\"}",
	    name, name, name, name);

	list_queue(name, json);
	free(json);
}

static void what_nobody_here_serves(void)
{
	list_queue("far", "{\"name\":\"far\",\"ingress\":\"fi\",\"transit\":\"ft\",\"escape\":\"fe\"}");
	REDIS(&server, "HSET ft:workers far." OLD_BOOT ".1.1 %s", "{\"trial\":\"0000000000000001\"}");
	push_sealed("ft:far." OLD_BOOT ".1.1:2", "fi", "quredis/1 w=0000000000000001 crashes=5\nx");
	REDIS(&server, "HSET ft:workers far." OLD_BOOT ".1.2 garbage far." OLD_BOOT ".1.3 %s", "{\"died_at\":\"yesterday\",\"lock\":[],\"lease\":\"x\"}");
	push_sealed("ft:far." OLD_BOOT ".1.2:0", "fi", "quredis/1 w=0000000000000002\ny");
	push_sealed("ft:far." OLD_BOOT ".1.3:0", "fi", "quredis/1 w=0000000000000003\nz");
	REDIS(&server, "HSET ft:workers near." OLD_BOOT ".1.1 {}");
	REDIS(&server, "LPUSH ft:near." OLD_BOOT ".1.1:0 living");
	REDIS(&server, "SET ft:lease:near." OLD_BOOT ".1.1 1");
	list_default("locked");
	add_worker("locked", "n." OLD_BOOT ".1.1", LOCK);
	REDIS(&server, "LPUSH transit:locked:n." OLD_BOOT ".1.1:0 y");
	list_default("late");
	REDIS(&server, "HSET transit:late:workers far." OLD_BOOT ".1.1 %s", "{\"died_at\":9e12}");
	REDIS(&server, "LPUSH transit:late:far." OLD_BOOT ".1.1:1 z");
	list_default("broken_off");
	REDIS(&server, "HSET transit:broken_off:workers none:rescue 1");
	REDIS(&server, "LPUSH transit:broken_off:rescue b");
	/* our own lists under another name: ours to see to, by our configuration, when that can be (never: escape is broken) */
	REDIS(&server, "SET escape:mail x");
	list_queue("alias", "{\"ingress\":\"wrong\",\"transit\":\"transit:mail\",\"escape\":\"we\"}");
	add_worker("mail", "far." OLD_BOOT ".1.1", "another:lock");
	REDIS(&server, "LPUSH transit:mail:far." OLD_BOOT ".1.1:0 m");
	/* what nobody can read */
	list_queue("no_json", "{");
	list_queue("no_lists", "{\"name\":\"no_lists\"}");
	list_queue("no_entry", NULL);
	list_queue("no name!", NULL);
	list_queue("", NULL);
	list_queue("of_a_type", NULL);
	REDIS(&server, "LPUSH quredis:queue:of_a_type x");
	list_default("of_types");
	REDIS(&server, "SET transit:of_types:workers x");
}

/* Calls of a command since the last CONFIG RESETSTAT. */
static int64_t calls(const char *command)
{
	struct redis_reply info = REDIS(&server, "INFO commandstats");
	char *line = alloc_format("cmdstat_%s:calls=", command), *at = strstr(info.str, line);
	int64_t n = at == NULL ? 0 : strtoll(at + strlen(line), NULL, 10);

	free(line);
	return n;
}

TEST(the_registry_is_enough_for_a_rescue, setup, teardown)
{
	struct message m;

	conf.supervisor.lease_ms = 400;
	conf.redis.user = (char *)"clerk";
	conf.redis.password = (char *)"pw";
	for (int without_mget = 0; without_mget <= 1; without_mget++) {
		REDIS(&server, "FLUSHALL");
		REDIS(&server, "ACL SETUSER clerk on >pw ~* +@all %s", without_mget ? "-mget" : "+mget");
		what_nobody_here_serves();
		start();
		WAIT_FOR(llen("fi") == 3);
		for (int i = 0; i < 3; i++) {
			m = entry("fi", i);		/* what is enough is for those who serve it to say */
			assert_int_equal(m.wrapper.crashes, message_payload(&m)[0] == 'x' ? 6 : 0);
		}
		WAIT_FOR(llen("ingress:locked") == 1 && llen("ingress:late") == 1 && llen("ingress:broken_off") == 1);
		assert_int_equal(llen("ft:near." OLD_BOOT ".1.1:0"), 1);
		WAIT_FOR(REDIS_INT(&server, "EXISTS transit:broken_off:workers") == 0);
		REDIS(&server, "CONFIG RESETSTAT");
		WAIT_FOR(calls("zrange") == 2);			/* turns */
		assert_int_equal(llen("transit:mail:far." OLD_BOOT ".1.1:0"), 1);
		assert_int_equal(REDIS_INT(&server, "EXISTS wrong we"), 0);
		finish();
	}
	REDIS(&server, "ACL DELUSER clerk");
}

static void fill_registry(int n)
{
	for (int i = 0; i < n; i++) {
		char *name = alloc_format("q%04d", i);

		list_default(name);
		if (i < 3 || (i >= n / 2 && i < n / 2 + 60)) {
			char *tray = alloc_format("transit:%s:far." OLD_BOOT ".1.1:0", name);

			add_worker(name, "far." OLD_BOOT ".1.1", "another:lock");
			REDIS(&server, "LPUSH %s x", tray);
			free(tray);
		}
		free(name);
	}
}

static int64_t returned(int n)
{
	int64_t sum = 0;

	for (int i = 0; i < n; i++) {
		char *ingress = alloc_format("ingress:q%04d", i);

		redis_appendf(&server.r, "LLEN %s", ingress);
		free(ingress);
	}
	for (int i = 0; i < n; i++)
		sum += private_redis_answer(&server).integer;
	return sum;
}

/* Nobody is missed: a few looks a round. Somebody is: the others of his host are found soon. */
TEST(a_long_registry, setup, teardown)
{
	int64_t since, rounds;

	conf.supervisor.lease_ms = 400;
	fill_registry(1000);
	start();
	WAIT_FOR(returned(1000) == 63);
	kill9();
	conf.supervisor.lease_ms = 800;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	WAIT_FOR((REDIS(&server, "CONFIG RESETSTAT"), usleep(900000), calls("hgetall") <= 9));	/* no alarm any more */
	since = clock_monotonic_ms();
	REDIS(&server, "CONFIG RESETSTAT");
	usleep(2500000);
	rounds = (clock_monotonic_ms() - since) / 400 + 1;
	assert_in_range(calls("hgetall"), 1, rounds * 3);
	assert_in_range(calls("mget") + calls("zrange"), 0, 2 * (1 + rounds / 4));
	finish();
}

TEST(the_registry_is_filled_again, setup, teardown)
{
	conf.supervisor.lease_ms = 400;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	REDIS(&server, "FLUSHALL");
	WAIT_FOR(REDIS_INT(&server, "EXISTS quredis:queues quredis:queue:mail") == 2);
	finish();
	conf.supervisor.lease_ms = 3600000;		/* then a new connection, which may be to an empty server, is the reason */
	atomic_store(&board->queues[0].sweeper.gate, QUEUE_RECOVERING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	private_redis_restart(&server);
	WAIT_FOR(REDIS_INT(&server, "EXISTS quredis:queues quredis:queue:mail") == 2);
	finish();
}

UNIT_MAIN(setup_all, teardown_all)
