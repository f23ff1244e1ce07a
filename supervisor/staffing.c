/*
 * Decides once a turn which children are missing and which are surplus. policy.c decides when a child may be forked,
 * and spawner.c forks it.
 */
#include "supervisor/staffing.h"

#include "supervisor/master.h"

#define RENEWAL_LOOK_MS 100	/* between looks at a successor that loads */
#define REPLACE_MS 10000	/* after this time a leaving worker finishes, even if it is not replaced */
/* sweepers at a time. With more, the oldest finishes, even if it has a report to confirm */
#define SWEEPERS_MAX 4

bool staffing_is_complete(const struct master *m)
{
	return queues_are_complete(&m->queues) && processes_sweeper(&m->processes) != NULL &&
	    (!m->config.conf->redis.embedded || processes_any(&m->processes, PROCESS_KEEPER));
}

static void wake_at(int64_t *due_ms, int64_t at_ms)
{
	if (at_ms < *due_ms)
		*due_ms = at_ms;
}

/* Returns how many children may be forked now. If none may, lowers *due_ms to the time at which one may. */
static size_t allowed_forks(const struct master *m, const struct policy *p, int alive, int wanted, int64_t now_ms,
    int64_t *due_ms)
{
	size_t n;

	if (alive >= wanted)
		return 0;
	if (now_ms < m->spawner.retry_at_ms) {
		wake_at(due_ms, m->spawner.retry_at_ms);
		return 0;
	}
	n = policy_allowed(p, (size_t)alive, (size_t)wanted, now_ms);
	if (n == 0 && p->next_spawn_ms > now_ms)
		wake_at(due_ms, p->next_spawn_ms);
	return n;
}

/* The Redis of a dead keeper holds the directory until it has saved. */
static void fill_keeper(struct master *m, int64_t now_ms, int64_t *due_ms)
{
	struct policy *policy = &m->staffing.keeper;
	int alive = processes_any(&m->processes, PROCESS_KEEPER) ? 1 : 0;

	policy_tick(policy, (size_t)alive, now_ms);
	if (!m->config.conf->redis.embedded || m->orphans.redis != 0 ||
	    allowed_forks(m, policy, alive, 1, now_ms, due_ms) == 0)
		return;
	if (spawner_fork_keeper(&m->spawner, m->config.conf, m->config.epoch, now_ms) != -1)
		policy_spawned(policy, now_ms);
}

static void fill_sweeper(struct master *m, int64_t now_ms, int64_t *due_ms)
{
	struct policy *policy = &m->staffing.sweeper;
	int alive = processes_sweeper(&m->processes) != NULL ? 1 : 0;

	policy_tick(policy, (size_t)alive, now_ms);
	if (allowed_forks(m, policy, alive, 1, now_ms, due_ms) > 0 &&
	    spawner_fork_sweeper(&m->spawner, m->config.conf, m->config.epoch, now_ms) != -1)
		policy_spawned(policy, now_ms);
}

/* The master looks at a successor again soon, since its load ends without a signal. The end of a worker wakes it. */
static void renew_queue(struct master *m, int queue, int64_t now_ms, int64_t *due_ms)
{
	const struct queue_workers *q = &m->queues.items[queue];
	int index;

	renewal_step(&m->queues, queue, now_ms);
	index = renewal_successor(&m->queues, queue);
	if (index != -1 && allowed_forks(m, &q->policy, q->serving, q->serving + 1, now_ms, due_ms) > 0)
		spawner_fork_worker(&m->spawner, m->config.conf, m->config.epoch, &(struct spawner_worker){
		    .conf = q->conf, .queue = queue, .index = index, .handler_generation = q->handler_generation,
		    .successor = true, .order = queues_first_order(&m->queues, queue),
		}, now_ms);
	if (renewal_loads(&m->queues, queue))
		wake_at(due_ms, now_ms + RENEWAL_LOOK_MS);
}

static void fill_queue(struct master *m, const struct queue_workers *q, int64_t now_ms, int64_t *due_ms)
{
	int queue = queues_place(&m->queues, q), wanted = queues_wanted(q);

	for (size_t n = allowed_forks(m, &q->policy, q->serving, wanted, now_ms, due_ms); n > 0; n--) {
		struct spawner_worker w = {
			.conf = q->conf, .queue = queue, .index = queues_free_index(&m->queues, queue),
			.handler_generation = q->handler_generation, .order = queues_first_order(&m->queues, queue),
		};

		if (w.index == -1 || spawner_fork_worker(&m->spawner, m->config.conf, m->config.epoch, &w, now_ms) ==
		    -1)
			break;
		queues_worker_forked(&m->queues, queue, now_ms);
	}
	if (q->serving < wanted)
		/* sets due_ms for the next worker */
		allowed_forks(m, &q->policy, q->serving, wanted, now_ms, due_ms);
}

/* A queue that left is unknown to later sweepers, which need not stay for its workers. So it keeps its own, however
 * many reloads follow. */
static bool serves_an_older_worker(const struct master *m, const struct process *sweeper)
{
	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_WORKER)) != NULL;) {
		const struct queue_workers *q = &m->queues.items[p->role.queue];

		if (p->state == PROCESS_LEAVING && p->role.epoch <= sweeper->role.epoch &&
		    (q->membership != MEMBER_LEFT || sweeper->role.epoch <= q->left_epoch))
			return true;
	}
	return false;
}

/*
 * True: the leaving child may finish. A sweeper stays for workers whose queues or keys its successor does not know. A
 * worker stays until the new ones serve, as far as they may start.
 */
static bool may_finish(const struct master *m, const struct process *p, int64_t now_ms)
{
	const struct queue_workers *q;

	if (p->role.kind == PROCESS_SWEEPER)
		return processes_sweeper(&m->processes) != NULL &&
		    !deaths_need_sweeper(&m->deaths, processes_slot(&m->processes, p)) && !serves_an_older_worker(m, p);
	q = &m->queues.items[p->role.queue];
	return q->serving >= queues_wanted(q) || queues_free_index(&m->queues, p->role.queue) == -1 ||
	    now_ms - p->leaving_ms >= REPLACE_MS;
}

static void limit_sweepers(struct master *m, int64_t now_ms)
{
	const struct process *oldest = NULL;
	int n = 0;

	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_SWEEPER)) != NULL;) {
		if (processes_is_finishing(&m->processes, processes_slot(&m->processes, p)))
			continue;
		n++;
		if (p->state == PROCESS_LEAVING && (oldest == NULL || p->role.epoch < oldest->role.epoch))
			oldest = p;
	}
	if (n > SWEEPERS_MAX && oldest != NULL)
		processes_order(&m->processes, processes_slot(&m->processes, oldest), ORDER_FINISH, now_ms);
}

int64_t staffing_step(struct master *m, int64_t now_ms)
{
	int64_t due_ms = INT64_MAX;

	queues_publish(&m->queues);	/* first: a sweeper forked in this turn reads it before its first report */
	if (m->stop.phase <= STOP_HANDING_BACK || (m->stop.phase == STOP_CONFIRMING && m->deaths.n > 0)) {
		fill_keeper(m, now_ms, &due_ms);
		fill_sweeper(m, now_ms, &due_ms);
	}
	if (m->stop.phase != STOP_NOT)
		return due_ms;
	for (const struct queue_workers *q = NULL; (q = queues_next(&m->queues, q)) != NULL;) {
		queues_dismiss_surplus(&m->queues, queues_place(&m->queues, q), now_ms);
		renew_queue(m, queues_place(&m->queues, q), now_ms, &due_ms);
		fill_queue(m, q, now_ms, &due_ms);
	}
	for (const struct process *p = NULL; (p = processes_next(&m->processes, p, PROCESS_ANY)) != NULL;)
		if (p->state == PROCESS_LEAVING &&
		    !processes_is_finishing(&m->processes, processes_slot(&m->processes, p)) &&
		    may_finish(m, p, now_ms))
			processes_order(&m->processes, processes_slot(&m->processes, p), ORDER_FINISH, now_ms);
	limit_sweepers(m, now_ms);
	return due_ms;
}

void staffing_replace_sweeper(struct master *m, int64_t now_ms)
{
	const struct process *sweeper = processes_sweeper(&m->processes);

	policy_reset(&m->staffing.sweeper);
	if (sweeper != NULL)
		processes_leave(&m->processes, processes_slot(&m->processes, sweeper), now_ms);
}
