/*
 * The queues of the configuration, and those that left it and still have workers or totals. staffing.c decides when a
 * worker is missing, spawner.c forks it, and reload.c decides whether the configuration of a queue has changed.
 */
#include "supervisor/queues/queues.h"

#include <assert.h>
#include <string.h>

#include <bsd/string.h>

#include "common/log/log.h"

void queues_init(struct queues *qs, struct processes *ps, const struct deaths *d)
{
	qs->board = ps->board;
	qs->processes = ps;
	qs->deaths = d;
}

/* ---- looking ---- */

const struct queue_workers *queues_next(const struct queues *qs, const struct queue_workers *q)
{
	for (q = q == NULL ? qs->items : q + 1; q < qs->items + qs->n; q++)
		if (q->membership == MEMBER_CONFIGURED)
			return q;
	return NULL;
}

int queues_place(const struct queues *qs, const struct queue_workers *q)
{
	return (int)(q - qs->items);
}

int queues_find(const struct queues *qs, const char *name)
{
	for (const struct queue_workers *q = NULL; (q = queues_next(qs, q)) != NULL;)
		if (strcmp(q->name, name) == 0)
			return queues_place(qs, q);
	return -1;
}

int queues_wanted(const struct queue_workers *q)
{
	if (q->membership != MEMBER_CONFIGURED)
		return 0;
	return q->scaled == -1 ? q->conf->workers : q->scaled;
}

int queues_wanted_by_others(const struct queues *qs, int queue)
{
	int n = 0;

	for (const struct queue_workers *q = NULL; (q = queues_next(qs, q)) != NULL;)
		n += q == &qs->items[queue] ? 0 : queues_wanted(q);
	return n;
}

int queues_root(const struct queues *qs, int queue)
{
	while (qs->items[queue].heir != -1)
		queue = qs->items[queue].heir;
	return queue;
}

int queues_count_workers(const struct queues *qs)
{
	int n = 0;

	for (int i = 0; i < qs->n; i++)
		n += qs->items[i].serving + qs->items[i].leaving;
	return n;
}

bool queues_are_complete(const struct queues *qs)
{
	for (const struct queue_workers *q = NULL; (q = queues_next(qs, q)) != NULL;)
		if (q->serving < queues_wanted(q))
			return false;
	return true;
}

/*
 * A number has at most two living workers, one that leaves and its successor. That bounds the processes, however often
 * the queue changes while its handlers run. The name counts: workers that leave may be of another place, with other
 * keys.
 */
int queues_free_index(const struct queues *qs, int queue)
{
	int living[CONF_WORKERS_MAX] = {0}, wanted = queues_wanted(&qs->items[queue]), index = 0;

	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (p->role.index < wanted && strcmp(p->role.queue_name, qs->items[queue].name) == 0)
			living[p->role.index] += p->state == PROCESS_SERVING ? 2 : 1;
	while (index < wanted && living[index] >= 2)
		index++;
	return index < wanted ? index : -1;
}

/* ---- counts of workers ---- */

/* The only function that changes the counts. Each count equals the number in the table of processes; check_counts()
 * compares them. */
static void count_workers(struct queue_workers *q, int serving, int leaving)
{
	q->serving += serving;
	q->leaving += leaving;
	assert(q->serving >= 0 && q->leaving >= 0 && q->serving + q->leaving <= SCOREBOARD_SLOTS);
}

static void check_counts(const struct queues *qs)
{
	int serving[SCOREBOARD_QUEUES] = {0}, leaving[SCOREBOARD_QUEUES] = {0};

	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state != PROCESS_LOADING)
			(p->state == PROCESS_SERVING ? serving : leaving)[p->role.queue]++;
	for (int i = 0; i < qs->n; i++)
		assert(qs->items[i].serving == serving[i] && qs->items[i].leaving == leaving[i]);
}

void queues_dismiss(struct queues *qs, int slot, int64_t now_ms)
{
	const struct process *p = &qs->processes->items[slot];
	bool served = p->state == PROCESS_SERVING;

	processes_leave(qs->processes, slot, now_ms);
	count_workers(&qs->items[p->role.queue], served ? -1 : 0, 1);
}

/* A worker serves in place of a dead one. */
static void count_replacement(struct queues *qs, int queue)
{
	struct queue_workers *q = &qs->items[queue];

	if (q->unreplaced == 0)
		return;
	q->unreplaced--;
	atomic_fetch_add(&qs->board->queues[queues_root(qs, queue)].master.restarts, 1);
}

void queues_promote(struct queues *qs, int slot, bool replaces_dead)
{
	int queue = qs->processes->items[slot].role.queue;

	processes_promote(qs->processes, slot);
	count_workers(&qs->items[queue], 1, 0);
	if (replaces_dead)
		count_replacement(qs, queue);
}

/* Dismisses the workers with the highest indexes. staffing.c gives them the order to finish. */
void queues_dismiss_surplus(struct queues *qs, int queue, int64_t now_ms)
{
	int wanted = queues_wanted(&qs->items[queue]);

	if (qs->items[queue].serving <= wanted)
		return;
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state == PROCESS_SERVING && p->role.queue == queue && p->role.index >= wanted)
			queues_dismiss(qs, processes_slot(qs->processes, p), now_ms);
}

/* Workers that leave already go on: a change of the queue ends no run, whatever its handler takes. */
static void dismiss_all(struct queues *qs, int queue, int64_t now_ms)
{
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state != PROCESS_LEAVING && p->role.queue == queue)
			queues_dismiss(qs, processes_slot(qs->processes, p), now_ms);
}

/* ---- membership ---- */

static void set_membership(struct queue_workers *q, enum membership to, const struct conf_queue *conf)
{
	static const bool legal[][3] = {
		[MEMBER_NONE] = { [MEMBER_CONFIGURED] = true },
		[MEMBER_CONFIGURED] = { [MEMBER_LEFT] = true },
		[MEMBER_LEFT] = { [MEMBER_NONE] = true },
	};

	assert(legal[q->membership][to]);
	assert((conf != NULL) == (to == MEMBER_CONFIGURED));
	q->membership = to;
	q->conf = conf;
}

static bool is_known_to_a_sweeper(const struct queues *qs, const struct queue_workers *q)
{
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_SWEEPER)) != NULL;)
		if (p->role.epoch <= q->left_epoch)
			return true;
	return false;
}

/* True: nothing but the totals uses the place any more. */
static bool is_unused(const struct queues *qs, const struct queue_workers *q)
{
	return q->membership == MEMBER_LEFT && q->serving == 0 && q->leaving == 0 &&
	    !deaths_concern_queue(qs->deaths, queues_place(qs, q)) && !is_known_to_a_sweeper(qs, q);
}

/* Frees a place: its totals go to its heir, which also becomes the heir of the places whose heir this one was. */
static void dissolve(struct queues *qs, int queue)
{
	struct queue_workers *q = &qs->items[queue];

	if (q->heir != -1)
		scoreboard_inherit(&qs->board->queues[q->heir], &qs->board->queues[queue]);
	for (int i = 0; i < qs->n; i++)
		if (qs->items[i].heir == queue)
			qs->items[i].heir = q->heir;
	set_membership(q, MEMBER_NONE, NULL);
	memset(q, 0, sizeof(*q));
	scoreboard_clear_queue(&qs->board->queues[queue]);
}

/* Returns an unused place; with_heir: only one whose totals an heir takes over. -1: there is none. */
static int find_unused(const struct queues *qs, bool with_heir)
{
	for (int i = 0; i < qs->n; i++)
		if (is_unused(qs, &qs->items[i]) && (qs->items[i].heir != -1 || !with_heir))
			return i;
	return -1;
}

static int find_room(struct queues *qs)
{
	int queue = find_unused(qs, true);

	if (queue == -1 && qs->n < SCOREBOARD_QUEUES)
		return qs->n++;
	if (queue == -1)
		queue = find_unused(qs, false);
	if (queue != -1)
		dissolve(qs, queue);
	return queue;
}

/* A metric counts the restarts, so they must not fall when a queue gets another place. */
static void make_heir(struct queues *qs, int queue, int heir)
{
	qs->items[queue].heir = heir;
	atomic_fetch_add(&qs->board->queues[heir].master.restarts,
	    atomic_load(&qs->board->queues[queue].master.restarts));
}

int queues_enter(struct queues *qs, const struct conf_queue *conf)
{
	int queue = find_room(qs);
	struct queue_workers *q;

	if (queue == -1)
		return -1;
	q = &qs->items[queue];
	strlcpy(q->name, conf->name, sizeof(q->name));
	set_membership(q, MEMBER_CONFIGURED, conf);
	queues_note_files(qs, queue);
	q->scaled = -1;
	q->heir = -1;
	for (int i = 0; i < qs->n; i++)
		if (i != queue && qs->items[i].heir == -1 && strcmp(qs->items[i].name, q->name) == 0)
			make_heir(qs, i, queue);
	return queue;
}

void queues_leave(struct queues *qs, int queue, unsigned epoch, int64_t now_ms)
{
	struct queue_workers *q = &qs->items[queue];

	dismiss_all(qs, queue, now_ms);
	set_membership(q, MEMBER_LEFT, NULL);
	q->left_epoch = epoch;
	atomic_store(&qs->board->queues[queue].master.left, 1);
}

void queues_keep(struct queues *qs, int queue, const struct conf_queue *conf)
{
	struct queue_workers *q = &qs->items[queue];

	assert(q->membership == MEMBER_CONFIGURED);
	q->conf = conf;
	q->scaled = -1;		/* from a reload on, the file decides the number again */
}

void queues_recycle(struct queues *qs, int queue, int64_t now_ms)
{
	struct queue_workers *q = &qs->items[queue];

	policy_reset(&q->policy);
	q->unreplaced = 0;
	queues_want_handler(qs, queue);
	if (q->conf->ready)
		return;
	dismiss_all(qs, queue, now_ms);
	queues_set_not_ready(qs, queue, NULL, 0);		/* it says nothing before its first message */
	queues_adopt_handler(qs, queue, true);
}

/* ---- the operator ---- */

void queues_scale(struct queues *qs, int queue, int workers)
{
	assert(workers >= 0);
	qs->items[queue].scaled = workers;
}

enum order queues_first_order(const struct queues *qs, int queue)
{
	return qs->quiet || qs->items[queue].quiet ? ORDER_QUIET : ORDER_RUN;
}

static void order_all(struct queues *qs, int queue, int64_t now_ms)
{
	for (const struct process *p = NULL; (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (p->state != PROCESS_LEAVING && p->role.queue == queue)
			processes_order(qs->processes, processes_slot(qs->processes, p), queues_first_order(qs, queue),
			    now_ms);
}

void queues_set_quiet(struct queues *qs, int queue, bool quiet, int64_t now_ms)
{
	qs->items[queue].quiet = quiet;
	order_all(qs, queue, now_ms);
}

void queues_set_all_quiet(struct queues *qs, bool quiet, int64_t now_ms)
{
	qs->quiet = quiet;
	for (const struct queue_workers *q = NULL; (q = queues_next(qs, q)) != NULL;)
		order_all(qs, queues_place(qs, q), now_ms);
}

/* ---- workers come and go ---- */

static void see_success(struct queues *qs, struct queue_workers *q)
{
	uint64_t done = atomic_load(&qs->board->queues[queues_place(qs, q)].workers.done);

	if (done == q->done_seen)
		return;
	q->done_seen = done;
	policy_success(&q->policy);
}

void queues_worker_forked(struct queues *qs, int queue, int64_t now_ms)
{
	struct queue_workers *q = &qs->items[queue];

	count_workers(q, 1, 0);
	policy_spawned(&q->policy, now_ms);
	count_replacement(qs, queue);
}

void queues_worker_ended(struct queues *qs, int slot, bool died, int64_t now_ms, double chance)
{
	const struct process *p = &qs->processes->items[slot];
	struct queue_workers *q = &qs->items[p->role.queue];
	bool served = p->state == PROCESS_SERVING;

	see_success(qs, q);
	if (died)
		policy_death(&q->policy, p->spawned_ms, now_ms, chance);
	count_workers(q, served ? -1 : 0, p->state == PROCESS_LEAVING ? -1 : 0);
	if (served)
		q->unreplaced++;
	slot_fold(&qs->board->slots[slot], &qs->board->queues[p->role.queue]);
}

void queues_note_end(struct queues *qs, int queue, int code, bool by_signal, int64_t now_ms)
{
	struct queue_master *words = &qs->board->queues[queue].master;

	atomic_store(&words->ended, (uint32_t)code | (by_signal ? QUEUE_ENDED_BY_SIGNAL : 0));
	atomic_store(&words->ended_ms, now_ms);
}

static void publish(struct queues *qs, const struct queue_workers *q)
{
	static const enum queue_policy policies[] = {
		[POLICY_NORMAL] = QUEUE_NORMAL, [POLICY_BACKOFF] = QUEUE_BACKOFF, [POLICY_QUARANTINE] = QUEUE_QUARANTINE
	};
	struct queue_master *words = &qs->board->queues[queues_place(qs, q)].master;
	int wanted = queues_wanted(q);

	atomic_store(&words->wanted, (uint32_t)wanted);
	atomic_store(&words->policy, policies[q->policy.state]);
	atomic_store(&words->quiet, qs->quiet || q->quiet);
	atomic_store(&words->scaled, q->membership == MEMBER_CONFIGURED && q->scaled != -1);
	atomic_store(&words->waits, q->serving < wanted && q->leaving > 0 &&
	    queues_free_index(qs, queues_place(qs, q)) == -1);
	atomic_store(&words->next_start_ms, q->policy.next_spawn_ms);
}

static void look_at_queue(struct queues *qs, struct queue_workers *q, const struct hold_slots *slots, int64_t now_ms)
{
	const struct board_queue *b = &qs->board->queues[queues_place(qs, q)];
	char text[HOLD_TEXT_SIZE];
	struct judged judged;

	see_success(qs, q);
	policy_tick(&q->policy, (size_t)q->serving, now_ms);
	publish(qs, q);
	judged = holds_judge(qs->board, b, slots);
	if (judged.hold == q->hold && judged.reason == q->reason && judged.also == q->also)
		return;
	q->hold = judged.hold;
	q->reason = judged.reason;
	q->also = judged.also;
	log_event(holds_table[judged.hold].level < HOLD_WARNING ? LOG_LEVEL_INFO : LOG_LEVEL_WARNING, "queue_state",
	    log_str("queue", q->name),
	    log_str("state", holds_table[judged.hold].name),
	    log_str("reason", holds_explain(qs->board, b, slots, &judged, q->conf, 0, text)));
}

void queues_look(struct queues *qs, int64_t now_ms)
{
	struct hold_slots slots;

	check_counts(qs);
	holds_read_slots(qs->board, &slots);
	for (int i = 0; i < qs->n; i++)
		if (qs->items[i].membership == MEMBER_CONFIGURED)
			look_at_queue(qs, &qs->items[i], &slots, now_ms);
}

void queues_wake_opened(struct queues *qs)
{
	bool opened[SCOREBOARD_QUEUES] = { false }, any = false;

	for (int i = 0; i < qs->n; i++) {
		uint32_t openings = atomic_load(&qs->board->queues[i].sweeper.openings);

		any = any || openings != qs->items[i].openings_seen;
		opened[i] = openings != qs->items[i].openings_seen;
		qs->items[i].openings_seen = openings;
	}
	for (const struct process *p = NULL; any && (p = processes_next(qs->processes, p, PROCESS_WORKER)) != NULL;)
		if (opened[p->role.queue])
			processes_wake(qs->processes, processes_slot(qs->processes, p));
}

void queues_publish(struct queues *qs)
{
	for (int i = 0; i < qs->n; i++)
		publish(qs, &qs->items[i]);
}
