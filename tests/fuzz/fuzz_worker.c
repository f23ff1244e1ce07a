/* links: tests/fuzz/input.c tests/fuzz/fake_time.c tests/fuzz/fake_redis.c tests/fuzz/fake_answers.c tests/fuzz/fake_process.c tests/fuzz/fake_handler.c tests/fuzz/conf_text.c worker/ common/ */
/* except: worker/worker.c common/handler.c common/handler_process.c */
/* ldflags: -Wl,--wrap=clock_monotonic_ms -Wl,--wrap=clock_monotonic_us -Wl,--wrap=clock_boottime_ms -Wl,--wrap=clock_realtime_ms -Wl,--wrap=arc4random -Wl,--wrap=arc4random_buf -Wl,--wrap=ppoll -Wl,--wrap=exit */
/* ldflags: -Wl,--wrap=redisConnectUnixNonBlock -Wl,--wrap=redisConnectNonBlock -Wl,--wrap=redisFree -Wl,--wrap=redisBufferRead -Wl,--wrap=redisBufferWrite */
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

#include "common/log.h"
#include "common/nitems.h"
#include "common/queue_notes.h"
#include "tests/fuzz/conf_text.h"
#include "tests/fuzz/fake_answers.h"
#include "tests/fuzz/fake_handler.h"
#include "tests/fuzz/fake_process.h"
#include "tests/fuzz/fake_redis.h"
#include "tests/fuzz/fake_time.h"

/* The loop's own steps are static there. */
#include "worker/worker.c"

#define TURNS_MAX 3000
#define LAST_TURNS 400		/* to leave in */

static const char conf_file[] =
    "redis = { url = \"unix:///fake\"; };\n"
    "supervisor = { node = \"n\"; };\n"
    "queues = ("
    " { name = \"plain\"; handler = [\"/bin/true\"]; max_attempts = 3; breaker = { failures = 3; }; batch = { max = 8; }; },"
    " { name = \"batches\"; handler = [\"/bin/true\"]; batch = { max = 1000; time = \"1m\"; }; exit_codes = { done = [0, 3]; }; },"
    " { name = \"stays\"; handler = [\"/bin/true\"]; mode = \"persistent\"; window = 8; max_attempts = 2; },"
    " { name = \"stays1\"; handler = [\"/bin/true\"]; mode = \"persistent\"; reply_fd = 4; recycle = { jobs = 5; }; dead_letter = { enabled = false; }; },"
    " { name = \"fenced\"; handler = [\"/bin/true\"]; fence = \"kill\"; kill_grace = \"1s\"; timeout = \"10s\"; },"
    " { name = \"fenced2\"; handler = [\"/bin/true\"]; fence = \"kill\"; kill_grace = \"1s\"; mode = \"persistent\"; window = 4; timeout = \"10s\"; },"
    " { name = \"shared\"; handler = [\"/bin/true\"]; shared = true; done = { keep = 10; }; batch = { max = 1000; time = \"1m\"; }; },"
    " { name = \"shared2\"; handler = [\"/bin/true\"]; shared = true; mode = \"persistent\"; window = 8; fence = \"kill\"; kill_grace = \"1s\"; timeout = \"10s\"; } );";

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

/* ---- the server ---- */

static int tray_named(const char *key)
{
	for (int i = 0; worker->owner.keys != NULL && i < QUEUE_TRAYS; i++)
		if (strcmp(worker->owner.trays[i], key) == 0)
			return i;
	return -1;
}

/* A tray is deleted only when every message in it was done, or has left it. */
static void check_delete(const char *key)
{
	int i = tray_named(key);
	const struct tray *t = &worker->trays[i < 0 ? 0 : i];

	if (i == -1)
		return;		/* of an incarnation before: the name is nobody's now */
	FUZZ_ASSERT(t->state == TRAY_DELETING);
	FUZZ_ASSERT(t->count[ITEM_DONE] > 0 && t->count[ITEM_DONE] + t->count[ITEM_GONE] == t->n);
}

static bool is_done(const struct tray *t, const char *sha1)
{
	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];
		struct queue_note note;
		struct message m;

		if (item->state != ITEM_DONE && (item->state != ITEM_MOVING || item->move != MOVE_DONE))
			continue;
		message_parse(&m, tray_raw(t, item), item->len);
		queue_note_of(&note, &m, NULL);
		if (strcmp(note.field, sha1) == 0)
			return true;
	}
	return false;
}

/* The script, too; and what it forgets is of messages that it acknowledges. */
static void check_done(const struct fake_command *c)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10), n = strtoul(c->argv[args + 5], NULL, 10);
	int i = tray_named(c->argv[3]);

	if (strcmp(c->argv[args], "0") == 0)
		check_delete(c->argv[3]);
	for (size_t k = 0; i != -1 && k < n && args + 6 + k < c->argc; k++)
		FUZZ_ASSERT(is_done(&worker->trays[i], c->argv[args + 6 + k]));
}

/* Others get what was pushed: the message less what was before it, if there was anything. */
static void check_hand_back(const struct fake_command *c)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10);
	struct message m;

	message_parse(&m, c->argv[args + 1], c->len[args + 1]);
	FUZZ_ASSERT(c->len[args + 2] == m.raw_len - m.wrapper_len);
	FUZZ_ASSERT(memcmp(c->argv[args + 2], m.raw + m.wrapper_len, c->len[args + 2]) == 0);
}

static void check_script(const struct fake_command *c)
{
	bool shared = worker->conf->shared;

	if (c->script == NULL)
		return;
	if (strcmp(c->script, "done") == 0)
		check_done(c);
	if (shared && strcmp(c->script, "hand_back") == 0)
		check_hand_back(c);
	FUZZ_ASSERT(!shared || strcmp(c->script, "retry") != 0);
}

/* What it believes to be in a tray: newest first. variant: less the newest, or with more than it knows of. */
static void list_tray(const struct tray *t, struct buffer *out, unsigned variant)
{
	unsigned there = (unsigned)(t->n - t->count[ITEM_GONE]), more = variant >= 0x10 ? variant & 0xf : 0;
	unsigned less = variant < 0x10 ? variant : 0;

	if (variant == 0x1f)
		more = 1001;
	less = less > there ? there : less;
	fake_array(out, there - less + more);
	while (more-- > 0)
		fake_message(out);
	for (int i = t->n - 1; i >= 0; i--)
		if (t->items[i].state != ITEM_GONE && (less == 0 || less-- == 0))
			fake_string(out, tray_raw(t, &t->items[i]), t->items[i].len);
}

static bool answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	int i;

	if (fake_redis_is(c, "DEL"))
		check_delete(c->argv[1]);
	check_script(c);
	if (!fake_redis_is(c, "LRANGE"))
		return false;
	i = tray_named(c->argv[1]);
	if (i == -1)
		fake_array(out, 0);
	else
		list_tray(&worker->trays[i], out, variant);
	return true;
}

/* ---- what must hold between two turns ---- */

static void check_tray(const struct tray *t)
{
	int count[ITEM_STATES] = {0}, solos = 0;

	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];

		count[item->state]++;
		solos += item->state == ITEM_WAITING && item->solo;
		FUZZ_ASSERT(item->at + item->len < t->bytes.len && t->bytes.data[item->at + item->len] == '\0');
		FUZZ_ASSERT(!item->lost || item->state == ITEM_RUNNING || item->state == ITEM_GONE);
		FUZZ_ASSERT(i >= t->next || item->state != ITEM_WAITING);
		FUZZ_ASSERT(!item->refused || item->state == ITEM_MOVING);
		FUZZ_ASSERT(item->state != ITEM_MOVING || item->move == MOVE_DONE || item->move == MOVE_HAND_BACK || item->outcome != NULL);
	}
	FUZZ_ASSERT(memcmp(count, t->count, sizeof(count)) == 0 && solos == t->solos);
	FUZZ_ASSERT(t->n <= BATCH_MAX && t->asked <= BATCH_MAX);
	FUZZ_ASSERT(t->state == TRAY_FETCHING ? t->answered < t->asked : t->asked == 0 && t->answered == 0);
	FUZZ_ASSERT(t->state != TRAY_EMPTY || t->n == 0);
	FUZZ_ASSERT(t->state != TRAY_FETCHING || count[ITEM_WAITING] == t->n);
	FUZZ_ASSERT(t->state != TRAY_FILLED || count[ITEM_GONE] < t->n);
	FUZZ_ASSERT(t->state != TRAY_DELETING || (count[ITEM_DONE] > 0 && count[ITEM_DONE] + count[ITEM_GONE] == t->n));
	FUZZ_ASSERT(t->notes == NOTES_KNOWN || (worker->conf->shared && count[ITEM_RUNNING] + count[ITEM_DONE] == 0));
}

static int refusals(const struct worker *w)
{
	int n = 0;

	for (int i = 0; i < QUEUE_TRAYS; i++) {
		n += w->trays[i].refused;
		for (int k = 0; k < w->trays[i].n; k++)
			n += w->trays[i].items[k].refused;
	}
	return n;
}

static int running(const struct worker *w)
{
	int n = 0;

	if (w->conf->mode == CONF_MODE_EXEC) {
		if (w->running.tray != -1)
			FUZZ_ASSERT(w->trays[w->running.tray].items[w->running.item].state == ITEM_RUNNING);
		return w->running.tray != -1;
	}
	for (unsigned i = 0; i < w->given_size; i++)
		if (w->given[i].tray != -1) {
			FUZZ_ASSERT(w->trays[w->given[i].tray].items[w->given[i].item].state == ITEM_RUNNING);
			n++;
		}
	FUZZ_ASSERT(n == persistent_unanswered(w->persistent));
	return n;
}

static void check(struct worker *w)
{
	for (int i = 0; i < QUEUE_TRAYS; i++)
		check_tray(&w->trays[i]);
	FUZZ_ASSERT(tray_count(w, ITEM_RUNNING) == running(w));
	FUZZ_ASSERT(refusals(w) == w->refusals && (w->refusals == 0 || w->move_errors > 0));
	FUZZ_ASSERT(w->expect_next - w->expect_first <= ANSWERS_MAX);
	if (w->redis.state == REDIS_READY)
		FUZZ_ASSERT((unsigned)w->redis.pending == w->expect_next - w->expect_first);
	else
		FUZZ_ASSERT(w->expect_next == w->expect_first && !w->registered);
	FUZZ_ASSERT(w->batch >= 1 && w->batch <= w->conf->batch.max);
	FUZZ_ASSERT(!w->solo_running || tray_count(w, ITEM_RUNNING) == 1);
	fake_redis_check(&w->redis);
}

/* ---- turns ---- */

static void raise_order(enum order order)
{
	enum order now = (enum order)atomic_load(&board->orders[1]);

	if (order > now || (order == ORDER_RUN && now == ORDER_QUIET))
		atomic_store(&board->orders[1], order);
}

static void event(struct worker *w)
{
	uint8_t b = input_byte(input);

	switch (b & 0xf) {
	case 0:
		raise_order((enum order)(b >> 4) % (ORDER_HAND_BACK + 1));
		break;
	case 1:
		atomic_store(&w->board->gate, (uint32_t)(b >> 4) % 4);
		break;
	case 2:
		fake_time_pass_ms(input_time_ms(input));
		break;
	case 3:
		fake_time_sleep_ms(input_time_ms(input));
		break;
	case 4:
		if (b > 0xf0)
			w->master_gone = true;
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		if (w->conf->mode == CONF_MODE_EXEC)
			fake_handler_act();
		else
			fake_process_act(input, w->next_serial - 1);
		break;
	default:
		break;
	}
}

/* With fence = "kill" nothing runs when its lease may have run out. */
static void check_fence(const struct worker *w, int64_t boottime_ms)
{
	const struct fake_process *p = fake_process_look();

	if (w->conf->fence != CONF_FENCE_KILL || boottime_ms < w->lease_until_ms)
		return;
	FUZZ_ASSERT(w->conf->mode == CONF_MODE_EXEC ? !fake_handler_runs() : !p->started || p->ended || persistent_unanswered(w->persistent) == 0);
}

/* True: it has left. */
static bool one_turn(struct worker *w, const sigset_t *mask)
{
	int64_t now_ms, boottime_ms = clock_boottime_ms();

	w->now_us = clock_monotonic_us();
	now_ms = w->now_us / 1000;
	turn(w, now_ms);
	check(w);
	check_fence(w, boottime_ms);
	if (w->left || gives_up(w, now_ms))
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
	atomic_store(&board->orders[1], ORDER_HAND_BACK);
	for (int i = 0; !left; i++) {
		FUZZ_ASSERT(i < LAST_TURNS);
		left = one_turn(w, &mask);
		fake_time_pass_ms(100);	/* kill_grace, and as long again for what does not die */
	}
	FUZZ_ASSERT(!w->clean || tray_all_empty(w));
}

static void reset_board(size_t queue)
{
	memset((void *)&board->slots[1], 0, sizeof(board->slots[1]));
	memset((void *)&board->queues[queue], 0, sizeof(board->queues[queue]));
	atomic_store(&board->queues[queue].gate, QUEUE_OPEN);
	atomic_store(&board->orders[1], ORDER_RUN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct fake_redis_target target = { .answer = answer };
	struct input in = { data, size };
	size_t queue = input_byte(&in) % conf->nqueues;
	const struct child child = { .conf = conf, .queue = conf->queues[queue], .board = board, .slot = 1, .queue_index = (int)queue,
		.master_fd = -1, .boot = 0xb0, .lock_identity = "boot:1:2" };

	input = &in;
	fake_time_begin();
	fake_redis_begin(&in, &target);
	fake_handler_begin(&in);
	fake_process_begin();
	reset_board(queue);
	worker = alloc_zero(1, sizeof(*worker));
	worker_init(worker, &child);
	if (setjmp(exited) == 0)
		run(worker);
	worker->runner->free(worker);
	tray_free_all(worker);
	session_free(worker);
	queue_keys_free(&worker->keys);
	free(worker);
	worker = NULL;
	fake_redis_end();
	fake_process_finish();
	return 0;
}
