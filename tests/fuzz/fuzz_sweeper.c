/* links: tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_redis.c tests/fuzz/fake_answers.c tests/fuzz/fake_values.c tests/fuzz/fake_registry.c tests/fuzz/script_move.c tests/fuzz/conf_text.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf -Wl,--wrap=ppoll -Wl,--wrap=exit -Wl,--wrap=getppid -Wl,--wrap=leftovers_kill -Wl,--wrap=cgroup_kill -Wl,--wrap=rescue_add -Wl,--wrap=rescue_add_owner */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisConnectNonBlock -Wl,--wrap=redisFree -Wl,--wrap=redisBufferRead -Wl,--wrap=redis_output_write */
/*
 * A whole sweeper whose server, master and time are the input: registrations, messages of the dead, records, INFO
 * and clocks of any kind. It judges no living owner of its own master dead before its time, kills only handlers
 * of a supervisor by its full name, puts nothing before what it returns to a shared queue, and ends when its master has.
 */
#include <sys/socket.h>
#include <sys/types.h>

#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <bsd/string.h>

#include "tests/fuzz/input.h"

#include "common/base/cgroup.h"
#include "common/board/child.h"
#include "common/base/leftovers.h"
#include "common/log/log.h"
#include "common/base/nitems.h"
#include "common/queue/moves.h"
#include "sweeper/rescue/rescue.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_registry.h"
#include "tests/fuzz/fake_time.h"
#include "tests/fuzz/script_move.h"
#include "tests/unit/sealed.h"
#include "sweeper/sweeper.h"

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

static const unsigned char lock_key[LEFTOVERS_KEY_SIZE];
static const struct leftovers_users handler_users;	/* nobody: all of it is played */
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
int __wrap_leftovers_kill(struct leftovers *of, size_t n, const struct leftovers_users *users, int64_t timeout_ms);
void __wrap_cgroup_kill(struct cgroup_dead *of, size_t n, int64_t timeout_ms);
struct rescue *__real_rescue_add(struct sweeper_queue *q, const char *incarnation, const char *why, enum blame blame, bool gate);
struct rescue *__wrap_rescue_add(struct sweeper_queue *q, const char *incarnation, const char *why, enum blame blame, bool gate);
struct rescue *__real_rescue_add_owner(struct sweeper_queue *q, const struct queue_worker *who, const char *why, enum blame blame, bool gate);
struct rescue *__wrap_rescue_add_owner(struct sweeper_queue *q, const struct queue_worker *who, const char *why, enum blame blame, bool gate);

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

/* Never of our own boot. */
int __wrap_leftovers_kill(struct leftovers *of, size_t n, const struct leftovers_users *users, int64_t timeout_ms)
{
	char own[LEFTOVERS_TOKEN_SIZE];
	int rc = 0;

	leftovers_token(lock_key, BOOT, own);
	FUZZ_ASSERT(n > 0 && timeout_ms > 0 && users == &handler_users);
	for (size_t i = 0; i < n; i++) {
		FUZZ_ASSERT(strlen(of[i].token) == LEFTOVERS_TOKEN_SIZE - 1 && strcmp(of[i].token, own) != 0);
		of[i].killed = input_byte(input) >> 6;
		if (of[i].killed < 3)
			continue;
		of[i].breeding = input_byte(input) & 1;
		of[i].alive = of[i].nlisted = of[i].breeding ? 0 : 1;
		rc = -1;
	}
	if (rc == -1)
		fake_time_pass_ms(timeout_ms);
	return rc;
}

void __wrap_cgroup_kill(struct cgroup_dead *of, size_t n, int64_t timeout_ms)
{
	char token[LEFTOVERS_TOKEN_SIZE], own[CGROUP_NAME_SIZE];

	leftovers_token(lock_key, BOOT, token);
	cgroup_name(token, own);
	FUZZ_ASSERT(n > 0 && timeout_ms > 0);
	for (size_t i = 0; i < n; i++)
		FUZZ_ASSERT(strncmp(of[i].name, "quredis-", 8) == 0 && strcmp(of[i].name, own) != 0);
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
	struct child_death d = { .serial = ++deaths, .first_generation = 1, .generation = input_below(input, 4), .slot = 1 + (int32_t)input_below(input, SLOTS),
		.queue_index = 0, .blame = input_byte(input) % 3 };

	strlcpy(d.queue, queues[input_below(input, nitems(queues))], sizeof(d.queue));
	if (send(master_fd, &d, sizeof(d), MSG_DONTWAIT) == (ssize_t)sizeof(d))
		reported[d.slot - 1] = true;
}

static void read_answers(void)
{
	struct child_death_answer a;

	while (recv(master_fd, &a, sizeof(a), MSG_DONTWAIT) == (ssize_t)sizeof(a))
		FUZZ_ASSERT(a.serial == CHILD_GATE_OPENED || (a.serial > 0 && a.serial <= deaths));
}

static void at_poll(void)
{
	polls++;
	read_answers();
	switch (input_byte(input) >> 3) {
	case 0x1f:
		atomic_store(&board->master.orders[0], ORDER_FINISH);
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
static void check_return(const struct fake_command *c, const struct script_move *m)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10);
	bool shared = strcmp(c->argv[5], "ingress:other") == 0;

	FUZZ_ASSERT(m->by_place && m->at == 0);
	if (strcmp(c->argv[5], "ingress:plain") == 0)
		FUZZ_ASSERT(!m->noted && m->line_len > 0);
	if (!shared)
		return;
	FUZZ_ASSERT(m->noted && strcmp(c->argv[6], "quredis:of:ingress:other:notes") == 0 && strstr(c->argv[args + 7], "redelivered=") != NULL);
}

static bool answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	bool returns = c->script != NULL && strcmp(c->script, "return") == 0 && c->argc > 5;
	struct message_keys keys = sealed_keys(returns ? c->argv[5] : "");
	struct script_move m;

	if (script_move_read(c, returns ? &keys : NULL, &m) && returns)
		check_return(c, &m);
	return fake_registry_answer(input, c, out, variant);
}

/* ---- who is judged dead ---- */

/* By the master's word, by our lock if its master is another, or by its lease after all the time it must be given. */
static void check_death(const char *incarnation, const char *why, bool superseded)
{
	struct incarnation i = { .boot = 0 };
	bool ours = incarnation != NULL && incarnation_parse(&i, incarnation) == 0 && i.boot == BOOT && strcmp(i.node, "n") == 0;

	if (strcmp(why, "reported") == 0)
		FUZZ_ASSERT(ours && i.slot >= 1 && i.slot <= SLOTS && reported[i.slot - 1]);
	if (strcmp(why, "lock") == 0)
		FUZZ_ASSERT(incarnation != NULL && i.boot != BOOT);
	if (strcmp(why, "lease") == 0)
		FUZZ_ASSERT(!ours || superseded || fake_time_passed_ms() >= PATIENCE_MS);
	if (strcmp(why, "left") == 0)
		FUZZ_ASSERT(ours && superseded);
}

struct rescue *__wrap_rescue_add(struct sweeper_queue *q, const char *incarnation, const char *why, enum blame blame, bool gate)
{
	check_death(incarnation, why, false);
	return __real_rescue_add(q, incarnation, why, blame, gate);
}

struct rescue *__wrap_rescue_add_owner(struct sweeper_queue *q, const struct queue_worker *who, const char *why, enum blame blame, bool gate)
{
	check_death(who->incarnation, why, who->superseded);
	return __real_rescue_add_owner(q, who, why, blame, gate);
}

/* ---- one input ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN);		/* the sweeper ends all children of its process, libFuzzer's symbolizer, too */
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
	atomic_store(&board->master.orders[0], ORDER_RUN);
	/* One that another sweeper has recovered before. */
	if ((how & 1) != 0) {
		atomic_store(&board->queues[0].sweeper.recovered, RECOVERED_ALL);
		atomic_store(&board->queues[0].sweeper.gate, QUEUE_OPEN);
	}
	if ((how & 2) != 0)
		atomic_store(&board->queues[1].sweeper.recovered, RECOVERED_BARE);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_redis_target target = { .answer = answer, .poll = at_poll };
	struct input in = { data, size };
	int ends[2];
	struct child child = { .conf = conf, .board = board, .slot = 0, .queue_index_of = index_of, .boot = BOOT, .lock_identity = FAKE_LOCK,
		.lock_key = lock_key, .handler_users = &handler_users,
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
