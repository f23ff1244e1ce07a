/* links: common/digest.c common/letter_class.c sweeper/metrics.c sweeper/gauge.c sweeper/statsd.c sweeper/textfile.c sweeper/prometheus.c common/exposition.c sweeper/errand.c common/address.c sweeper/gauge_waiting.c sweeper/health.c sweeper/health_rule.c sweeper/health_document.c common/queue_gauge.c common/queue_health.c common/queue_admin.c sweeper/clock.c sweeper/stamps.c sweeper/history.c sweeper/task.c sweeper/orphans.c sweeper/aside.c common/queue_history.c sweeper/purge.c sweeper/purge_look.c sweeper/purge_exit.c sweeper/purge_check.c sweeper/purge_transit.c sweeper/ttl.c sweeper/expire.c common/age.c common/server_clock.c common/queue_waiting.c sweeper/connection.c common/queue_secret.c sweeper/deaths.c sweeper/due.c sweeper/interrupt.c sweeper/late.c sweeper/lead.c sweeper/recover.c sweeper/departures.c common/cgroup.c common/leftovers.c sweeper/dead_boots.c sweeper/registry.c sweeper/registry_page.c sweeper/vacancies.c sweeper/vacancies_known.c sweeper/rescue.c sweeper/rescue_page.c sweeper/rescue_learn.c sweeper/server.c sweeper/swept.c sweeper/sweeper.c sweeper/tally.c sweeper/trouble.c sweeper/watch.c sweeper/pulse.c tests/unit/private_redis.c common/alloc.c common/backoff.c common/buffer.c common/clock.c common/dead.c common/duration.c common/log.c common/log_line.c common/message.c common/message_line.c common/seal.c common/process.c common/queue_keys.c common/queue_moves.c common/queue_too_large.c common/queue_records.c common/queue_registry.c common/queue_notes.c common/queue_look.c common/queue_rehearsal.c common/queue_scripts.c common/queue_stats.c common/queue_watch.c common/redis.c common/redis_command.c common/redis_output.c common/redis_reply.c common/redis_wait.c common/redis_info.c common/redis_target.c common/scoreboard.c sweeper/archive.c sweeper/letters.c sweeper/letters_archive.c sweeper/letters_claim.c sweeper/letters_page.c common/letters_pair.c common/letters_walk.c common/purge_rule.c common/base64.c common/queue_letters.c common/record_line.c sweeper/forward.c sweeper/node.c common/queue_nodes.c common/handler.c common/handler_env.c common/handler_family.c common/handler_input.c common/handler_limits.c common/handler_output.c common/handler_pipes.c common/handler_process.c common/handler_spawn.c common/handler_user.c */
/* ldflags: -Wl,--wrap=redis_output_write -Wl,--wrap=opendir -Wl,--wrap=setmntent */

/*
 * The sweeper process against a private Redis, with this program as its master: what it is told over the
 * socket, what it says on the board, and what becomes of messages, also when it is killed at every write.
 */
#include <sys/prctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <dirent.h>
#include <fcntl.h>
#include <mntent.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <hiredis/hiredis.h>

#include "common/alloc.h"
#include "common/child.h"
#include "common/clock.h"
#include "common/queue.h"
#include "common/queue_notes.h"
#include "common/queue_watch.h"
#include "tests/unit/private_redis.h"
#include "tests/unit/sealed.h"

#define LOCK "boot:1:2"
#define BOOT UINT64_C(0x00000000000000b0)
#define OLD_BOOT "00000000000000a0"
#define OUR_BOOT "00000000000000b0"
#define WAIT_MS 30000
#define QUEUES 3

static struct private_redis server;
static struct conf conf;
static struct conf_queue queues[QUEUES], *queue_list_of[QUEUES];
static struct scoreboard *board;
static struct child child;
static int master_fd = -1;
static pid_t sweeper;

/* ---- death of the sweeper at a chosen write ---- */

static int writes_to_live;	/* 0: for ever */
static bool die_after_write;	/* else before it */
static pid_t dies_instead;	/* 0: the sweeper itself */

int __real_redis_output_write(redisContext *c, struct redis_output *o);
int __wrap_redis_output_write(redisContext *c, struct redis_output *o);

int __wrap_redis_output_write(redisContext *c, struct redis_output *o)
{
	bool last = writes_to_live > 0 && --writes_to_live == 0;
	int rc;

	if (last && !die_after_write)
		raise(SIGKILL);
	rc = __real_redis_output_write(c, o);
	if (last)
		kill(dies_instead == 0 ? getpid() : dies_instead, SIGKILL);
	return rc;
}

/* How often any sweeper began to look through all processes, and through the hierarchy of cgroups; shared with it. */
struct looks {
	_Atomic int processes, cgroups;
};
static struct looks *looks;

DIR *__real_opendir(const char *name);
DIR *__wrap_opendir(const char *name);
FILE *__real_setmntent(const char *file, const char *type);
FILE *__wrap_setmntent(const char *file, const char *type);

DIR *__wrap_opendir(const char *name)
{
	if (strcmp(name, "/proc") == 0)
		atomic_fetch_add(&looks->processes, 1);
	return __real_opendir(name);
}

FILE *__wrap_setmntent(const char *file, const char *type)
{
	atomic_fetch_add(&looks->cgroups, 1);
	return __real_setmntent(file, type);
}

static const unsigned char lock_key[LEFTOVERS_KEY_SIZE] = "unit";
static const struct leftovers_users handler_users;	/* nobody: no process of this machine is a leftover */

/* ---- the master ---- */

static int index_of(const char *name)
{
	for (size_t i = 0; i < conf.nqueues; i++)
		if (strcmp(conf.queues[i]->name, name) == 0)
			return (int)i;
	return -1;
}

static _Noreturn void be_sweeper(int fd, int lives, bool after)
{
	int log = open(getenv("SWEEPER_LOG") != NULL ? getenv("SWEEPER_LOG") : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	sigset_t all;

	dup2(log, STDERR_FILENO);
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	redis_close(&server.r, NULL);
	log_process("sweeper");
	writes_to_live = lives;
	die_after_write = after;
	child.master_fd = fd;
	sweeper_run(&child);
}

static void start_dying(int lives, bool after)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
	child.master_pid = getpid();
	sweeper = fork();
	assert_int_not_equal(sweeper, -1);
	if (sweeper == 0) {
		close(fds[0]);
		be_sweeper(fds[1], lives, after);
	}
	close(fds[1]);
	master_fd = fds[0];
}

static void start(void)
{
	start_dying(0, false);
}

static int wait_end(int timeout_ms)
{
	int64_t until = clock_monotonic_ms() + timeout_ms;
	int status;

	while (waitpid(sweeper, &status, WNOHANG) == 0) {
		if (clock_monotonic_ms() >= until)
			fail_msg("the sweeper does not end");
		usleep(1000);
	}
	sweeper = 0;
	close(master_fd);
	master_fd = -1;
	return status;
}

static void order(enum order o)
{
	atomic_store(&board->orders[0], o);
	kill(sweeper, SIGTERM);
}

static void finish(void)
{
	order(ORDER_FINISH);
	assert_int_equal(wait_end(WAIT_MS), 0);
	atomic_store(&board->orders[0], ORDER_RUN);
}

static void kill9(void)
{
	kill(sweeper, SIGKILL);
	wait_end(WAIT_MS);
}

/* ---- waiting ---- */

#define WAIT_FOR(condition)                                                                        \
	for (int64_t until_ = clock_monotonic_ms() + WAIT_MS; !(condition); usleep(2000))          \
		if (clock_monotonic_ms() >= until_)                                                \
	fail_msg("waited in vain for %s", #condition)

static enum queue_gate gate(int queue)
{
	return (enum queue_gate)atomic_load(&board->queues[queue].gate);
}

static enum queue_trouble trouble(int queue)
{
	return (enum queue_trouble)atomic_load(&board->queues[queue].trouble);
}

static void tell_death(struct child_death death, const char *queue)
{
	snprintf(death.queue, sizeof(death.queue), "%s", queue);
	death.queue_index = index_of(queue);
	assert_int_equal(send(master_fd, &death, sizeof(death), 0), sizeof(death));
}

static void tell(uint64_t serial, int slot, uint64_t generation, const char *queue)
{
	tell_death((struct child_death){ .serial = serial, .slot = slot, .first_generation = 1, .generation = generation, .blame = BLAME_WORKER }, queue);
}

/* The serial of the next answer; 0: none within timeout_ms. */
static uint64_t told(int timeout_ms)
{
	struct pollfd p = { .fd = master_fd, .events = POLLIN };
	struct child_death_answer answer;

	if (poll(&p, 1, timeout_ms) != 1)
		return 0;
	assert_int_equal(recv(master_fd, &answer, sizeof(answer), 0), sizeof(answer));
	return answer.serial;
}

/* ---- Redis ---- */

static void add_process(const char *queue, const char *incarnation, const char *lock, int pid)
{
	char *json = queue_registration(lock, "n", pid, 1, 0, false), *key = alloc_format("transit:%s:workers", queue);

	REDIS(&server, "HSET %s %s %s", key, incarnation, json);
	free(json);
	free(key);
}

/* Each is a process of its own. */
static void add_worker(const char *queue, const char *incarnation, const char *lock)
{
	static int pid = 1000;

	add_process(queue, incarnation, lock, ++pid);
}

static void annotate(const char *incarnation, const char *key, const char *value)
{
	struct queue_keys k;
	struct queue_owner o;

	queue_keys_default(&k, "mail");
	queue_owner_init(&o, &k, incarnation, 1000);
	queue_annotate(&server.r, &o, key, value);
	assert_int_equal(private_redis_answer(&server).integer, 1);
	queue_owner_free(&o);
	queue_keys_free(&k);
}

/* raw begins with a wrapper, which counts in this queue. */
static void push_sealed(const char *list, const char *ingress, const char *raw)
{
	struct message_keys keys = sealed_keys(ingress);
	struct buffer b = {0};

	sealed_append(&b, &keys, raw, strlen(raw));
	REDIS(&server, "RPUSH %s %b", list, b.data, b.len);
	buffer_free(&b);
}

/* Parts of entry i of a list of the queue with this ingress. */
static struct message entry_of(const char *list, const char *ingress, int64_t i)
{
	static char raw[1 << 16];
	struct redis_reply reply = REDIS(&server, "LINDEX %s %d", list, i);
	struct message_keys keys = sealed_keys(ingress);
	struct message m;

	assert_int_equal(reply.type, REDIS_STRING);
	memcpy(raw, reply.str, reply.len);
	message_parse(&m, &keys, raw, reply.len);
	return m;
}

static struct message entry(const char *ingress, int64_t i)
{
	return entry_of(ingress, ingress, i);
}

static void assert_payload(const struct message *m, const char *payload)
{
	assert_int_equal(message_payload_len(m), strlen(payload));
	assert_memory_equal(message_payload(m), payload, strlen(payload));
}

static int64_t llen(const char *list)
{
	return REDIS_INT(&server, "LLEN %s", list);
}

static uint64_t swept(int queue, enum counter c)
{
	return atomic_load(&board->queues[queue].swept[c]);
}

/* ---- each test: an empty server, a new board ---- */

static char *handler[] = { (char *)"/bin/true", NULL };

static void make_queue(int i, const char *name)
{
	queues[i] = (struct conf_queue){ .headers = true, .message_max = 1 << 20, .name = alloc_string(name), .ingress = alloc_format("ingress:%s", name),
		.transit = alloc_format("transit:%s", name), .escape = alloc_format("escape:%s", name), .handler = handler,
		.recovery_attempts = 1, .dead_letter = { .enabled = true, .payload_max = 65536 },
		.purge = { .max_transit_age_ms = INT64_MAX, .max_ingress_age_ms = INT64_MAX, .max_message_age_ms = INT64_MAX } };
	queue_list_of[i] = &queues[i];
}

static int setup_all(void **state)
{
	(void)state;
	private_redis_start(&server, false);
	make_queue(0, "mail");
	make_queue(1, "news");
	make_queue(2, "later");
	conf.redis.url = server.url;
	conf.supervisor.node = (char *)"n";
	conf.queues = queue_list_of;
	return 0;
}

static int teardown_all(void **state)
{
	(void)state;
	private_redis_stop(&server);
	for (int i = 0; i < QUEUES; i++) {
		free(queues[i].name);
		free(queues[i].ingress);
		free(queues[i].transit);
		free(queues[i].escape);
	}
	return 0;
}

static int setup(void **state)
{
	(void)state;
	if (sweeper != 0)
		kill9();	/* a test before failed */
	looks = mmap(NULL, sizeof(*looks), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(looks, MAP_FAILED);
	board = scoreboard_new();
	conf.nqueues = 1;
	conf.redis.allow_eviction = false;
	conf.health.enabled = conf.purge.enabled = false;
	conf.purge.interval_ms = 60000;
	conf.redis.user = conf.redis.password = NULL;
	conf.supervisor.lease_ms = 30000;
	child = (struct child){ .conf = &conf, .board = board, .slot = 0, .queue_index_of = index_of, .boot = BOOT,
		.lock_identity = LOCK, .lock_key = lock_key, .handler_users = &handler_users };
	REDIS(&server, "FLUSHALL");
	REDIS(&server, "CONFIG SET maxmemory-policy noeviction");
	REDIS(&server, "CONFIG SET maxmemory 0");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (sweeper != 0)
		kill9();
	scoreboard_free(board);
	return 0;
}

/* ---- start ---- */

static void an_empty_queue_opens_and_nothing_is_left_behind(void **state)
{
	struct redis_reply keys;

	(void)state;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(trouble(0), TROUBLE_NONE);
	WAIT_FOR(REDIS(&server, "KEYS quredis:node:*").n == 1);
	finish();
	keys = REDIS(&server, "KEYS *");
	assert_int_equal(keys.n, 3);		/* and quredis:queues, quredis:secret */
	assert_string_equal(REDIS(&server, "GET quredis:queue:mail").str,
	    "{\"name\":\"mail\",\"ingress\":\"ingress:mail\",\"transit\":\"transit:mail\",\"escape\":\"escape:mail\"}");
}

static void the_bare_list_goes_back_in_its_order_and_uncharged(void **state)
{
	struct message m;

	(void)state;
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
static void those_of_a_shared_queue_go_back_as_they_were_pushed(void **state)
{
	struct redis_reply notes;

	(void)state;
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
	notes = REDIS(&server, "HVALS ingress:mail:notes");
	assert_int_equal(notes.n, 250);
	for (size_t i = 0; i < notes.n; i++)
		assert_string_equal(redis_element(&notes, i).str, "redelivered=1 outages=1 solo=1");
}

static void one_alone_is_charged_and_the_second_death_lets_it_escape(void **state)
{
	struct redis_reply record;
	struct message m;

	(void)state;
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
			assert_string_equal(value, "its worker died 2 times while the message was in work");
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
	atomic_store(&board->queues[0].gate, QUEUE_RECOVERING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	free(tray);
	return entry("ingress:mail", 0);
}

static void an_outage_sets_apart_and_charges_what_was_on_trial(void **state)
{
	struct message m;

	(void)state;
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

static void an_ordered_stop_charges_nobody(void **state)
{
	(void)state;
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
static void a_name_that_a_living_worker_left_is_rescued_at_once(void **state)
{
	struct message m;

	(void)state;
	add_process("mail", "n." OUR_BOOT ".7.1", LOCK, 77);
	add_process("mail", "n." OUR_BOOT ".7.2", LOCK, 77);
	add_process("mail", "n." OUR_BOOT ".7.3", LOCK, 77);
	REDIS(&server, "SET transit:mail:lease:n." OUR_BOOT ".7.1 1");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.1:0 old");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.2:0 running");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".7.3:0 own");
	atomic_store(&board->slots[7].pid, 77);
	atomic_store(&board->slots[7].abandoned, 2);	/* it still runs what it fetched as .7.2 */
	atomic_store(&board->queues[0].renamed, 1);
	start();
	WAIT_FOR(llen("ingress:mail") == 1);
	m = entry("ingress:mail", 0);
	assert_payload(&m, "old");
	assert_int_equal(m.wrapper.redelivered, 1);
	assert_int_equal(m.wrapper.crashes + m.wrapper.outages, 0);
	atomic_store(&board->slots[7].abandoned, 3);
	atomic_store(&board->queues[0].renamed, 2);
	WAIT_FOR(llen("ingress:mail") == 2);
	m = entry("ingress:mail", -1);
	assert_payload(&m, "running");
	assert_int_equal(m.wrapper.crashes + m.wrapper.outages, 0);
	finish();
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".7.3:0"), 1);
}

/* The same slot, but another process: the master has not reported the dead one yet. */
static void a_younger_process_of_the_slot_proves_nothing(void **state)
{
	(void)state;
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
	atomic_store(&board->queues[0].renamed, 1);
	start();
	WAIT_FOR(llen("ingress:mail") == 1);		/* all were looked at */
	assert_int_equal(llen("transit:mail:n." OUR_BOOT ".7.1:0"), 1);
	finish();
}

/* Anybody may register as many as he likes. */
static void many_dead_supervisors_are_looked_for_at_once(void **state)
{
	(void)state;
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

static void owners_under_another_lock_are_left_alone(void **state)
{
	(void)state;
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

static void a_successor_leaves_bare_list_and_gate_alone(void **state)
{
	(void)state;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	kill9();
	REDIS(&server, "LPUSH transit:mail foreign");
	atomic_store(&board->queues[0].swept[COUNT_DUE], 0);
	REDIS(&server, "ZADD ingress:mail:delayed 1 x");
	start();
	WAIT_FOR(swept(0, COUNT_DUE) == 1);
	assert_int_equal(gate(0), QUEUE_OPEN);
	finish();
	assert_int_equal(llen("transit:mail"), 1);
	/* the next master begins anew */
	atomic_store(&board->queues[0].gate, QUEUE_RECOVERING);
	atomic_store(&board->queues[0].recovered, RECOVERED_NOTHING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(llen("transit:mail"), 0);
	finish();
}

static void their_time_stays_known(void **state)
{
	struct message m;

	(void)state;
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

/* ---- reported deaths ---- */

static void a_reported_death_is_answered_when_its_trays_are_empty(void **state)
{
	struct message m;

	(void)state;
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
static void each_death_in_a_slot_charges_its_own_message(void **state)
{
	struct message m;

	(void)state;
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

static void deaths_in_queues_that_left_the_configuration(void **state)
{
	(void)state;
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

static void deaths_known_at_the_order_are_still_seen_to(void **state)
{
	(void)state;
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
	atomic_store(&board->orders[0], ORDER_RUN);
}

static void the_end_of_the_master_ends_it(void **state)
{
	(void)state;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	shutdown(master_fd, SHUT_RDWR);
	assert_int_equal(wait_end(WAIT_MS), 0);
}

/* ---- retries and pauses ---- */

static void what_is_due_queues_and_what_is_not_waits(void **state)
{
	int64_t now = clock_realtime_ms();

	(void)state;
	conf.nqueues = 2;
	for (int i = 0; i < 250; i++) {
		redis_appendf(&server.r, "ZADD ingress:mail:delayed %d %d", (int64_t)1000 + i, (int64_t)i);
		private_redis_answer(&server);
	}
	REDIS(&server, "ZADD ingress:mail:delayed %d tomorrow", now + 86400000);
	REDIS(&server, "ZADD ingress:news:delayed %d soon", now + 1500);
	start();
	WAIT_FOR(swept(0, COUNT_DUE) == 250);
	assert_int_equal(llen("ingress:mail"), 250);
	assert_string_equal(REDIS(&server, "LINDEX ingress:mail -1").str, "0");
	assert_int_equal(REDIS_INT(&server, "ZCARD ingress:mail:delayed"), 1);
	WAIT_FOR(swept(1, COUNT_DUE) == 1);
	finish();
}

static void a_pause_flag_shuts_and_opens_the_gate(void **state)
{
	(void)state;
	REDIS(&server, "SET ingress:mail:paused 1");
	start();
	WAIT_FOR(gate(0) == QUEUE_PAUSED);
	REDIS(&server, "DEL ingress:mail:paused");
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	REDIS(&server, "SET ingress:mail:paused 1");
	WAIT_FOR(gate(0) == QUEUE_PAUSED);
	finish();
}

/* ---- a server that is not to be trusted ---- */

static void an_evicting_server_is_refused_until_it_is_mended(void **state)
{
	(void)state;
	REDIS(&server, "CONFIG SET maxmemory-policy allkeys-lru");
	REDIS(&server, "LPUSH transit:mail x");
	start();
	WAIT_FOR(gate(0) == QUEUE_REFUSED);
	assert_int_equal(trouble(0), TROUBLE_EVICTION);
	WAIT_FOR(llen("ingress:mail") == 1);		/* what was in work is brought home all the same */
	REDIS(&server, "CONFIG SET maxmemory-policy noeviction");
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	assert_int_equal(trouble(0), TROUBLE_NONE);
	finish();
	conf.redis.allow_eviction = true;
	REDIS(&server, "CONFIG SET maxmemory-policy volatile-ttl");
	atomic_store(&board->queues[0].gate, QUEUE_RECOVERING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
}

static void recovery_works_at_maxmemory(void **state)
{
	(void)state;
	REDIS(&server, "RPUSH transit:mail a b c");
	REDIS(&server, "ZADD ingress:mail:delayed 1 d");
	REDIS(&server, "CONFIG SET maxmemory 1");
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	WAIT_FOR(llen("ingress:mail") == 4);
	tell(3, 9, 1, "mail");
	assert_int_equal(told(WAIT_MS), 3);
	finish();
}

static void a_broken_queue_delays_no_other_and_heals(void **state)
{
	static const char *const broken[] = { "ingress:mail", "transit:mail", "escape:mail", "escape:mail:log",
		"ingress:mail:delayed", "transit:mail:workers" };

	(void)state;
	conf.nqueues = 2;
	for (size_t i = 0; i < sizeof(broken) / sizeof(broken[0]); i++) {
		REDIS(&server, "FLUSHALL");
		atomic_store(&board->queues[0].gate, QUEUE_RECOVERING);
		atomic_store(&board->queues[0].recovered, RECOVERED_NOTHING);
		atomic_store(&board->queues[1].gate, QUEUE_RECOVERING);
		atomic_store(&board->queues[1].recovered, RECOVERED_NOTHING);
		REDIS(&server, "SET %s x", broken[i]);
		REDIS(&server, "LPUSH transit:news a");
		start();
		WAIT_FOR(gate(1) == QUEUE_OPEN);
		WAIT_FOR(trouble(0) == TROUBLE_WRONG_TYPE);
		assert_int_equal(gate(0), QUEUE_RECOVERING);
		assert_int_equal(trouble(1), TROUBLE_NONE);
		assert_int_equal(llen("ingress:news"), 1);
		REDIS(&server, "DEL %s", broken[i]);
		WAIT_FOR(gate(0) == QUEUE_OPEN && trouble(0) == TROUBLE_NONE);
		finish();
	}
}

static void a_tray_of_another_type_holds_up_only_itself(void **state)
{
	(void)state;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	REDIS(&server, "SET transit:mail:n." OUR_BOOT ".5.1:1 x");
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".6.1:1 x");
	tell(1, 5, 1, "mail");
	tell(2, 6, 1, "mail");
	assert_int_equal(told(WAIT_MS), 2);
	WAIT_FOR(trouble(0) == TROUBLE_WRONG_TYPE);
	assert_int_equal(gate(0), QUEUE_OPEN);
	REDIS(&server, "DEL transit:mail:n." OUR_BOOT ".5.1:1");
	assert_int_equal(told(WAIT_MS), 1);
	WAIT_FOR(trouble(0) == TROUBLE_NONE);
	finish();
}

static void a_missing_right_shows_before_a_message_depends_on_it(void **state)
{
	static const char *const rights[] = { "lrem", "zadd", "xadd", "rename", "brpoplpush", "hset" };

	(void)state;
	conf.redis.user = (char *)"clerk";
	conf.redis.password = (char *)"pw";
	for (size_t i = 0; i < sizeof(rights) / sizeof(rights[0]); i++) {
		char *minus = alloc_format("-%s", rights[i]), *plus = alloc_format("+%s", rights[i]);

		REDIS(&server, "ACL SETUSER clerk on >pw ~* +@all %s", minus);
		atomic_store(&board->queues[0].gate, QUEUE_RECOVERING);
		atomic_store(&board->queues[0].recovered, RECOVERED_NOTHING);
		REDIS(&server, "RPUSH transit:mail a");
		start();
		WAIT_FOR(trouble(0) == TROUBLE_NO_PERMISSION);
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

static void a_queue_without_rights_delays_no_other(void **state)
{
	(void)state;
	conf.nqueues = 2;
	conf.redis.user = (char *)"clerk";
	conf.redis.password = (char *)"pw";
	REDIS(&server, "ACL SETUSER clerk on >pw resetkeys ~quredis:* ~*:news* +@all");
	start();
	WAIT_FOR(gate(1) == QUEUE_OPEN);
	WAIT_FOR(trouble(0) == TROUBLE_NO_PERMISSION);
	assert_int_equal(gate(0), QUEUE_RECOVERING);
	REDIS(&server, "ACL SETUSER clerk ~*");
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	REDIS(&server, "ACL DELUSER clerk");
}

static void a_server_that_hangs_or_restarts(void **state)
{
	(void)state;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	private_redis_restart(&server);
	WAIT_FOR(trouble(0) == TROUBLE_NONE && atomic_load(&board->slots[0].redis_down) == 0);
	REDIS(&server, "LPUSH transit:mail:n." OUR_BOOT ".5.1:0 x");
	tell(1, 5, 1, "mail");
	assert_int_equal(told(WAIT_MS), 1);
	assert_int_equal(llen("ingress:mail"), 1);

	kill(server.pid, SIGSTOP);
	WAIT_FOR(trouble(0) == TROUBLE_NO_REDIS);
	tell(2, 5, 2, "mail");
	kill(server.pid, SIGCONT);
	assert_int_equal(told(WAIT_MS), 2);

	kill(server.pid, SIGSTOP);
	order(ORDER_FINISH);
	assert_int_equal(wait_end(WAIT_MS), 0);
	kill(server.pid, SIGCONT);
	atomic_store(&board->orders[0], ORDER_RUN);
	private_redis_connect(&server);
}

/* Errors that are no queue's own: the connection is given up, and opened again until the server is mended. */
static void what_concerns_the_server_is_no_queues_trouble(void **state)
{
	(void)state;
	conf.nqueues = 2;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN && gate(1) == QUEUE_OPEN);
	REDIS(&server, "SCRIPT FLUSH");
	REDIS(&server, "ZADD ingress:mail:delayed 1 x");
	WAIT_FOR(swept(0, COUNT_DUE) == 1);

	REDIS(&server, "ZADD ingress:mail:delayed 1 y");
	REDIS(&server, "CONFIG SET min-replicas-to-write 1");
	WAIT_FOR(atomic_load(&board->slots[0].redis_down) == 1);
	assert_int_equal(trouble(0), TROUBLE_NO_REDIS);
	assert_int_equal(trouble(1), TROUBLE_NO_REDIS);
	REDIS(&server, "CONFIG SET min-replicas-to-write 0");
	WAIT_FOR(swept(0, COUNT_DUE) == 2);
	WAIT_FOR(trouble(0) == TROUBLE_NONE && trouble(1) == TROUBLE_NONE);
	finish();
}

/* ---- owners nobody reports ---- */

static void an_owner_without_lease_is_dead_after_two_looks(void **state)
{
	struct message m;

	(void)state;
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

static void the_dead_are_forgotten_after_an_hour_when_nothing_is_left(void **state)
{
	int64_t now = clock_realtime_ms();

	(void)state;
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

static void an_owner_is_given_its_own_lease(void **state)
{
	char *patient = queue_registration("another:lock", "n", 1, 1, 2000, false), *endless = queue_registration("another:lock", "n", 1, 1, INT64_MAX, false);
	int64_t since;

	(void)state;
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

static void a_rescue_that_was_broken_off_goes_on(void **state)
{
	struct message m;

	(void)state;
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

static void the_registry_is_enough_for_a_rescue(void **state)
{
	struct message m;

	(void)state;
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
static void a_long_registry(void **state)
{
	int64_t since, rounds;

	(void)state;
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

static void the_registry_is_filled_again(void **state)
{
	(void)state;
	conf.supervisor.lease_ms = 400;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	REDIS(&server, "FLUSHALL");
	WAIT_FOR(REDIS_INT(&server, "EXISTS quredis:queues quredis:queue:mail") == 2);
	finish();
	conf.supervisor.lease_ms = 3600000;		/* then a new connection, which may be to an empty server, is the reason */
	atomic_store(&board->queues[0].gate, QUEUE_RECOVERING);
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	private_redis_restart(&server);
	WAIT_FOR(REDIS_INT(&server, "EXISTS quredis:queues quredis:queue:mail") == 2);
	finish();
}

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
	REDIS(&server, "ZADD ingress:mail:delayed 1 due");
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
	assert_int_equal(REDIS_INT(&server, "ZCARD ingress:mail:delayed"), 0);
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

static void killed_at_every_write_and_started_again(void **state)
{
	(void)state;
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
			WAIT_FOR(gate(0) == QUEUE_OPEN && REDIS_INT(&server, "ZCARD ingress:mail:delayed") == 0);
			WAIT_FOR(REDIS_INT(&server, "EXISTS transit:mail:rescue transit:mail") == 0);
			finish();
			assert_all_home();
			assert_nothing_left();
		}
		assert_true(write > 20);
		assert_all_home();
	}
}

/* ---- whose the periodic work is ---- */

static bool has_lead(const char *who)
{
	struct redis_reply holder = REDIS(&server, "GET ingress:mail:sweeper");

	return holder.type == REDIS_STRING && strcmp(holder.str, who) == 0;
}

static void a_queue_without_periodic_work_has_no_lead(void **state)
{
	(void)state;
	start();
	WAIT_FOR(gate(0) == QUEUE_OPEN);
	finish();
	assert_int_equal(REDIS_INT(&server, "EXISTS ingress:mail:sweeper"), 0);
}

static void one_of_two_hosts_has_the_periodic_work(void **state)
{
	(void)state;
	queues[0].ttl_ms = 60000;
	conf.supervisor.lease_ms = 1000;
	start();
	WAIT_FOR(has_lead("n." OUR_BOOT));
	REDIS(&server, "SET ingress:mail:sweeper other.00000000000000c0 PX 1500");
	WAIT_FOR(REDIS_INT(&server, "PTTL ingress:mail:sweeper") < 500);
	assert_true(has_lead("other.00000000000000c0"));	/* asked for more than once meanwhile */
	WAIT_FOR(has_lead("n." OUR_BOOT));
	kill9();
	REDIS(&server, "PEXPIRE ingress:mail:sweeper 600000");
	start();				/* of the same name: it need not wait */
	WAIT_FOR(REDIS_INT(&server, "PTTL ingress:mail:sweeper") <= 1000);
	finish();
	assert_int_equal(REDIS_INT(&server, "EXISTS ingress:mail:sweeper"), 0);
	queues[0].ttl_ms = 0;
}

static void the_lead_of_another_is_not_given_up(void **state)
{
	(void)state;
	queues[0].ttl_ms = 60000;
	REDIS(&server, "SET ingress:mail:sweeper other.00000000000000c0 PX 600000");
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

static void who_wants_ages_has_times(void **state)
{
	bool *const wants[] = { &conf.health.enabled, &conf.purge.enabled };

	(void)state;
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
	WAIT_FOR(gate(0) == QUEUE_OPEN && REDIS_INT(&server, "EXISTS ingress:mail:delayed transit:mail:rescue transit:mail") == 0);
	if (killed)
		finish();
	return killed;
}

static void redis_killed_at_every_write(void **state)
{
	int write = 1;

	(void)state;
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

/* ---- size ---- */

static void a_hundred_thousand_in_the_bare_list(void **state)
{
	struct message m;

	(void)state;
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

static void megabytes_do_not_pile_up(void **state)
{
	char *big = alloc_zero(1, 1 << 20);
	int64_t before;

	(void)state;
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

static void an_idle_queue_costs_two_commands_a_second_at_most(void **state)
{
	int64_t since, ms;
	long long before, after;

	(void)state;
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

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(an_empty_queue_opens_and_nothing_is_left_behind),
		T(the_bare_list_goes_back_in_its_order_and_uncharged),
		T(one_alone_is_charged_and_the_second_death_lets_it_escape),
		T(those_of_a_shared_queue_go_back_as_they_were_pushed),
		T(an_outage_sets_apart_and_charges_what_was_on_trial),
		T(an_ordered_stop_charges_nobody),
		T(a_name_that_a_living_worker_left_is_rescued_at_once),
		T(a_younger_process_of_the_slot_proves_nothing),
		T(many_dead_supervisors_are_looked_for_at_once),
		T(owners_under_another_lock_are_left_alone),
		T(a_successor_leaves_bare_list_and_gate_alone),
		T(their_time_stays_known),
		T(a_reported_death_is_answered_when_its_trays_are_empty),
		T(each_death_in_a_slot_charges_its_own_message),
		T(deaths_in_queues_that_left_the_configuration),
		T(deaths_known_at_the_order_are_still_seen_to),
		T(the_end_of_the_master_ends_it),
		T(what_is_due_queues_and_what_is_not_waits),
		T(a_pause_flag_shuts_and_opens_the_gate),
		T(an_evicting_server_is_refused_until_it_is_mended),
		T(recovery_works_at_maxmemory),
		T(a_broken_queue_delays_no_other_and_heals),
		T(a_tray_of_another_type_holds_up_only_itself),
		T(a_missing_right_shows_before_a_message_depends_on_it),
		T(a_queue_without_rights_delays_no_other),
		T(a_server_that_hangs_or_restarts),
		T(what_concerns_the_server_is_no_queues_trouble),
		T(an_owner_without_lease_is_dead_after_two_looks),
		T(the_dead_are_forgotten_after_an_hour_when_nothing_is_left),
		T(a_queue_without_periodic_work_has_no_lead),
		T(one_of_two_hosts_has_the_periodic_work),
		T(who_wants_ages_has_times),
		T(the_lead_of_another_is_not_given_up),
		T(an_owner_is_given_its_own_lease),
		T(a_rescue_that_was_broken_off_goes_on),
		T(the_registry_is_enough_for_a_rescue),
		T(a_long_registry),
		T(the_registry_is_filled_again),
		T(killed_at_every_write_and_started_again),
		T(redis_killed_at_every_write),
		T(a_hundred_thousand_in_the_bare_list),
		T(megabytes_do_not_pile_up),
		T(an_idle_queue_costs_two_commands_a_second_at_most),
	};

	return cmocka_run_group_tests(tests, setup_all, teardown_all);
}
