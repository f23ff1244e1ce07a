/*
 * The lead of a queue. The sweepers of all hosts that serve a queue ask Redis for its lease
 * (`quredis:of:ingress:QUEUE:sweeper`), several times in the time of a lease; the sweeper that has it runs the tasks
 * with `leads`. Two leaders at once do no harm, since every step is a script that checks what it moves: they only do
 * the work twice. A queue that needs no such task has no lease. The name in the lease ends with the lock of the
 * supervisor, so that a supervisor that is started again takes over from the dead one at once (`lead.lua`).
 *
 * A sweeper counts its lease by its own clock from the moment at which it sent the request, so the lease ends here
 * before it ends in Redis. A new connection may lead to another server, which knows another leader: until that server
 * has answered, this sweeper does not lead.
 */
#include <inttypes.h>
#include <stdio.h>

#include "sweeper/core/core.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

struct lead {
	int64_t until_ms;		/* CLOCK_BOOTTIME: the end of our lease; 0: we have none */
	int64_t asked_ms;		/* CLOCK_BOOTTIME: the request under way */
	bool ours;			/* by the last answer, as logged */
	uint64_t term;			/* increases when it gets the lead without having had it until then */
};

static struct lead *lead_of(const struct sweeper_queue *q)
{
	return task_state(q, &lead_task);
}

uint64_t lead_term(const struct sweeper_queue *q)
{
	return lead_of(q)->term;
}

bool lead_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	bool recovers = seal_known()->n > 0;	/* without a secret it does not, and only reports need the lead */

	return q->conf != NULL && (q->recovered || !recovers) && tasks_need_lead(s, q);
}

bool lead_is_ours(const struct sweeper_queue *q)
{
	return clock_boottime_ms() < lead_of(q)->until_ms;
}

bool lead_was_ours(const struct sweeper_queue *q)
{
	return lead_of(q)->ours;
}

void lead_name(const struct sweeper *s, char out[LEAD_NAME_SIZE])
{
	snprintf(out, LEAD_NAME_SIZE, "%s.%016" PRIx64 " %s", s->conf->supervisor.node, s->child->boot,
	    s->child->lock_identity);
}

static bool ask_lead(struct sweeper *s, struct sweeper_queue *q, int budget, int64_t now_ms)
{
	char name[LEAD_NAME_SIZE];

	(void)budget;
	(void)now_ms;
	lead_name(s, name);
	lead_of(q)->asked_ms = clock_boottime_ms();
	queue_lead(&s->redis, &q->keys, name, s->conf->supervisor.lease_ms);
	return true;
}

static enum task_end take_lead(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	struct lead *l = lead_of(q);
	int64_t ours;

	(void)now_ms;
	if (connection_integer(s, &ours) == -1)
		return TASK_FAILED;
	l->term += ours == 1 && clock_boottime_ms() >= l->until_ms;	/* 0, too */
	l->until_ms = ours == 1 ? l->asked_ms + s->conf->supervisor.lease_ms : 0;
	if (l->ours != (ours == 1))
		log_info(ours == 1 ? "lead_taken" : "lead_lost", log_str("queue", q->keys.name));
	l->ours = ours == 1;
	sweeper_queue_publish_error(s, q);
	return TASK_DONE;
}

/* After a reload only the new sweeper leads, by the new configuration and under the same name. */
static bool is_wanted(const struct sweeper *s, const struct sweeper_queue *q)
{
	return sweeper_is_active(s) && lead_wanted(s, q);
}

static bool stop_leading(struct sweeper *s, struct sweeper_queue *q, int64_t now_ms)
{
	(void)s;
	(void)now_ms;
	lead_of(q)->until_ms = 0;
	return true;
}

static void doubt(struct sweeper *s, struct sweeper_queue *q, void *unused)
{
	(void)s;
	(void)unused;
	lead_of(q)->until_ms = 0;
	task_wake_at(q, &lead_task, 0);
}

static void disconnected(struct sweeper *s)
{
	sweeper_queues_each(s, doubt, NULL);
}

static void give_up(struct sweeper *s, struct sweeper_queue *q, void *unused)
{
	char name[LEAD_NAME_SIZE];

	(void)unused;
	lead_name(s, name);
	if (lead_is_ours(q))
		queue_lead(&s->redis, &q->keys, name, 0);
}

/* Gives up the leads, so that the next leader need not wait for the end of our leases. If this fails, it waits. */
static void give_up_leads(struct sweeper *s)
{
	sweeper_queues_each(s, give_up, NULL);
	connection_drain(s);
}

const struct task lead_task = { .name = "lead", .per_lease = 4, .budget = 1, .unsealed = true, .ask = ask_lead,
	.take = take_lead, .wanted = is_wanted, .stop = stop_leading,
	.disconnected = disconnected, .settle = give_up_leads, .state_size = sizeof(struct lead) };
