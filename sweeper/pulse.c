/*
 * A pulse is a write by the sweeper. If Redis accepts it, other hosts could renew their leases at that moment, too. Its answers also
 * say which server it is and what its clock shows. After a pulse the sweeper looks for owners without a lease (watch.c); common/dead.c
 * decides from pulses and looks whether such an owner is dead.
 */
#include "sweeper/sweeper.h"

#include "common/clock.h"
#include "common/queue_watch.h"

static void break_calm(struct sweeper *s, enum doubt why)
{
	struct swept *q;

	s->pulse = (struct pulse){0};
	TAILQ_FOREACH(q, &s->queues, entry)
		for (size_t i = 0; i < q->nabsences; i++)
			calm_broken(&q->absences[i].calm, why);
}

static bool is_anybody_missed(const struct sweeper *s)
{
	const struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		if (q->nabsences > 0)
			return true;
	return false;
}

static void pass_on_pulse(struct sweeper *s)
{
	struct swept *q;

	TAILQ_FOREACH(q, &s->queues, entry)
		for (size_t i = 0; i < q->nabsences; i++)
			calm_pulse(&q->absences[i].calm, &s->pulse, q->absences[i].lease_ms);
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

/*
 * Redis restarted or was promoted, or another server answers. It may be in a state from before our start, in which the bare
 * list held messages, or scratch keys of a rehearsal were there: as at the start. The looks find messages in trays.
 */
static void notice_server(struct sweeper *s, const struct redis_identity *now)
{
	struct swept *q;

	if (!redis_identity_known(now) || redis_identity_same(&s->server_seen, now))
		return;
	if (redis_identity_known(&s->server_seen)) {
		log_info("redis_changed", log_str("run_id", now->run_id), log_str("replid", now->replid));
		TAILQ_FOREACH(q, &s->queues, entry)
			recover_changed(q);
	}
	s->server_seen = *now;
}

int pulse_send(struct sweeper *s)
{
	int64_t n, sent_ms = clock_boottime_ms();
	struct pulse p = { .connection = s->redis.connection };
	struct redis_reply reply;

	queue_pulse(&s->redis, s->conf->supervisor.node);
	if (connection_integer(s, &n) == -1 || connection_answer(s, &reply) == -1) {
		if (s->redis.state != REDIS_CLOSED)
			break_calm(s, DOUBT_REFUSED);
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
		break_calm(s, DOUBT_CLOCK);
		return 0;
	}
	s->pulse = p;
	pass_on_pulse(s);
	return 0;
}

/*
 * Sends a pulse every second turn and looks at the owners after it; if Redis refuses the pulse it does not look. In the turns
 * between, it sends one only if a look has missed an owner, since the pulses must be at most half a lease apart.
 */
static bool run_pulse(struct sweeper *s, int budget, int64_t now_ms)
{
	bool looks = ++s->pulses % 2 == 0;

	(void)budget;
	(void)now_ms;
	if ((looks || is_anybody_missed(s)) && pulse_send(s) == 0 && looks)
		watch_round(s);
	return false;
}

const struct task pulse_task = { .name = "pulse", .per_lease = 4, .budget = 1, .run = run_pulse };
