/* ldflags: -Wl,--wrap=strcmp,--wrap=sweeper_goes_on,--wrap=sweeper_queue_use_workers */
/*
 * The sweeper finds one of many rescues, deaths and queues without a walk over all of them. The tests measure that by
 * the number of comparisons of names, where names are compared, and else by processor time.
 */
#include <sys/socket.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sweeper/core/core.h"
#include "sweeper/rescue/rescue.h"

#include "common/base/base.h"
#include "tests/unit/unit.h"

#define FEW 200
#define MANY (10 * FEW)
#define TIMES 20		/* n log n grows 14 times, n * n 100 times */
#define BOOT 0x1234u

extern const struct task deaths_task;

static struct sweeper s;
static struct child child;
static struct conf conf;
static struct sweeper_queue *mail;
static int sockets[2];			/* ours, the master's */
static size_t compared;			/* calls of strcmp() */
static size_t read_workers;		/* reads of the registrations */
static int nworkers;			/* that are registered: one for each generation from 1 on */

int __real_strcmp(const char *a, const char *b);
int __wrap_strcmp(const char *a, const char *b);
bool __wrap_sweeper_goes_on(struct sweeper *unused);
int __wrap_sweeper_queue_use_workers(struct sweeper *unused, struct sweeper_queue *q, use_workers *use, void *arg);

int __wrap_strcmp(const char *a, const char *b)
{
	compared++;
	return __real_strcmp(a, b);
}

bool __wrap_sweeper_goes_on(struct sweeper *unused)
{
	(void)unused;
	return true;
}

static void name_of(uint64_t generation, char out[INCARNATION_SIZE])
{
	struct incarnation i = { .boot = BOOT, .slot = 3, .generation = generation };

	strcpy(i.node, "web1");
	incarnation_format(&i, out);
}

int __wrap_sweeper_queue_use_workers(struct sweeper *sweeper, struct sweeper_queue *q, use_workers *use, void *arg)
{
	struct queue_worker *workers = alloc_zero((size_t)nworkers, sizeof(*workers));
	char (*names)[INCARNATION_SIZE] = alloc_zero((size_t)nworkers, sizeof(*names));
	int rc;

	read_workers++;
	for (int i = 0; i < nworkers; i++) {
		name_of((uint64_t)i + 1, names[i]);
		workers[i] = (struct queue_worker){ .incarnation = names[i], .lock = (char *)"", .node = (char *)"web1",
			.trial = (char *)"" };
	}
	rc = use(sweeper, q, NULL, workers, (size_t)nworkers, arg);
	free(names);
	free(workers);
	return rc;
}

static struct sweeper_queue *add_queue(const char *name)
{
	struct queue_keys keys;

	queue_keys_default(&keys, "", name);
	return sweeper_queue_add(&s, keys, NULL);
}

static void begin(void)
{
	static const struct task *table[2];

	table[0] = &rescue_task;
	table[1] = &deaths_task;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	conf = (struct conf){ .supervisor = { .node = (char *)"web1", .lease_ms = 30000 }, .redis = { .prefix = (char *)"" } };
	child = (struct child){ .boot = BOOT, .master_fd = sockets[0] };
	s = (struct sweeper){ .conf = &conf, .child = &child };
	s.redis.state = REDIS_READY;
	TAILQ_INIT(&s.queues);
	tasks_init(&s, table, 2);
	mail = add_queue("mail");
	read_workers = 0;
}

static void end(void)
{
	sweeper_queues_free(&s);
	tasks_free(&s);
	close(sockets[0]);
	close(sockets[1]);
}

static void assert_grows(size_t few, size_t many)
{
	if (many > TIMES * few)
		fail_msg("%zu comparisons for %d, %zu for %d", few, FEW, many, MANY);
}

static int64_t processor_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* Three tries, because other work on the machine makes processors slower. */
static void assert_costs_alike(int64_t (*cost)(int n), int few, int many)
{
	int64_t of_few, of_many;

	for (int tries = 0; tries < 3; tries++) {
		of_few = cost(few);
		of_many = cost(many);
		if (of_many <= TIMES / 2 * of_few + 20000)
			return;
	}
	fail_msg("%lld us for %d, %lld us for %d", (long long)of_few, few, (long long)of_many, many);
}

/* ---- deaths ---- */

/* The master reports n processes of one slot, each of which had one name. */
static void report(int n)
{
	for (int i = 0; i < n; i++) {
		uint64_t nth = (uint64_t)i + 1;
		struct child_death d = { .serial = nth, .first_generation = nth, .generation = nth, .slot = 3, .blame = BLAME_WORKER,
			.queue = "mail" };

		assert_int_equal(send(sockets[1], &d, sizeof(d), MSG_DONTWAIT), sizeof(d));
		deaths_task.each_turn(&s, 0);
	}
	nworkers = n;
}

static size_t comparisons_to_look_up(int n)
{
	begin();
	report(n);
	compared = 0;
	deaths_task.run(&s, deaths_task.budget, 0);
	assert_int_equal(read_workers, 1);
	assert_int_equal(rescues_of(mail)->begun, n);
	end();
	return compared;
}

TEST(deaths_of_a_queue_are_looked_up_together)
{
	size_t few = comparisons_to_look_up(FEW);

	assert_true(few >= FEW);
	assert_grows(few, comparisons_to_look_up(MANY));
}

static size_t comparisons_to_wait(int n)
{
	struct child_death_answer answer;

	begin();
	report(n);
	deaths_task.run(&s, deaths_task.budget, 0);
	compared = 0;
	deaths_task.run(&s, deaths_task.budget, 0);	/* each rescue is under way: no answer */
	assert_int_equal(recv(sockets[1], &answer, sizeof(answer), MSG_DONTWAIT), -1);
	end();
	return compared;
}

TEST(whether_a_death_is_dealt_with_is_found_without_a_walk)
{
	size_t few = comparisons_to_wait(FEW);

	assert_true(few >= FEW);
	assert_grows(few, comparisons_to_wait(MANY));
}

/* Of many reports that come again while n deaths are not answered. */
static int64_t cost_of_reports(int n)
{
	struct child_death last = { .serial = (uint64_t)n, .queue = "mail" };
	int64_t before;

	begin();
	report(n);
	before = processor_us();
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(send(sockets[1], &last, sizeof(last), MSG_DONTWAIT), sizeof(last));
		deaths_task.each_turn(&s, 0);
	}
	before = processor_us() - before;
	deaths_task.run(&s, deaths_task.budget, 0);
	assert_int_equal(rescues_of(mail)->begun, n);
	end();
	return before;
}

TEST(a_report_that_comes_again_is_found_without_a_walk)
{
	assert_costs_alike(cost_of_reports, FEW, 10 * MANY);
}

/* ---- the gate ---- */

/* Of 20,000 questions. No rescue is one that the gate waits for, so that a walk would not end early. */
static int64_t cost_of_gate(int n)
{
	char name[INCARNATION_SIZE];
	int64_t before, cost;

	begin();
	for (int i = 0; i < n; i++) {
		name_of((uint64_t)i + 1, name);
		rescue_add(mail, name, "lease", BLAME_WORKER, false);
	}
	before = processor_us();
	for (int i = 0; i < 20000; i++)
		assert_false(rescue_gates(mail));
	cost = processor_us() - before;
	rescue_add(mail, "", "bare", BLAME_NOBODY, true);
	assert_true(rescue_gates(mail));
	end();
	return cost;
}

TEST(whether_the_gate_waits_is_known_without_a_walk)
{
	assert_costs_alike(cost_of_gate, FEW, 5 * MANY);
}

/* ---- transit lists ---- */

/* Of the search for each of n lists, and for as many that no queue has. */
static size_t comparisons_for_transits(int n)
{
	char name[64];

	begin();
	for (int i = 0; i < n; i++) {
		snprintf(name, sizeof(name), "queue%d", i);
		add_queue(name);
	}
	compared = 0;
	for (int i = 0; i < 2 * n; i++) {
		snprintf(name, sizeof(name), "transit:queue%d", i);
		assert_int_equal(sweeper_queue_has_transit(&s, name), i < n);
	}
	end();
	return compared;
}

TEST(a_queue_with_a_transit_list_is_found_without_a_walk)
{
	size_t few = comparisons_for_transits(FEW);

	assert_true(few >= FEW);
	assert_grows(few, comparisons_for_transits(MANY));
}

UNIT_MAIN(NULL, NULL)
