/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=redis_output_write -Wl,--wrap=opendir -Wl,--wrap=setmntent */

/* What Redis says and refuses: retries, pauses, errors of a queue or of the server, the lead. */
#include "tests/unit/sweeper/sweeper_process.h"

#include "sweeper/core/core.h"
#include "tests/unit/unit.h"

/* ---- retries and pauses ---- */

TEST(what_is_due_queues_and_what_is_not_waits, setup, teardown)
{
	int64_t now = clock_realtime_ms();

	conf.nqueues = 2;
	for (int i = 0; i < 250; i++) {
		redis_appendf(&server.r, "ZADD quredis:of:ingress:mail:delayed %d %d", (int64_t)1000 + i, (int64_t)i);
		private_redis_answer(&server);
	}
	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed %d tomorrow", now + 86400000);
	REDIS(&server, "ZADD quredis:of:ingress:news:delayed %d soon", now + 1500);
	start();
	WAIT_FOR(swept(0, COUNT_DUE) == 250);
	assert_int_equal(llen("ingress:mail"), 250);
	assert_string_equal(REDIS(&server, "LINDEX ingress:mail -1").str, "0");
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:ingress:mail:delayed"), 1);
	WAIT_FOR(swept(1, COUNT_DUE) == 1);
	finish();
}

/* The operator scaled the queue to one worker, whatever the file says: retries are held back behind ten messages. */
TEST(the_workers_that_the_operator_set_limit_the_retries_that_move, setup, teardown)
{
	for (int i = 0; i < 10; i++)
		REDIS(&server, "RPUSH ingress:mail new");
	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed 1000 retry");
	REDIS(&server, "RPUSH delayed:mail x");
	atomic_store(&board->queues[0].master.wanted, 1);
	start();
	WAIT_FOR(error(0) == QUEUE_ERROR_WRONG_TYPE);
	assert_int_equal(swept(0, COUNT_DUE), 0);
	finish();
}

static uint32_t openings(int queue)
{
	return atomic_load(&board->queues[queue].sweeper.openings);
}

/* The master must hear of one without a look of its own. */
static void hear_of_openings(void)
{
	struct pollfd p = { .fd = master_fd, .events = POLLIN };
	struct child_death_answer answer;
	int heard = 0;

	for (; poll(&p, 1, heard == 0 ? WAIT_MS : 0) == 1; heard++) {
		assert_int_equal(recv(master_fd, &answer, sizeof(answer), 0), sizeof(answer));
		assert_int_equal(answer.serial, CHILD_GATE_OPENED);
	}
	assert_true(heard > 0);
}

TEST(a_pause_flag_shuts_and_opens_the_gate, setup, teardown)
{
	uint32_t opened;

	REDIS(&server, "SET quredis:of:ingress:mail:paused 1");
	start();
	WAIT_FOR(gate(0) == QUEUE_PAUSED);
	opened = openings(0);
	REDIS(&server, "DEL quredis:of:ingress:mail:paused");
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	WAIT_FOR(openings(0) == opened + 1);
	hear_of_openings();
	REDIS(&server, "SET quredis:of:ingress:mail:paused 1");
	WAIT_FOR(gate(0) == QUEUE_PAUSED);
	assert_int_equal(openings(0), opened + 1);
	finish();
}

/* ---- a server that is not to be trusted ---- */

TEST(an_evicting_server_is_refused_until_it_is_mended, setup, teardown)
{
	REDIS(&server, "CONFIG SET maxmemory-policy allkeys-lru");
	REDIS(&server, "LPUSH transit:mail x");
	start();
	WAIT_FOR(gate(0) == QUEUE_REFUSED);
	assert_int_equal(error(0), QUEUE_ERROR_EVICTION);
	WAIT_FOR(llen("ingress:mail") == 1);		/* what was in work is brought home all the same */
	REDIS(&server, "CONFIG SET maxmemory-policy noeviction");
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(error(0), QUEUE_ERROR_NONE);
	finish();
	conf.redis.allow_eviction = true;
	REDIS(&server, "CONFIG SET maxmemory-policy volatile-ttl");
	atomic_store(&board->queues[0].sweeper.gate, QUEUE_RECOVERING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
}

TEST(recovery_works_at_maxmemory, setup, teardown)
{
	REDIS(&server, "RPUSH transit:mail a b c");
	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed 1 d");
	REDIS(&server, "CONFIG SET maxmemory 1");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	WAIT_FOR(llen("ingress:mail") == 4);
	tell(3, 9, 1, "mail");
	assert_int_equal(told(WAIT_MS), 3);
	finish();
}

TEST(a_broken_queue_delays_no_other_and_heals, setup, teardown)
{
	/* Only the lists, and the workers, stop their queue. */
	static const struct { const char *key; bool stops; } broken[] = { { "ingress:mail", true }, { "transit:mail", true },
		{ "escape:mail", true }, { "transit:mail:workers", true }, { "escape:mail:log", false },
		{ "quredis:of:ingress:mail:delayed", false }, { "transit:mail:rescue", false } };

	conf.nqueues = 2;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		REDIS(&server, "FLUSHALL");
		atomic_store(&board->queues[0].sweeper.gate, QUEUE_RECOVERING);
		atomic_store(&board->queues[0].sweeper.recovered, RECOVERED_NOTHING);
		atomic_store(&board->queues[1].sweeper.gate, QUEUE_RECOVERING);
		atomic_store(&board->queues[1].sweeper.recovered, RECOVERED_NOTHING);
		REDIS(&server, "SET %s x", broken[i].key);
		REDIS(&server, "LPUSH transit:news a");
		start();
		WAIT_FOR(gate(1) == QUEUE_OPEN);
		WAIT_FOR(broken[i].stops ? error(0) == QUEUE_ERROR_WRONG_TYPE : gate(0) == QUEUE_OPEN);
		assert_int_equal(gate(0), broken[i].stops ? QUEUE_RECOVERING : QUEUE_OPEN);
		assert_int_equal(error(1), QUEUE_ERROR_NONE);
		assert_int_equal(llen("ingress:news"), 1);
		REDIS(&server, "DEL %s", broken[i].key);
		WAIT_FOR(gate(0) == QUEUE_OPEN && error(0) == QUEUE_ERROR_NONE);
		finish();
	}
}

TEST(a_tray_of_another_type_holds_up_only_itself, setup, teardown)
{
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	REDIS(&server, "SET transit:mail:n." OUR_BOOT ".5.1:1 x");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".6.1:1 x");
	tell(1, 5, 1, "mail");
	tell(2, 6, 1, "mail");
	assert_int_equal(told(WAIT_MS), 2);
	WAIT_FOR(error(0) == QUEUE_ERROR_WRONG_TYPE);
	assert_int_equal(gate(0), QUEUE_OPEN);
	REDIS(&server, "DEL transit:mail:n." OUR_BOOT ".5.1:1");
	assert_int_equal(told(WAIT_MS), 1);
	WAIT_FOR(error(0) == QUEUE_ERROR_NONE);
	finish();
}

TEST(a_missing_right_shows_before_a_message_depends_on_it, setup, teardown)
{
	static const char *const rights[] = { "lrem", "zadd", "xadd", "rename", "pexpire", "hset" };

	conf.redis.user = (char *)"clerk";
	conf.redis.password = (char *)"pw";
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		char *minus = alloc_format("-%s", rights[i]), *plus = alloc_format("+%s", rights[i]);

		REDIS(&server, "ACL SETUSER clerk on >pw ~* +@all %s", minus);
		atomic_store(&board->queues[0].sweeper.gate, QUEUE_RECOVERING);
		atomic_store(&board->queues[0].sweeper.recovered, RECOVERED_NOTHING);
		REDIS(&server, "RPUSH transit:mail a");
		start();
		WAIT_FOR(error(0) == QUEUE_ERROR_NO_PERMISSION);
		assert_int_equal(gate(0), QUEUE_RECOVERING);
		assert_int_equal(llen("transit:mail"), 1);
		REDIS(&server, "ACL SETUSER clerk %s", plus);
		WAIT_FOR(gate(0) == QUEUE_OPEN);
		finish();
		free(minus);
		free(plus);
	}
	assert_int_equal(REDIS_INT(&server, "ACL DELUSER clerk"), 1);
}

TEST(a_queue_without_rights_delays_no_other, setup, teardown)
{
	conf.nqueues = 2;
	conf.redis.user = (char *)"clerk";
	conf.redis.password = (char *)"pw";
	REDIS(&server, "ACL SETUSER clerk on >pw resetkeys ~quredis:* ~*:news* +@all");
	start();
	WAIT_FOR(gate(1) == QUEUE_OPEN);
	WAIT_FOR(error(0) == QUEUE_ERROR_NO_PERMISSION);
	assert_int_equal(gate(0), QUEUE_RECOVERING);
	REDIS(&server, "ACL SETUSER clerk ~*");
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	REDIS(&server, "ACL DELUSER clerk");
}

TEST(a_server_that_hangs_or_restarts, setup, teardown)
{
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	private_redis_restart(&server);
	WAIT_FOR(error(0) == QUEUE_ERROR_NONE && atomic_load(&board->slots[0].redis_down) == 0);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.1:0 x");
	tell(1, 5, 1, "mail");
	assert_int_equal(told(WAIT_MS), 1);
	assert_int_equal(llen("ingress:mail"), 1);

	kill(server.pid, SIGSTOP);
	WAIT_FOR(error(0) == QUEUE_ERROR_NO_REDIS);
	tell(2, 5, 2, "mail");
	kill(server.pid, SIGCONT);
	assert_int_equal(told(WAIT_MS), 2);

	kill(server.pid, SIGSTOP);
	order(ORDER_FINISH);
	assert_int_equal(wait_end(WAIT_MS), 0);
	kill(server.pid, SIGCONT);
	atomic_store(&board->master.orders[0], ORDER_RUN);
	private_redis_connect(&server);
}

/* Errors that are no queue's own: the connection is given up, and opened again until the server is mended. */
TEST(what_concerns_the_server_is_no_queues_trouble, setup, teardown)
{
	conf.nqueues = 2;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN && gate(1) == QUEUE_OPEN);
	REDIS(&server, "SCRIPT FLUSH");
	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed 1 x");
	WAIT_FOR(swept(0, COUNT_DUE) == 1);

	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed 1 y");
	REDIS(&server, "CONFIG SET min-replicas-to-write 1");
	WAIT_FOR(atomic_load(&board->slots[0].redis_down) == 1);
	assert_int_equal(error(0), QUEUE_ERROR_TRANSIENT);
	assert_int_equal(error(1), QUEUE_ERROR_TRANSIENT);
	assert_memory_equal(slot_text_read(&board->queues[0].sweeper.why).text, "NOREPLICAS", 10);
	REDIS(&server, "CONFIG SET min-replicas-to-write 0");
	WAIT_FOR(swept(0, COUNT_DUE) == 2);
	WAIT_FOR(error(0) == QUEUE_ERROR_NONE && error(1) == QUEUE_ERROR_NONE);
	finish();
}

/* ---- whose the periodic work is ---- */

static bool has_lead(const char *who)
{
	struct redis_reply holder = REDIS(&server, "GET quredis:of:ingress:mail:sweeper");

	return holder.type == REDIS_STRING && strcmp(holder.str, who) == 0;
}

TEST(a_queue_without_periodic_work_has_no_lead, setup, teardown)
{
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:of:ingress:mail:sweeper"), 0);
}

TEST(one_of_two_hosts_has_the_periodic_work, setup, teardown)
{
	queues[0].ttl_ms = 60000;
	conf.supervisor.lease_ms = 1000;
	start();
	WAIT_FOR(has_lead("n." OUR_BOOT " " LOCK));
	REDIS(&server, "SET quredis:of:ingress:mail:sweeper other.00000000000000c0 PX 1500");
	WAIT_FOR(REDIS_INT(&server, "PTTL quredis:of:ingress:mail:sweeper") < 500);
	assert_true(has_lead("other.00000000000000c0"));	/* asked for more than once meanwhile */
	WAIT_FOR(has_lead("n." OUR_BOOT " " LOCK));
	kill9();
	REDIS(&server, "PEXPIRE quredis:of:ingress:mail:sweeper 600000");
	start();				/* of the same name: it need not wait */
	WAIT_FOR(REDIS_INT(&server, "PTTL quredis:of:ingress:mail:sweeper") <= 1000);
	finish();
	assert_int_equal(REDIS_INT(&server, "EXISTS quredis:of:ingress:mail:sweeper"), 0);
	queues[0].ttl_ms = 0;
}

/* A supervisor was killed, and started again: it holds the lock of the dead one, and need not wait. */
TEST(the_lead_of_a_dead_predecessor_is_taken_at_once, setup, teardown)
{
	queues[0].ttl_ms = 60000;
	REDIS(&server, "SET quredis:of:ingress:mail:sweeper %s PX 600000", "earlier.00000000000000c0 " LOCK);
	start();
	WAIT_FOR(has_lead("n." OUR_BOOT " " LOCK));
	finish();
	queues[0].ttl_ms = 0;
}

TEST(the_lead_of_another_lock_is_waited_for, setup, teardown)
{
	queues[0].ttl_ms = 60000;
	conf.supervisor.lease_ms = 1000;
	REDIS(&server, "SET quredis:of:ingress:mail:sweeper %s PX 1500", "n.00000000000000c0 other" LOCK);
	start();
	WAIT_FOR(REDIS_INT(&server, "PTTL quredis:of:ingress:mail:sweeper") < 500);
	assert_true(has_lead("n.00000000000000c0 other" LOCK));
	WAIT_FOR(has_lead("n." OUR_BOOT " " LOCK));
	finish();
	queues[0].ttl_ms = 0;
}

TEST(the_lead_of_another_is_not_given_up, setup, teardown)
{
	queues[0].ttl_ms = 60000;
	REDIS(&server, "SET quredis:of:ingress:mail:sweeper other.00000000000000c0 PX 600000");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	assert_true(has_lead("other.00000000000000c0"));
	queues[0].ttl_ms = 0;
}

/* ---- times without a ttl ---- */

static bool newest_is_stamped(void)
{
	struct redis_reply newest = REDIS(&server, "LINDEX ingress:mail 0");

	return newest.type == REDIS_STRING && strncmp(newest.str, "quredis/1 w=", 12) == 0 && strstr(newest.str, " own=") != NULL;
}

TEST(who_wants_ages_has_times, setup, teardown)
{
	bool *const wants[] = { &conf.health.enabled, &conf.purge.enabled };

	for (int i = 0; i < 2; i++) {
		*wants[i] = true;
		REDIS(&server, "LPUSH ingress:mail %s a b", "quredis/1 ttl=0s enqueued=1\nm");
		start();
		WAIT_FOR(newest_is_stamped());
		finish();
		assert_int_equal(REDIS_INT(&server, "LLEN ingress:mail"), 3);
		assert_int_equal(REDIS_INT(&server, "EXISTS escape:mail"), 0);
		REDIS(&server, "DEL ingress:mail");
		*wants[i] = false;
	}
}

/* ---- INFO ---- */

TEST(info_is_read)
{
	const char *info = "# Server\r\nredis_version:7.0.15\r\nrun_id:abc\r\n\r\n# Memory\r\nused_memory:1\r\nmaxmemory_policy:allkeys-lru\r\n";
	const char *replication = "# Replication\r\nrole:master\r\nmaster_replid:def\r\nmaster_replid2:0\r\n";
	struct redis_identity id = {0}, other;
	struct server s = {0};

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

UNIT_MAIN(setup_all, teardown_all)
