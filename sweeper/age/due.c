/*
 * Moves retries that are due back to ingress, and sets the gates of paused queues.
 *
 * A look at a queue has up to five steps. Each step is one request for every queue that needs it, all in one write.
 * QUIET asks Redis whether the queue is paused, or has a delayed message, a cancel or an operation: one command a
 * second for an idle queue, and less while no worker settles anything. WHICH asks which of them it is; delayed pushes
 * of producers are the work of pushed.c. PAUSED asks who paused the queue: an operator, or a handler (HOLD), whose
 * pause has an end. At that moment the next look begins, so that the queue goes on in time. MOVE moves messages that
 * are due, and learns when the next one is: then the next look begins, if it is within a second. Redis cannot verify a
 * seal. So where the line of a message decides what MOVE does with it, GLANCE reads the delayed messages first, and
 * MOVE moves only messages that GLANCE has read: in a shared queue all that have a line, else those whose line says
 * that the payload is stored apart.
 *
 * Retries are fair against new messages. A retry that is moved stands before each message that is pushed later, so a
 * queue whose attempts all fail would fill ingress with retries, and new messages would wait for minutes. So retries
 * move only until as many messages wait in ingress as the workers of this host settle until the next look, twice over;
 * and where more wait already, half as many as these workers settle.
 */
#include <assert.h>

#include "sweeper/age/age.h"

#include "sweeper/core/core.h"
#include "sweeper/dead_letters/dead_letters.h"

#define EVERY_MS 1000
#define FAIR_MS 200		/* the next look at a queue in which retries had to stay */
#define LEAST_PER_WORKER 4	/* messages may wait in ingress for each worker, however slow it is */
/* the same if this host has no workers, and does not know how fast those of others are */
#define LEAST_ELSEWHERE 1000
/* on an idle queue, a pause or a message delayed by another host is noticed this late at most */
#define QUIET_LOOK_MS 4000

extern const struct task due_task;

struct due {
	enum { DUE_QUIET, DUE_WHICH, DUE_PAUSED, DUE_GLANCE, DUE_MOVE } step;
	int64_t look_at_ms;		/* CLOCK_MONOTONIC: the next QUIET, also while messages move */
	bool quiet;			/* nothing was delayed or paused at the last look */
	int64_t quiet_until_ms;		/* CLOCK_MONOTONIC of the next look while quiet */
	uint64_t settled_seen;		/* board->workers.done at the last look */
	/* redis.connection of the last request: steps continue on that connection only */
	int64_t connection;
	int64_t held_seen;		/* core_hold_seen() at the last request */
	int64_t delayed, waiting;	/* of WHICH, for the steps behind PAUSED: messages in delayed, and in ingress */
	bool wrong;			/* a key of those that the last look counted has the wrong type */
	struct redis_reply glanced;	/* the answer of GLANCE, */
	void *kept;			/* the reply that holds it; NULL: none */
	bool judged;			/* the last MOVE had it */
	int64_t since;			/* messages that the workers settled between the last two looks */
	uint64_t shared_until;		/* for age_take_share() */
	int64_t share;			/* retries that may still move in this look */
};

static struct due *due_of(const struct sweeper_queue *q)
{
	return task_state(q, &due_task);
}

static void drop_glanced(struct due *d)
{
	redis_let_go(d->kept);
	d->kept = NULL;
}

/* Begins with the first of the steps that move. */
static void begin_move(struct sweeper_queue *q)
{
	drop_glanced(due_of(q));
	due_of(q)->step = q->keys.shared ? DUE_GLANCE : DUE_MOVE;
}

void due_wake(struct sweeper_queue *q)
{
	due_of(q)->quiet = false;
	drop_glanced(due_of(q));
	due_of(q)->step = DUE_WHICH;
	task_wake_at(q, &due_task, 0);
}

/*
 * False: nothing was delayed or paused at the last look, and no worker has settled anything since, so a look every
 * QUIET_LOOK_MS is enough.
 */
static bool wants_look(struct sweeper_queue *q, int64_t now_ms)
{
	uint64_t settled = q->board == NULL ? 0 : atomic_load(&q->board->workers.done);
	struct due *d = due_of(q);

	if (d->quiet && settled == d->settled_seen && now_ms < d->quiet_until_ms)
		return false;
	d->since = d->settled_seen == 0 ? 0 : (int64_t)(settled - d->settled_seen);
	d->settled_seen = settled;
	d->quiet_until_ms = now_ms + QUIET_LOOK_MS;
	return true;
}

/* ---- requests ---- */

static void begin_look(struct sweeper *s, struct due *d, int64_t now_ms)
{
	if (d->connection != s->redis.connection) {	/* the answers of the old connection are lost */
		d->connection = s->redis.connection;
		d->step = DUE_QUIET;
		drop_glanced(d);
	}
	if (d->step != DUE_QUIET && d->kept == NULL && now_ms >= d->look_at_ms)
		d->step = DUE_QUIET;
	if (d->step == DUE_QUIET)
		d->look_at_ms = now_ms + EVERY_MS;
}

static bool ask_due(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	struct due *d = due_of(q);

	begin_look(s, d, now_ms);
	d->held_seen = core_hold_seen(q);
	switch (d->step) {
	case DUE_QUIET:
		if (!wants_look(q, now_ms))
			return false;
		queue_quiet(&s->redis, &q->keys);
		break;
	case DUE_WHICH:
		queue_poll(&s->redis, &q->keys);
		queue_cancels_count(&s->redis, &q->keys);
		queue_length(&s->redis, q->keys.ingress);
		queue_operations_exist(&s->redis, &q->keys);
		break;
	case DUE_PAUSED:
		queue_hold_look(&s->redis, &q->keys);
		break;
	case DUE_GLANCE:
		queue_glance_delayed(&s->redis, &q->keys, 0, budget - 1);
		break;
	case DUE_MOVE:
		assert(d->share > 0);
		d->judged = d->kept != NULL;
		queue_due(&s->redis, &q->keys, false, d->share < budget ? (int)d->share : budget,
		    d->judged ? &d->glanced : NULL);
		drop_glanced(d);
		break;
	}
	return true;
}

/* ---- answers ---- */

static enum task_end fail_look(struct sweeper_queue *q)
{
	due_of(q)->step = DUE_QUIET;
	return TASK_FAILED;
}

static void set_paused(struct sweeper *s, struct sweeper_queue *q, bool by_operator, int64_t held_until_ms,
    const struct queue_hold *hold)
{
	core_set_hold(s, q, due_of(q)->held_seen, held_until_ms, hold);
	sweeper_queue_set_paused(s, q, by_operator);
}

static enum task_end take_quiet(struct sweeper *s, struct sweeper_queue *q)
{
	struct due *d = due_of(q);
	int64_t n;

	d->quiet = false;
	if (connection_integer(s, &n) == -1)
		return fail_look(q);
	d->quiet = n == 0;
	if (d->quiet) {
		set_paused(s, q, false, 0, NULL);
		d->quiet = core_hold_seen(q) == 0;	/* the end of a hold that Redis does not know yet is near */
		sweeper_queue_set_cancels(s, q, 0);
		operations_seen(q, false);
	} else {
		d->step = DUE_WHICH;
	}
	return n == 0 ? TASK_DONE : TASK_ASK;
}

/* A key of the wrong type counts as absent. It is an error all the same, which this task shows at the end of a look. */
static enum task_end end_look(struct sweeper *s, struct sweeper_queue *q)
{
	if (!due_of(q)->wrong)
		return TASK_DONE;
	connection_set_error(s, QUEUE_ERROR_WRONG_TYPE,
	    "WRONGTYPE a key of delayed messages, the pause, cancels or ingress has the wrong type");
	return TASK_FAILED;
}

static int64_t least_waiting(const struct sweeper_queue *q)
{
	int64_t workers = q->board == NULL ? 0 : atomic_load(&q->board->master.wanted);

	return workers == 0 ? LEAST_ELSEWHERE : workers * LEAST_PER_WORKER;
}

/* waiting: in ingress. */
static void calculate_share(struct sweeper_queue *q, int64_t waiting)
{
	struct due *d = due_of(q);
	int64_t least = age_take_share(q, &d->shared_until, due_task.budget), full = least_waiting(q);

	if (full < 2 * d->since)
		full = 2 * d->since;
	d->share = full - waiting > least ? full - waiting : least;
}

/* A look ends with retries that are due, since their share has moved. If no worker settles anything, none of them is
 * urgent. */
static enum task_end end_share(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	if (due_of(q)->since > 0)
		task_wake_at(q, &due_task, now_ms + FAIR_MS);
	return end_look(s, q);
}

static enum task_end move_delayed(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	if (due_of(q)->delayed == 0)
		return end_look(s, q);
	calculate_share(q, due_of(q)->waiting);
	if (due_of(q)->share <= 0)
		return end_share(s, q, now_ms);
	begin_move(q);
	return TASK_ASK;
}

static enum task_end take_which(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	/* as queue_poll() and queue_cancels_count() answer; the length of ingress; queue_operations_exist() */
	int64_t n[6] = {0};
	bool failed = false;

	due_of(q)->step = DUE_QUIET;
	due_of(q)->wrong = false;
	for (size_t i = 0; i < nitems(n) && s->redis.state != REDIS_CLOSED; i++)
		if (connection_integer(s, &n[i]) == -1) {
			due_of(q)->wrong |= s->connection.error_kind == QUEUE_ERROR_WRONG_TYPE;
			failed |= s->connection.error_kind != QUEUE_ERROR_WRONG_TYPE;
		}
	if (failed || s->redis.state == REDIS_CLOSED)
		return TASK_FAILED;
	sweeper_queue_set_cancels(s, q, n[3]);
	if (n[2] > 0)
		pushed_wake(q);
	operations_seen(q, n[5] > 0);
	due_of(q)->delayed = n[0];
	due_of(q)->waiting = n[4];
	if (n[1] != 0) {
		due_of(q)->step = DUE_PAUSED;
		return TASK_ASK;
	}
	set_paused(s, q, false, 0, NULL);
	return move_delayed(s, q, now_ms);
}

/* A key that an operator wrote by hand with an expiry is a pause of that operator. */
static enum task_end take_paused(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct redis_reply text;
	struct queue_hold hold;
	bool paused = false, held = false, failed = connection_answer(s, &text) == -1;
	int64_t left, until;

	if (!failed) {		/* text is valid until the next answer is read */
		paused = text.type == REDIS_STRING && text.len > 0;
		held = paused && queue_hold_parse(&hold, text.str, text.len);
	}
	if (connection_integer(s, &left) == -1 || failed)
		return fail_look(q);
	until = clock_monotonic_ms() + left + QUEUE_HOLD_MARGIN_MS;	/* now_ms may be before the question */
	held = held && left >= 0;
	set_paused(s, q, paused && left != -2 && !held, held ? until : 0, held ? &hold : NULL);
	if (held && until < now_ms + EVERY_MS)
		task_wake_at(q, &due_task, until);
	due_of(q)->step = DUE_QUIET;
	return move_delayed(s, q, now_ms);
}

static enum task_end take_glanced(struct sweeper *s, struct sweeper_queue *q)
{
	struct due *d = due_of(q);

	if (connection_answer(s, &d->glanced) == -1)
		return fail_look(q);
	d->kept = redis_keep(&s->redis);
	d->step = DUE_MOVE;
	return TASK_ASK;
}

static void observe_lags(struct sweeper_queue *q, const struct redis_reply *reply)
{
	for (size_t i = 0; i < reply->n; i++) {
		int64_t late = redis_element(reply, i).integer;

		if (late >= 0)
			sweeper_queue_observe_lag(q, late);
	}
}

static enum task_end take_moved(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct queue_due_moved due;
	struct redis_reply reply;

	if (connection_answer(s, &reply) == -1)
		return fail_look(q);
	if (queue_due_moved(&reply, &due) == -1) {
		connection_unexpected(s);
		return fail_look(q);
	}
	observe_lags(q, &reply);
	if (due.lost > 0)
		log_error("delayed_payload_lost", log_str("queue", q->keys.name), log_int("messages", due.lost),
		    log_str("error",
		    "another client deleted a list that holds the payload of a large delayed message, so the rest of "
		    "that message was deleted, too"));
	sweeper_queue_count(q, COUNT_DUE, (uint64_t)due.moved);
	due_of(q)->step = DUE_QUIET;
	if (due.next_ms < EVERY_MS)
		task_wake_at(q, &due_task, age_next_look_ms(due.next_ms));
	if (due.moved + due.lost == 0 && (!due.unread || due_of(q)->judged))
		return end_look(s, q);
	due_of(q)->share -= due.moved;
	if (due_of(q)->share <= 0)
		return end_share(s, q, now_ms);
	begin_move(q);		/* there may be more: one step may carry fewer than the budget allows */
	if (due.moved + due.lost == 0)
		due_of(q)->step = DUE_GLANCE;
	return TASK_MORE;
}

static enum task_end take_due(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	switch (due_of(q)->step) {
	case DUE_QUIET:
		return take_quiet(s, q);
	case DUE_WHICH:
		return take_which(s, q, now_ms);
	case DUE_PAUSED:
		return take_paused(s, q, now_ms);
	case DUE_GLANCE:
		return take_glanced(s, q);
	case DUE_MOVE:
		break;
	}
	return take_moved(s, q, now_ms);
}

static void free_state(struct sweeper_queue *q)
{
	drop_glanced(due_of(q));
}

const struct task due_task = { .name = "due", .interval_ms = EVERY_MS, .budget = 100, .configured = true,
	.ask = ask_due, .take = take_due,
	.steady = true, .state_size = sizeof(struct due), .free = free_state };
