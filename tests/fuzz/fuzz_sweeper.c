/* links: tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_redis.c tests/fuzz/fake_answers.c tests/fuzz/fake_registry.c tests/fuzz/conf_text.c sweeper/ common/ */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf -Wl,--wrap=ppoll -Wl,--wrap=exit -Wl,--wrap=getppid -Wl,--wrap=process_kill_incarnation -Wl,--wrap=rescue_add */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisConnectNonBlock -Wl,--wrap=redisFree -Wl,--wrap=redisBufferRead -Wl,--wrap=redisBufferWrite */
/*
 * A whole sweeper whose server, master and time are the input: registrations, messages of the dead, records, INFO
 * and clocks of any kind. It judges no living owner of its own master dead before its time, kills only handlers
 * of a supervisor by its full name, puts nothing before what it returns to a shared queue, and ends when its master has.
 */
#include <sys/socket.h>
#include <sys/types.h>

#include <inttypes.h>
#include <setjmp.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "tests/fuzz/input.h"

#include "common/child.h"
#include "common/log.h"
#include "common/message.h"
#include "common/nitems.h"
#include "common/process.h"
#include "common/queue.h"
#include "sweeper/rescue.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_registry.h"
#include "tests/fuzz/fake_time.h"

#define BOOT UINT64_C(0xb0)
#define MASTER 4711
#define SLOTS 4			/* of workers in this play */
#define POLLS_MAX 2000
#define PATIENCE_MS 120000	/* an owner of our own master is not judged by its lease before */

static const char conf_file[] =
    "redis = { url = \"unix:///fake\"; };\n"
    "supervisor = { node = \"n\"; lease = \"10s\"; };\n"
    "queues = ("
    " { name = \"plain\"; handler = [\"/bin/true\"]; },"
    " { name = \"other\"; handler = [\"/bin/true\"]; recovery_attempts = 0; shared = true; dead_letter = { enabled = false; }; } );";

static struct conf *conf;
static struct scoreboard *board;
static struct input *input;
static jmp_buf exited;
static bool sweeping;
static int master_fd = -1;	/* ours: the other end is the sweeper's */
static unsigned polls;
static uint64_t deaths;
static bool reported[SLOTS];

_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status);
pid_t __wrap_getppid(void);
int __wrap_process_kill_incarnation(const char *prefix, int64_t timeout_ms);
struct rescue *__real_rescue_add(struct swept *q, const char *incarnation, const char *why, bool charge, bool gate);
struct rescue *__wrap_rescue_add(struct swept *q, const char *incarnation, const char *why, bool charge, bool gate);

/* ---- the machine around it ---- */

void __wrap_exit(int status)
{
	if (!sweeping)
		__real_exit(status);
	FUZZ_ASSERT(status == CHILD_EXIT_DONE);
	longjmp(exited, 1);
}

pid_t __wrap_getppid(void)
{
	return input->left > 0 && polls < POLLS_MAX ? MASTER : 1;
}

/* "<node>.<boot>.": less would name handlers of others. */
int __wrap_process_kill_incarnation(const char *prefix, int64_t timeout_ms)
{
	size_t len = strlen(prefix);

	FUZZ_ASSERT(timeout_ms > 0 && len > 18 && prefix[len - 1] == '.' && prefix[len - 18] == '.');
	FUZZ_ASSERT(strspn(prefix + len - 17, "0123456789abcdef") == 16);
	FUZZ_ASSERT(strncmp(prefix + len - 17, FAKE_OUR_BOOT, 16) != 0);
	switch (input_byte(input) >> 6) {
	case 3:
		fake_time_pass_ms(timeout_ms);
		return -1;
	case 2:
		return 3;
	default:
		return 0;
	}
}

static int index_of(const char *name)
{
	for (size_t i = 0; i < conf->nqueues; i++)
		if (strcmp(conf->queues[i]->name, name) == 0)
			return (int)i;
	return -1;
}

/* ---- the master ---- */

static void report_death(void)
{
	static const char *const queues[] = { "plain", "other", "left", "", "a-name-of-sixty-four-bytes-which-is-as-long-as-any-of-them-can-be" };
	struct child_death d = { .serial = ++deaths, .generation = input_below(input, 4), .slot = 1 + (int32_t)input_below(input, SLOTS),
		.queue_index = 0, .blameless = input_byte(input) & 1 };

	strlcpy(d.queue, queues[input_below(input, nitems(queues))], sizeof(d.queue));
	if (send(master_fd, &d, sizeof(d), MSG_DONTWAIT) == (ssize_t)sizeof(d))
		reported[d.slot - 1] = true;
}

static void read_answers(void)
{
	struct child_death_answer a;

	while (recv(master_fd, &a, sizeof(a), MSG_DONTWAIT) == (ssize_t)sizeof(a))
		FUZZ_ASSERT(a.serial > 0 && a.serial <= deaths);
}

static void at_poll(void)
{
	polls++;
	read_answers();
	switch (input_byte(input) >> 3) {
	case 0x1f:
		atomic_store(&board->orders[0], ORDER_FINISH);
		break;
	case 0x1e:
	case 0x1d:
		report_death();
		break;
	case 0x1c:
		fake_time_pass_ms(input_time_ms(input));
		break;
	case 0x1b:
		fake_time_sleep_ms(input_time_ms(input));
		break;
	case 0x1a:
		atomic_fetch_add(&board->slots[1].counters[input_below(input, COUNTERS)], 1);
		break;
	default:
		break;
	}
}

/* ---- the server ---- */

/* Others get what was pushed; what is known of it lies beside it, and that is never nothing. */
static void check_return(const struct fake_command *c)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10);
	struct message m;

	message_parse(&m, c->argv[args], c->len[args]);
	FUZZ_ASSERT(args == 7 && strcmp(c->argv[6], "ingress:other:notes") == 0 && strstr(c->argv[args + 3], "redelivered=") != NULL);
	FUZZ_ASSERT(c->len[args + 1] == m.raw_len - m.wrapper_len);
	FUZZ_ASSERT(memcmp(c->argv[args + 1], m.raw + m.wrapper_len, c->len[args + 1]) == 0);
}

static bool answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	if (c->script != NULL && strcmp(c->script, "return") == 0 && strcmp(c->argv[5], "ingress:other") == 0)
		check_return(c);
	return fake_registry_answer(input, c, out, variant);
}

/* ---- who is judged dead ---- */

/* By the master's word, by our lock if its master is another, or by its lease after all the time it must be given. */
struct rescue *__wrap_rescue_add(struct swept *q, const char *incarnation, const char *why, bool charge, bool gate)
{
	struct incarnation i = { .boot = 0 };
	bool ours = incarnation != NULL && incarnation_parse(&i, incarnation) == 0 && i.boot == BOOT && strcmp(i.node, "n") == 0;

	if (strcmp(why, "reported") == 0)
		FUZZ_ASSERT(ours && i.slot >= 1 && i.slot <= SLOTS && reported[i.slot - 1]);
	if (strcmp(why, "lock") == 0)
		FUZZ_ASSERT(incarnation != NULL && i.boot != BOOT);
	if (strcmp(why, "lease") == 0)
		FUZZ_ASSERT(!ours || fake_time_passed_ms() >= PATIENCE_MS);
	return __real_rescue_add(q, incarnation, why, charge, gate);
}

/* ---- one input ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	conf = conf_text_load(conf_file);
	conf->queues[0]->ttl_ms = 5000;		/* so that there is a lead to be taken */
	FUZZ_ASSERT((board = scoreboard_new()) != NULL);
	FUZZ_ASSERT(log_open(FUZZ_LOG, LOG_FORMAT_LOGFMT, LOG_LEVEL_DEBUG) == 0);
	return 0;
}

static void reset_board(uint8_t how)
{
	memset((void *)&board->slots[0], 0, 2 * sizeof(board->slots[0]));
	memset((void *)&board->queues[0], 0, 2 * sizeof(board->queues[0]));
	atomic_store(&board->orders[0], ORDER_RUN);
	/* One that another sweeper has recovered before. */
	if ((how & 1) != 0) {
		atomic_store(&board->queues[0].recovered, RECOVERED_ALL);
		atomic_store(&board->queues[0].gate, QUEUE_OPEN);
	}
	if ((how & 2) != 0)
		atomic_store(&board->queues[1].recovered, RECOVERED_BARE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_redis_target target = { .answer = answer, .poll = at_poll };
	struct input in = { data, size };
	int ends[2];
	struct child child = { .conf = conf, .board = board, .slot = 0, .queue_index_of = index_of, .boot = BOOT, .lock_identity = FAKE_LOCK,
		.master_pid = MASTER };

	FUZZ_ASSERT(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
	master_fd = ends[0];
	child.master_fd = ends[1];
	input = &in;
	polls = 0;
	deaths = 0;
	memset(reported, 0, sizeof(reported));
	fake_time_begin();
	fake_redis_begin(&in, &target);
	reset_board(input_byte(&in));
	sweeping = true;
	if (setjmp(exited) == 0)
		sweeper_run(&child);
	sweeping = false;
	close(ends[0]);
	close(ends[1]);
	fake_redis_end();
	return 0;
}
