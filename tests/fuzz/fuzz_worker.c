/* links: tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_redis.c tests/fuzz/fake_answers.c tests/fuzz/fake_values.c tests/fuzz/script_move.c tests/fuzz/worker_server.c tests/fuzz/fake_process.c tests/fuzz/fake_handler.c tests/fuzz/conf_text.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf -Wl,--wrap=ppoll -Wl,--wrap=exit */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisConnectNonBlock -Wl,--wrap=redisFree -Wl,--wrap=redisBufferRead -Wl,--wrap=redis_output_write */
/*
 * A whole worker, turn by turn, whose server, handler, master and time are the input. What it believes stays
 * true in itself; it removes no message from Redis whose handler did not end well or whose move it did not
 * choose; fenced, nothing runs beyond its lease; and told to go, it goes. In a shared queue nothing starts before what lies
 * beside it is known, and nothing of quredis's goes back before a message.
 */
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "tests/fuzz/input.h"

#include "common/log/log.h"
#include "common/base/nitems.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/fake_answers.h"
#include "tests/fuzz/fake_handler.h"
#include "tests/fuzz/fake_process.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_time.h"
#include "tests/fuzz/worker_server.h"

/* The loop's own steps are static there. */
#include "worker/worker.c"

#define TURNS_MAX 3000
#define LAST_TURNS 400		/* to leave in */
#define TRAY_ITEMS_MAX (2 * BATCH_MAX)	/* with those that have left it */

static const char conf_file[] =
    "redis = { url = \"unix:///fake\"; };\n"
    "supervisor = { node = \"n\"; };\n"
    "queues = ("
    " { name = \"plain\"; handler = [\"/bin/true\"]; max_attempts = 3; breaker = { failures = 3; }; batch = { max = 8; }; message_max = \"64K\"; },"
    " { name = \"batches\"; handler = [\"/bin/true\"]; batch = { max = 1000; time = \"1m\"; }; exit_codes = { done = [0, 3]; }; },"
    " { name = \"stays\"; handler = [\"/bin/true\"]; mode = \"persistent\"; window = 8; max_attempts = 2; message_max = \"1K\"; },"
    " { name = \"stays1\"; handler = [\"/bin/true\"]; mode = \"persistent\"; reply_fd = 4; recycle = { jobs = 5; }; dead_letter = { enabled = false; }; },"
    " { name = \"fenced\"; handler = [\"/bin/true\"]; fence = \"kill\"; kill_grace = \"1s\"; timeout = \"10s\"; },"
    " { name = \"fenced2\"; handler = [\"/bin/true\"]; fence = \"kill\"; kill_grace = \"1s\"; mode = \"persistent\"; window = 4; timeout = \"10s\"; },"
    " { name = \"shared\"; handler = [\"/bin/true\"]; shared = true; done = { keep = 10; }; batch = { max = 1000; time = \"1m\"; }; },"
    " { name = \"shared2\"; handler = [\"/bin/true\"]; shared = true; mode = \"persistent\"; window = 8; fence = "
    "\"kill\"; kill_grace = \"1s\"; timeout = \"10s\"; } );";

static struct conf *conf;
static struct scoreboard *board;
static struct input *input;
static struct worker *worker;
static jmp_buf exited;

_Noreturn void __real_exit(int status);
_Noreturn void __wrap_exit(int status);

/* Its process would be gone here. */
void __wrap_exit(int status)
{
	if (worker == NULL)
		__real_exit(status);	/* the fuzzer's own end */
	FUZZ_ASSERT(status == CHILD_EXIT_UNSETTLED);
	longjmp(exited, 1);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	signal(SIGPIPE, SIG_IGN);
	conf = conf_text_load(conf_file);
	FUZZ_ASSERT((board = scoreboard_new()) != NULL);
	FUZZ_ASSERT(log_open(FUZZ_LOG, LOG_FORMAT_LOGFMT, LOG_LEVEL_DEBUG) == 0);
	return 0;
}

/* ---- what must hold between two turns ---- */

static void check_tray(const struct tray *t)
{
	int count[ITEM_STATES] = {0}, solos = 0, lost = 0;

	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];

		count[item->state]++;
		solos += item->state == ITEM_WAITING && item->solo;
		lost += item->lost && item->state != ITEM_GONE;
		FUZZ_ASSERT(item->kept != NULL || (item->at + item->len < t->bytes.len && t->bytes.data[item->at + item->len] == '\0'));
		FUZZ_ASSERT(!item->lost || item->state == ITEM_RUNNING || item->state == ITEM_GONE);
		FUZZ_ASSERT(i >= t->next || item->state != ITEM_WAITING);
		FUZZ_ASSERT(!item->refused || item->state == ITEM_MOVING);
		FUZZ_ASSERT(item->state != ITEM_MOVING || item->move == MOVE_DONE || item->move == MOVE_HAND_BACK || item->outcome != NULL);
	}
	FUZZ_ASSERT(memcmp(count, t->count, sizeof(count)) == 0 && solos == t->solos);
	FUZZ_ASSERT(t->n - count[ITEM_GONE] - lost <= BATCH_MAX && t->n <= TRAY_ITEMS_MAX && t->asked <= BATCH_MAX);
	FUZZ_ASSERT(t->state == TRAY_FETCHING ? t->answered < t->asked : t->asked == 0 && t->answered == 0);
	FUZZ_ASSERT(t->state != TRAY_EMPTY || t->n == 0);
	FUZZ_ASSERT(t->state != TRAY_FETCHING || count[ITEM_WAITING] == t->n);
	FUZZ_ASSERT(t->state != TRAY_FILLED || count[ITEM_GONE] < t->n);
	FUZZ_ASSERT(t->state != TRAY_DELETING || (count[ITEM_DONE] > 0 && count[ITEM_DONE] + count[ITEM_GONE] == t->n));
	FUZZ_ASSERT(t->notes == NOTES_KNOWN || worker->env->conf->shared);
}

/* A tray at the last look, if its notes were not known then. */
static struct glance {
	bool unknown;
	uint64_t serial;
	int n;
	bool waiting[TRAY_ITEMS_MAX];
} glances[QUEUE_TRAYS];

/* While it is not known what lies beside the messages of a tray none of them is started. */
static void check_unknown(const struct tray *t, struct glance *before)
{
	bool unknown = t->notes != NOTES_KNOWN;

	for (int i = 0; unknown && before->unknown && before->serial == t->serial && i < before->n; i++)
		FUZZ_ASSERT(!before->waiting[i] || (t->items[i].state != ITEM_RUNNING && t->items[i].state != ITEM_DONE));
	before->unknown = unknown;
	before->serial = t->serial;
	before->n = t->n;
	for (int i = 0; unknown && i < t->n; i++)
		before->waiting[i] = t->items[i].state == ITEM_WAITING;
}

static int refusals(const struct worker *w)
{
	int n = 0;

	for (int i = 0; i < QUEUE_TRAYS; i++) {
		n += w->trays.tray[i].refused;
		for (int k = 0; k < w->trays.tray[i].n; k++)
			n += w->trays.tray[i].items[k].refused;
	}
	return n;
}

static int running(const struct worker *w)
{
	int n = 0;

	if (w->env->conf->mode == CONF_MODE_EXEC) {
		if (w->exec.running.tray != -1)
			FUZZ_ASSERT(w->trays.tray[w->exec.running.tray].items[w->exec.running.item].state == ITEM_RUNNING);
		return w->exec.running.tray != -1;
	}
	for (unsigned i = 0; i < w->persistent.given_size; i++)
		if (w->persistent.given[i].place.tray != -1) {
			FUZZ_ASSERT(w->trays.tray[w->persistent.given[i].place.tray].items[w->persistent.given[i].place.item].state == ITEM_RUNNING);
			n++;
		}
	FUZZ_ASSERT(n == persistent_unanswered(w->persistent.process));
	return n;
}

static void check(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		check_tray(&w->trays.tray[i]);
	for (int i = 0; i < QUEUE_TRAYS; i++)
		check_unknown(&w->trays.tray[i], &glances[i]);
	FUZZ_ASSERT(tray_count(&w->trays, ITEM_RUNNING) == running(w));
	FUZZ_ASSERT(refusals(w) == w->trays.refusals && (w->trays.refusals == 0 || w->mover.retry.errors > 0));
	FUZZ_ASSERT(w->session.answers.next - w->session.answers.first <= ANSWERS_MAX);
	if (w->session.redis.state == REDIS_READY)
		FUZZ_ASSERT((unsigned)w->session.redis.pending == w->session.answers.next - w->session.answers.first);
	else
		FUZZ_ASSERT(w->session.answers.next == w->session.answers.first && !w->session.registered);
	FUZZ_ASSERT(w->pacing.batch >= 1 && w->pacing.batch <= w->env->conf->batch.max);
	FUZZ_ASSERT(!w->starter.solo_running || tray_count(&w->trays, ITEM_RUNNING) == 1);
	fake_redis_check(&w->session.redis);
}

/* ---- turns ---- */

static void raise_order(enum order order)
{
	enum order now = (enum order)atomic_load(&board->master.orders[1]);

	if (order > now || (order == ORDER_RUN && now == ORDER_QUIET))
		atomic_store(&board->master.orders[1], order);
}

static void event(struct worker *w)
{
	uint8_t b = input_byte(input);

	switch (b & 0xf) {
	case 0:
		raise_order((enum order)(b >> 4) % (ORDER_HAND_BACK + 1));
		break;
	case 1:
		atomic_store(&w->env->board->sweeper.gate, (uint32_t)(b >> 4) % 4);
		break;
	case 2:
		fake_time_pass_ms(input_time_ms(input));
		break;
	case 3:
		fake_time_sleep_ms(input_time_ms(input));
		break;
	case 4:
		if (b > 0xf0)
			exit_master_gone(&w->exit);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		if (w->env->conf->mode == CONF_MODE_EXEC)
			fake_handler_act();
		else
			fake_process_act(input);
		break;
	default:
		break;
	}
}

/* With fence = "kill" nothing runs when its lease may have run out. */
static void check_fence(const struct worker *w, int64_t boottime_ms)
{
	const struct fake_process *p = fake_process_look();

	if (w->env->conf->fence != CONF_FENCE_KILL || boottime_ms < w->session.lease.until_ms)
		return;
	FUZZ_ASSERT(w->env->conf->mode == CONF_MODE_EXEC ? !fake_handler_runs() : !p->started || p->ended || persistent_unanswered(w->persistent.process) == 0);
}

/* True: it has left. */
static bool one_turn(struct worker *w, const sigset_t *mask)
{
	int64_t now_ms, boottime_ms = clock_boottime_ms();

	w->now_us = clock_monotonic_us();
	now_ms = w->now_us / 1000;
	run_turn(w, now_ms);
	check(w);
	check_fence(w, boottime_ms);
	if (w->exit.left || exit_gives_up(w, now_ms))
		return true;
	FUZZ_ASSERT(next_deadline_ms(w, now_ms) <= now_ms + LOOK_MS);
	wait_for_events(w, mask, now_ms);
	return false;
}

static void run(struct worker *w)
{
	sigset_t mask;
	bool left = false;

	sigprocmask(SIG_SETMASK, NULL, &mask);
	for (int i = 0; i < TURNS_MAX && input->left > 0 && !left; i++) {
		event(w);
		left = one_turn(w, &mask);
	}
	input->left = 0;
	atomic_store(&board->master.orders[1], ORDER_HAND_BACK);
	for (int i = 0; !left; i++) {
		FUZZ_ASSERT(i < LAST_TURNS);
		left = one_turn(w, &mask);
		fake_time_pass_ms(100);	/* kill_grace, and as long again for what does not die */
	}
	FUZZ_ASSERT(!w->exit.clean || tray_all_empty(&w->trays));
}

static void reset_board(size_t queue)
{
	memset((void *)&board->slots[1], 0, sizeof(board->slots[1]));
	memset((void *)&board->queues[queue], 0, sizeof(board->queues[queue]));
	atomic_store(&board->queues[queue].sweeper.gate, QUEUE_OPEN);
	atomic_store(&board->master.orders[1], ORDER_RUN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_redis_target target = { .answer = worker_server_answer };
	struct input in = { data, size };
	struct env *env;
	size_t queue = input_byte(&in) % conf->nqueues;
	const struct child child = { .conf = conf, .queue = conf->queues[queue], .board = board, .slot = 1, .queue_index = (int)queue,
		.master_fd = -1, .boot = 0xb0, .lock_identity = "boot:1:2" };

	fake_ingress = conf->queues[queue]->ingress;
	input = &in;
	fake_time_begin();
	fake_redis_begin(&in, &target);
	fake_handler_begin(&in);
	fake_process_begin();
	reset_board(queue);
	memset(glances, 0, sizeof(glances));
	env = env_new(&child);
	worker = alloc_zero(1, sizeof(*worker));
	worker_server_begin(worker);
	worker_init(worker, env);
	if (setjmp(exited) == 0)
		run(worker);
	worker_free(worker);
	env_free(env);
	worker = NULL;
	fake_redis_end();
	fake_process_finish();
	return 0;
}
