/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=redis_output_write -Wl,--wrap=opendir -Wl,--wrap=setmntent */

/* The recovery of queues when a sweeper starts, also of very long lists; what an idle queue costs. */
#include "tests/unit/sweeper/sweeper_process.h"
#include "tests/unit/unit.h"

/* ---- start ---- */

TEST(an_empty_queue_opens_and_nothing_is_left_behind, setup, teardown)
{
	struct redis_reply keys;

	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(error(0), QUEUE_ERROR_NONE);
	WAIT_FOR(REDIS(&server, "KEYS quredis:node:*").n == 1);
	WAIT_FOR(REDIS(&server, "KEYS quredis:of:ingress:mail:backlog:*").n == 1);
	finish();
	keys = REDIS(&server, "KEYS *");
	assert_int_equal(keys.n, 5);		/* and quredis:queues, quredis:secret, quredis:schema */
	assert_string_equal(REDIS(&server, "GET quredis:queue:mail").str,
	    "{\"name\":\"mail\",\"ingress\":\"ingress:mail\",\"transit\":\"transit:mail\",\"escape\":\"escape:mail\"}");
}

TEST(the_bare_list_goes_back_in_its_order_and_uncharged, setup, teardown)
{
	struct message m;

	REDIS(&server, "RPUSH transit:mail new middle old");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(llen("ingress:mail"), 3);
	m = entry("ingress:mail", -1);		/* popped first */
	assert_payload(&m, "old");
	assert_true(m.wrapper.solo);
	assert_int_equal(m.wrapper.redelivered, 1);
	assert_int_equal(m.wrapper.crashes, 0);
	m = entry("ingress:mail", 0);
	assert_payload(&m, "new");
	assert_int_equal(swept(0, COUNT_RESCUED), 3);
	assert_int_equal(REDIS_INT(&server, "EXISTS transit:mail transit:mail:rescue transit:mail:workers"), 0);
	finish();
}

/* Pages of them. What is remembered lies beside each; the bare list is another's. */
TEST(those_of_a_shared_queue_go_back_as_they_were_pushed, setup, teardown)
{
	struct redis_reply notes;

	queues[0].shared = true;
	add_worker("mail", "n." OLD_BOOT ".1.1", LOCK);
	for (int64_t i = 0; i < 250; i++)
		REDIS(&server, "LPUSH transit:mail:n." OLD_BOOT ".1.1:0 %d", i);
	REDIS(&server, "LPUSH transit:mail theirs");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	queues[0].shared = false;
	assert_int_equal(llen("transit:mail"), 1);
	assert_int_equal(llen("ingress:mail"), 250);
	for (int64_t i = 0; i < 250; i++) {
		char text[8];

		snprintf(text, sizeof(text), "%d", (int)i);
		assert_string_equal(REDIS(&server, "LINDEX ingress:mail %d", -1 - i).str, text);
	}
	notes = REDIS(&server, "HVALS quredis:of:ingress:mail:notes");
	assert_int_equal(notes.n, 250);
	for (size_t i = 0; i < notes.n; i++)
		assert_string_equal(redis_element(&notes, i).str, "redelivered=1 outages=1 solo=1");
}

TEST(one_alone_is_charged_and_the_second_death_lets_it_escape, setup, teardown)
{
	struct redis_reply record;
	struct message m;

	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	add_worker("mail", "n." OUR_BOOT ".5.1", LOCK);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.1:0 poison");
	tell(1, 5, 1, "mail");
	assert_int_equal(told(WAIT_MS), 1);
	m = entry("ingress:mail", 0);
	assert_payload(&m, "poison");
	assert_int_equal(m.wrapper.crashes, 1);
	assert_int_equal(m.wrapper.redelivered, 1);
	assert_false(m.wrapper.solo);

	add_worker("mail", "n." OUR_BOOT ".5.2", LOCK);
	REDIS(&server, "RPOPLPUSH ingress:mail transit:mail:n." OUR_BOOT ".5.2:2");
	tell(2, 5, 2, "mail");
	WAIT_FOR(llen("escape:mail") == 1);
	assert_int_equal(llen("ingress:mail"), 0);
	assert_string_equal(REDIS(&server, "LINDEX escape:mail 0").str, "poison");
	record = REDIS(&server, "XREVRANGE escape:mail:log + - COUNT 1");
	record = redis_element(&record, 0);
	record = redis_element(&record, 1);
	for (size_t i = 0; i < record.n; i += 2) {
		const char *field = redis_element(&record, i).str, *value = redis_element(&record, i + 1).str;

		if (strcmp(field, "error_class") == 0)
			assert_string_equal(value, "WorkerLost");
		if (strcmp(field, "error_message") == 0)
			assert_string_equal(value, "its worker died 2 times while the message was in flight");
		if (strcmp(field, "worker") == 0)
			assert_string_equal(value, "n." OUR_BOOT ".5.2");
		if (strcmp(field, "crashes") == 0)
			assert_string_equal(value, "2");
		if (strcmp(field, "queue_from") == 0)
			assert_string_equal(value, "transit");
		if (strcmp(field, "message") == 0)
			assert_string_equal(value, "poison");
	}
	WAIT_FOR(swept(0, COUNT_ESCAPED) == 1);
	finish();
}

/* What a supervisor left that died as a whole, before a start, which returns it. One message each time. */
static struct message after_an_outage(const char *incarnation, bool stopping, bool trial)
{
	char name[QUEUE_NOTE_FIELD], *tray = alloc_format("transit:mail:%s:0", incarnation);
	struct message m;

	add_worker("mail", incarnation, LOCK);
	REDIS(&server, "RPOPLPUSH ingress:mail %s", tray);
	m = entry_of(tray, "ingress:mail", 0);
	queue_trial_name(&m, name);
	if (trial)
		annotate(incarnation, QUEUE_TRIAL, name);
	if (stopping)
		annotate(incarnation, QUEUE_STOPPING, "1");
	atomic_store(&board->queues[0].sweeper.gate, QUEUE_RECOVERING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	free(tray);
	return entry("ingress:mail", 0);
}

TEST(an_outage_sets_apart_and_charges_what_was_on_trial, setup, teardown)
{
	struct message m;

	REDIS(&server, "LPUSH ingress:mail job");
	m = after_an_outage("n." OLD_BOOT ".1.1", false, false);
	assert_int_equal(m.wrapper.crashes, 0);
	assert_int_equal(m.wrapper.outages, 1);
	assert_true(m.wrapper.solo);
	m = after_an_outage("n." OLD_BOOT ".1.2", false, false);
	assert_int_equal(m.wrapper.crashes, 0);
	assert_true(message_needs_trial(&m.wrapper));
	m = after_an_outage("n." OLD_BOOT ".1.3", false, false);	/* it waited for its trial */
	assert_int_equal(m.wrapper.crashes, 0);
	m = after_an_outage("n." OLD_BOOT ".1.4", false, true);
	assert_int_equal(m.wrapper.crashes, 1);
	assert_int_equal(m.wrapper.redelivered, 4);
	assert_payload(&m, "job");
	m = after_an_outage("n." OLD_BOOT ".1.5", true, true);
	assert_int_equal(m.wrapper.crashes, 1);
	assert_int_equal(llen("escape:mail"), 0);
}

TEST(an_ordered_stop_charges_nobody, setup, teardown)
{
	REDIS(&server, "LPUSH ingress:mail job");
	for (int i = 1; i <= 5; i++) {
		char *name = alloc_format("n." OLD_BOOT ".1.%d", i);
		struct message m = after_an_outage(name, true, false);

		free(name);
		assert_int_equal(m.wrapper.redelivered, i);
		assert_int_equal(m.wrapper.crashes + m.wrapper.outages, 0);
	}
}

/* A worker came back under a new name, and its trays were not taken over. Its process lives. */
TEST(a_name_that_a_living_worker_left_is_rescued_at_once, setup, teardown)
{
	struct message m;

	add_process("mail", "n." OUR_BOOT ".7.1", LOCK, 77);
	add_process("mail", "n." OUR_BOOT ".7.2", LOCK, 77);
	add_process("mail", "n." OUR_BOOT ".7.3", LOCK, 77);
	REDIS(&server, "SET transit:mail:lease:n." OUR_BOOT ".7.1 1");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.1:0 old");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.2:0 running");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.3:0 own");
	atomic_store(&board->slots[7].pid, 77);
	atomic_store(&board->slots[7].abandoned, 2);	/* it still runs what it fetched as .7.2 */
	atomic_store(&board->queues[0].workers.renamed, 1);
	start();
	WAIT_FOR(llen("ingress:mail") == 1);
	m = entry("ingress:mail", 0);
	assert_payload(&m, "old");
	assert_int_equal(m.wrapper.redelivered, 1);
	assert_int_equal(m.wrapper.crashes + m.wrapper.outages, 0);
	atomic_store(&board->slots[7].abandoned, 3);
	atomic_store(&board->queues[0].workers.renamed, 2);
	WAIT_FOR(llen("ingress:mail") == 2);
	m = entry("ingress:mail", -1);
	assert_payload(&m, "running");
	assert_int_equal(m.wrapper.crashes + m.wrapper.outages, 0);
	finish();
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".7.3:0"), 1);
}

/* The same slot, but another process: the master has not reported the dead one yet. */
TEST(a_younger_process_of_the_slot_proves_nothing, setup, teardown)
{
	add_process("mail", "n." OUR_BOOT ".7.1", LOCK, 76);
	add_process("mail", "n." OUR_BOOT ".7.2", LOCK, 77);
	add_process("mail", "n." OUR_BOOT ".8.1", LOCK, 78);
	add_process("mail", "n." OUR_BOOT ".8.2", LOCK, 78);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.1:0 poison");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".8.1:0 left");
	for (int i = 7; i <= 8; i++) {
		atomic_store(&board->slots[i].pid, 70 + i);
		atomic_store(&board->slots[i].abandoned, 2);
	}
	atomic_store(&board->queues[0].workers.renamed, 1);
	start();
	WAIT_FOR(llen("ingress:mail") == 1);		/* all were looked at */
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".7.1:0"), 1);
	finish();
}

/* Anybody may register as many as he likes. */
TEST(many_dead_supervisors_are_looked_for_at_once, setup, teardown)
{
	for (int i = 0; i < 50; i++) {
		char *incarnation = alloc_format("n.%016x.1.1", 0xd0 + (unsigned)i);

		add_worker("mail", incarnation, LOCK);
		free(incarnation);
	}
	atomic_store(&looks->processes, 0);
	atomic_store(&looks->cgroups, 0);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	assert_int_equal(atomic_load(&looks->cgroups), 1);
	assert_in_range(atomic_load(&looks->processes), 1, 4);
}

TEST(owners_under_another_lock_are_left_alone, setup, teardown)
{
	add_worker("mail", "n." OLD_BOOT ".1.1", "another:lock");
	REDIS(&server, "LPUSH transit:mail:n." OLD_BOOT ".1.1:0 theirs");
	REDIS(&server, "SET transit:mail:lease:n." OLD_BOOT ".1.1 1");
	add_worker("mail", "n." OUR_BOOT ".7.1", LOCK);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.1:0 living");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	assert_int_equal(llen("transit:mail:n." OLD_BOOT ".1.1:0"), 1);
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".7.1:0"), 1);
	assert_int_equal(llen("ingress:mail"), 0);
}

TEST(a_successor_leaves_bare_list_and_gate_alone, setup, teardown)
{
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	kill9();
	REDIS(&server, "LPUSH transit:mail foreign");
	atomic_store(&board->queues[0].sweeper.swept[COUNT_DUE], 0);
	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed 1 x");
	start();
	WAIT_FOR(swept(0, COUNT_DUE) == 1);
	assert_int_equal(gate(0), QUEUE_OPEN);
	finish();
	assert_int_equal(llen("transit:mail"), 1);
	/* the next master begins anew */
	atomic_store(&board->queues[0].sweeper.gate, QUEUE_RECOVERING);
	atomic_store(&board->queues[0].sweeper.recovered, RECOVERED_NOTHING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(llen("transit:mail"), 0);
	finish();
}

TEST(their_time_stays_known, setup, teardown)
{
	struct message m;

	push_sealed("transit:mail", "ingress:mail", "quredis/1 w=0000000000000001 own=5\na");
	push_sealed("transit:mail", "ingress:mail", "quredis/1 w=0000000000000002 own=4 solo=1\nb");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	m = entry("ingress:mail", 0);
	assert_int_equal(m.wrapper.own_ms, 5);
	m = entry("ingress:mail", 1);
	assert_int_equal(m.wrapper.own_ms, 4);
	finish();
}

/* ---- size ---- */

TEST(a_hundred_thousand_in_the_bare_list, setup, teardown)
{
	struct message m;

	conf.nqueues = 2;
	for (int i = 0; i < 1000; i++) {
		const char *argv[102] = { "LPUSH", "transit:mail" };
		char numbers[100][16];

		for (int j = 0; j < 100; j++) {
			snprintf(numbers[j], sizeof(numbers[j]), "%d", i * 100 + j);
			argv[2 + j] = numbers[j];
		}
		redis_append(&server.r, 102, argv, NULL);
		private_redis_answer(&server);
	}
	start();
	WAIT_FOR(gate(1) == QUEUE_OPEN);
	assert_int_equal(gate(0), QUEUE_RECOVERING);	/* the other one did not wait for it */
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(llen("ingress:mail"), 100000);
	m = entry("ingress:mail", -1);
	assert_payload(&m, "0");
	m = entry("ingress:mail", 0);
	assert_payload(&m, "99999");
	assert_int_equal(swept(0, COUNT_RESCUED), 100000);
	finish();
}

/* AddressSanitizer does not give it back at once, so a peak says nothing. */
#if defined(__has_feature)
#define FREED_MEMORY_IS_KEPT __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define FREED_MEMORY_IS_KEPT 1
#else
#define FREED_MEMORY_IS_KEPT 0
#endif

static int64_t peak_kib(pid_t pid)
{
	char path[64], line[256];
	long long kib = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	f = fopen(path, "re");
	assert_non_null(f);
	while (fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmHWM: %lld", &kib) == 1)
			break;
	fclose(f);
	return kib;
}

TEST(megabytes_do_not_pile_up, setup, teardown)
{
	char *big = alloc_zero(1, 1 << 20);
	int64_t before;

	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	before = peak_kib(sweeper);
	for (int i = 0; i < 100; i++)
		REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.1:0 %b", big, (size_t)(1 << 20));
	tell(1, 5, 1, "mail");
	assert_int_equal(told(WAIT_MS), 1);
	assert_int_equal(llen("ingress:mail"), 100);
	if (!FREED_MEMORY_IS_KEPT)
		assert_true(peak_kib(sweeper) - before < 64 * 1024);
	free(big);
	finish();
}

TEST(an_idle_queue_costs_two_commands_a_second_at_most, setup, teardown)
{
	int64_t since, ms;
	long long before, after;

	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	before = strtoll(strstr(REDIS(&server, "INFO stats").str, "total_commands_processed:") + 25, NULL, 10);
	since = clock_monotonic_ms();
	usleep(6000000);
	ms = clock_monotonic_ms() - since;
	after = strtoll(strstr(REDIS(&server, "INFO stats").str, "total_commands_processed:") + 25, NULL, 10);
	assert_true((after - before - 1) * 1000 <= 2 * ms);
	finish();
}

UNIT_MAIN(setup_all, teardown_all)
