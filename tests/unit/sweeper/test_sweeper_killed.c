/* links: tests/unit/private_redis.c */
/* ldflags: -Wl,--wrap=redis_output_write -Wl,--wrap=opendir -Wl,--wrap=setmntent */

/* The sweeper, or Redis, is killed at every write of the sweeper: no message is lost or doubled. */
#include "tests/unit/sweeper/sweeper_process.h"
#include "tests/unit/unit.h"

/* ---- killed at every write ---- */

/* Everything that may lie in work after a crash, in every state a rescue can be in. */
static void wreck(void)
{
	REDIS(&server, "FLUSHALL");
	add_worker("mail", "n." OLD_BOOT ".1.1", LOCK);
	add_worker("mail", "n." OLD_BOOT ".2.7", LOCK);
	add_worker("mail", "n." OLD_BOOT ".3.1", LOCK);
	REDIS(&server, "LPUSH transit:mail a b c d e f g h i j a");
	REDIS(&server, "LPUSH transit:mail:n." OLD_BOOT ".1.1:0 single");
	REDIS(&server, "LPUSH transit:mail:n." OLD_BOOT ".1.1:2 p q");
	push_sealed("transit:mail:n." OLD_BOOT ".3.1:1", "ingress:mail", "quredis/1 w=0000000000000001 crashes=1\npoison");
	annotate("n." OLD_BOOT ".3.1", QUEUE_TRIAL, "0000000000000001");
	REDIS(&server, "RPUSH transit:mail:n." OLD_BOOT ".2.7:rescue half done");
	REDIS(&server, "HSET transit:mail:workers n." OLD_BOOT ".2.7:rescue 4");
	REDIS(&server, "ZADD quredis:of:ingress:mail:delayed 1 due");
	for (int i = 0; i < SCOREBOARD_QUEUES; i++)
		memset(&board->queues[i], 0, sizeof(board->queues[i]));
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Payloads of a list, sorted and joined. */
static void collect(const char *list, char *out, size_t size)
{
	struct redis_reply all = REDIS(&server, "LRANGE %s 0 -1", list);
	char *payloads[64];
	size_t n = 0;

	out[0] = '\0';
	for (; n < all.n && n < 64; n++) {
		struct redis_reply e = redis_element(&all, n);
		struct message m;

		struct message_keys keys = sealed_keys(list);

		message_parse(&m, &keys, e.str, e.len);
		payloads[n] = alloc_copy(message_payload(&m), message_payload_len(&m));
	}
	qsort(payloads, n, sizeof(payloads[0]), by_bytes);
	for (size_t i = 0; i < n; i++) {
		strncat(out, payloads[i], size - strlen(out) - 2);
		strcat(out, " ");
		free(payloads[i]);
	}
}

static void assert_all_home(void)
{
	char ingress[512], escape[512];

	collect("ingress:mail", ingress, sizeof(ingress));
	collect("escape:mail", escape, sizeof(escape));
	assert_string_equal(ingress, "a a b c d done due e f g h half i j p q single ");
	assert_string_equal(escape, "poison ");
	assert_int_equal(REDIS_INT(&server, "XLEN escape:mail:log"), 1);
	assert_int_equal(REDIS_INT(&server, "ZCARD quredis:of:ingress:mail:delayed"), 0);
}

static void assert_nothing_left(void)
{
	struct redis_reply keys = REDIS(&server, "KEYS *");

	for (size_t i = 0; i < keys.n; i++) {
		const char *key = redis_element(&keys, i).str;

		if (strstr(key, "transit:mail") == key && strcmp(key, "transit:mail:workers") != 0)
			fail_msg("left: %s", key);
		if (strstr(key, "scratch") != NULL)
			fail_msg("left: %s", key);
	}
}

/* Returns whether it died of it. */
static bool killed_at(int write, bool after)
{
	int status;

	wreck();
	start_dying(write, after);
	WAIT_FOR((gate(0) == QUEUE_OPEN && swept(0, COUNT_DUE) == 1) || waitid(P_PID, (id_t)sweeper, &(siginfo_t){0}, WEXITED | WNOWAIT | WNOHANG) == -1 ||
		 kill(sweeper, 0) == -1 || ({ siginfo_t si = {0}; waitid(P_PID, (id_t)sweeper, &si, WEXITED | WNOWAIT | WNOHANG); si.si_pid != 0; }));
	if (gate(0) == QUEUE_OPEN && swept(0, COUNT_DUE) == 1) {
		kill9();
		return false;
	}
	status = wait_end(WAIT_MS);
	assert_true(WIFSIGNALED(status));
	return true;
}

TEST(killed_at_every_write_and_started_again, setup, teardown)
{
	for (int after = 0; after <= 1; after++) {
		int write = 1;

		for (; killed_at(write, after != 0); write++) {
			/* three more that die on the way, then one that lives */
			for (int again = 1; again <= 3; again++) {
				start_dying(again * 4, after != 0);
				WAIT_FOR(({ siginfo_t si = {0}; waitid(P_PID, (id_t)sweeper, &si, WEXITED | WNOWAIT | WNOHANG); si.si_pid != 0; }) ||
					 (gate(0) == QUEUE_OPEN && swept(0, COUNT_DUE) > 0));
				kill9();
			}
			start();
			WAIT_FOR(gate(0) == QUEUE_OPEN && REDIS_INT(&server, "ZCARD quredis:of:ingress:mail:delayed") == 0);
			WAIT_FOR(REDIS_INT(&server, "EXISTS transit:mail:rescue transit:mail") == 0);
			finish();
			assert_all_home();
			assert_nothing_left();
		}
		assert_true(write > 20);
		assert_all_home();
	}
}

/* ---- Redis killed at every write ---- */

static bool server_is_dead(void)
{
	siginfo_t dead = {0};

	waitid(P_PID, (id_t)server.pid, &dead, WEXITED | WNOWAIT | WNOHANG);
	return dead.si_pid != 0;
}

/* Returns whether it came so far. */
static bool server_killed_at(int write)
{
	bool killed;

	wreck();
	dies_instead = server.pid;
	start_dying(write, true);
	WAIT_FOR(server_is_dead() || (gate(0) == QUEUE_OPEN && swept(0, COUNT_DUE) == 1));
	killed = server_is_dead();
	dies_instead = 0;
	if (!killed)
		kill9();
	private_redis_restart(&server);		/* in any case: the last write of the sweeper may have killed it, and it may not be dead yet */
	WAIT_FOR(gate(0) == QUEUE_OPEN && REDIS_INT(&server, "EXISTS quredis:of:ingress:mail:delayed transit:mail:rescue transit:mail") == 0);
	if (killed)
		finish();
	return killed;
}

TEST(redis_killed_at_every_write, setup, teardown)
{
	int write = 1;

	private_redis_stop(&server);
	private_redis_start(&server, true);
	for (; server_killed_at(write); write++)
		assert_all_home();
	assert_true(write > 15);
	assert_all_home();
	assert_nothing_left();
	private_redis_stop(&server);
	private_redis_start(&server, false);
}

UNIT_MAIN(setup_all, teardown_all)
