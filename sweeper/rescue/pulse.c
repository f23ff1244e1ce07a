/*
 * A pulse is a write by the sweeper. If Redis accepts it, other hosts could renew their leases at that moment, too. Its
 * answers also say which server it is and what its clock shows. After a pulse the sweeper looks for owners without a
 * lease (watch.c); common/queue/dead.c decides from pulses and looks whether such an owner is dead.
 */
#include "sweeper/rescue/pulse.h"

#include "sweeper/core/core.h"
#include "sweeper/rescue/recover.h"
#include "sweeper/rescue/watch.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

extern const struct task pulse_task;

/* The own state of the task. */
struct pulses {
	struct pulse last;		/* on this connection; zeroed if it was refused */
	struct redis_identity server;	/* that took the last pulse whose answer named it */
	unsigned due;			/* so far */
};

static struct pulses *pulses_of(const struct sweeper *s)
{
	return task_own(s, &pulse_task);
}

const struct pulse *pulse_last(const struct sweeper *s)
{
	return &pulses_of(s)->last;
}

static void refuse_pulse(struct sweeper *s, enum doubt why)
{
	pulses_of(s)->last = (struct pulse){0};
	watch_break_calm(s, why);
}

/* Leaves id zeroed if the server hides INFO. -1: the connection is lost. */
static int read_identity(struct sweeper *s, struct redis_identity *id)
{
	struct redis_reply reply;

	for (int i = 0; i < QUEUE_IDENTITY_INFOS && s->redis.state != REDIS_CLOSED; i++)
		if (connection_answer(s, &reply) == 0 && reply.type == REDIS_STRING)
			redis_identity_read(id, reply.str, reply.len);
	return s->redis.state == REDIS_CLOSED ? -1 : 0;
}

static void recover_queue(struct sweeper *s, struct sweeper_queue *q, void *unused)
{
	(void)s;
	(void)unused;
	recover_changed(q);
}

/*
 * Redis restarted or was promoted, or another server answers. Its state may be from before our start: the bare list may
 * hold messages, and scratch keys of a rehearsal may exist. So the sweeper recovers both as at the start. The looks
 * find messages in trays.
 */
static void notice_server(struct sweeper *s, const struct redis_identity *now)
{
	struct redis_identity *before = &pulses_of(s)->server;

	if (!redis_identity_known(now) || redis_identity_same(before, now))
		return;
	if (redis_identity_known(before)) {
		log_info("redis_changed", log_str("run_id", now->run_id), log_str("replid", now->replid));
		sweeper_queues_each(s, recover_queue, NULL);
	}
	*before = *now;
}

/*
 * Also the first request on each connection, so that the sweeper knows the server before it looks there. -1: refused
 * (s->connection.error), or the connection is lost
 */
static int send_pulse(struct sweeper *s)
{
	int64_t n, sent_ms = clock_boottime_ms();
	struct pulse p = { .connection = s->redis.connection };
	struct redis_reply reply;

	queue_pulse(&s->redis, s->conf->supervisor.node);
	if (connection_integer(s, &n) == -1 || connection_answer(s, &reply) == -1) {
		if (s->redis.state != REDIS_CLOSED)
			refuse_pulse(s, DOUBT_REFUSED);
		return -1;
	}
	p.server_ms = queue_time_parse(&reply);
	p.boottime_ms = clock_boottime_ms();
	if (p.server_ms != -1)
		clock_learn(s, p.server_ms, sent_ms);
	if (read_identity(s, &p.server) == -1)
		return -1;
	notice_server(s, &p.server);
	if (p.server_ms == -1) {	/* without a clock no owner can be proven dead */
		refuse_pulse(s, DOUBT_CLOCK);
		return 0;
	}
	pulses_of(s)->last = p;
	watch_pulse(s, &p);
	return 0;
}

/*
 * Sends a pulse every second turn and looks at the owners after it; if Redis refuses the pulse it does not look. In the
 * turns between, it sends one only if a look has missed an owner, since the pulses must be at most half a lease apart.
 */
static bool run_pulse(struct sweeper *s, int budget, int64_t now_ms)
{
	bool looks = ++pulses_of(s)->due % 2 == 0;

	(void)budget;
	if ((looks || watch_misses_owners(s)) && send_pulse(s) == 0 && looks)
		watch_round(s, now_ms);
	return false;
}

const struct task pulse_task = { .name = "pulse", .per_lease = 4, .budget = 1, .unsealed = true, .run = run_pulse,
	.connected = send_pulse,
	.own_size = sizeof(struct pulses) };
