/*
 * Kills the processes that handlers of dead supervisors left running, before their messages run again. After five
 * rounds that left some alive, the queues open with an alarm, and the rounds continue until none is left.
 * common/base/leftovers.h defines what a leftover is. One round serves all boots together, since any user who may write
 * to Redis can register any number of dead boots.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>
#include <bsd/sys/tree.h>

#include "sweeper/rescue/dead_supervisors.h"

#include "sweeper/core/core.h"
#include "sweeper/rescue/recover.h"
#include "sweeper/rescue/search.h"

#include "common/base/base.h"

#define ROUNDS 5		/* that left processes alive; then the alarm is raised */

extern const struct task dead_supervisors_task;

enum dead_supervisor_state { BOOT_KILLING, BOOT_ALARM, BOOT_GONE };

struct dead_supervisor {
	RB_ENTRY(dead_supervisor) entry;
	struct incarnation who;		/* any incarnation of the boot: only node and boot are used */
	enum dead_supervisor_state state;
	unsigned rounds;		/* that left processes alive */
	struct leftovers last;		/* result of the last round */
	size_t in_cgroup;		/* processes that the last round left in its cgroup */
};

/* The own state of the task: they are sorted by boot, since there may be as many as registrations. */
RB_HEAD(boots, dead_supervisor);

static int compare_boots(const struct dead_supervisor *a, const struct dead_supervisor *b)
{
	return (a->who.boot > b->who.boot) - (a->who.boot < b->who.boot);
}

RB_PROTOTYPE(boots, dead_supervisor, entry, compare_boots)
RB_GENERATE(boots, dead_supervisor, entry, compare_boots)

static struct boots *boots_of(const struct sweeper *s)
{
	return task_own(s, &dead_supervisors_task);
}

static struct dead_supervisor *find_or_add_boot(struct sweeper *s, const char *incarnation)
{
	struct dead_supervisor *b = alloc_zero(1, sizeof(*b)), *known;

	incarnation_parse(&b->who, incarnation);
	known = RB_INSERT(boots, boots_of(s), b);
	if (known == NULL)
		return b;
	free(b);
	return known;
}

/* At least 1, since an alarm must show: new processes may come and go between two scans. */
static uint64_t count_alive(const struct dead_supervisor *b)
{
	size_t n = b->last.alive > b->in_cgroup ? b->last.alive : b->in_cgroup;

	return n > 0 ? n : 1;
}

static void publish_alive(struct sweeper *s)
{
	struct dead_supervisor *b;
	uint64_t n = 0;

	if (!sweeper_is_active(s))
		return;			/* this sweeper only finishes; its successor counts for itself */
	RB_FOREACH(b, boots, boots_of(s))
		n += b->state == BOOT_ALARM ? count_alive(b) : 0;
	atomic_store(&s->child->board->sweeper.leftovers, n);
}

/* "web1.00f3…": node and boot, the whole supervisor */
static void name_of(const struct dead_supervisor *b, char out[INCARNATION_SIZE])
{
	snprintf(out, INCARNATION_SIZE, "%s.%016" PRIx64, b->who.node, b->who.boot);
}

static const char *reason_of(const struct dead_supervisor *b)
{
	if (b->last.error != 0)
		return strerror(b->last.error);		/* of a process that could not be examined */
	return b->last.breeding ? "new ones come as fast as they are killed" : "they do not end";
}

static void raise_alarm(const struct dead_supervisor *b, const char *name)
{
	for (size_t i = 0; i < b->last.nlisted; i++) {
		const struct leftover *l = &b->last.listed[i];

		log_error("leftover_alive", log_str("incarnation", name), log_int("process", l->pid),
		    log_int("uid", (int64_t)l->uid),
		    log_str("reason", l->error != 0 ? strerror(l->error) : "SIGKILL did not end it"));
	}
	log_error("leftovers_alive", log_str("incarnation", name), log_int("count", (int64_t)count_alive(b)),
	    log_str("reason", reason_of(b)),
	    log_str("advice", b->last.error != 0
	    ? "queues are open: handlers of that supervisor may still work on messages that run again" :
	    "queues are open: end these processes by hand, they may work on messages that run again"));
}

/* Takes the result of a round for this boot. */
static void take_round(struct dead_supervisor *b, const struct cgroup_dead *group, const struct leftovers *found)
{
	bool alarm = b->state == BOOT_ALARM,
	    clean = group->left == 0 && found->alive == 0 && !found->breeding && found->error == 0;
	size_t killed = group->killed + found->killed;
	char name[INCARNATION_SIZE];

	name_of(b, name);
	b->last = *found;
	b->in_cgroup = group->left;
	if (!alarm && killed > 0)
		log_warning("handlers_killed", log_str("incarnation", name), log_int("count", (int64_t)killed));
	if (!alarm && b->rounds == 0 && group->held)
		log_warning("cgroup_held", log_str("incarnation", name), log_str("cgroup", group->name),
		    log_int("count", (int64_t)group->left),
		    log_str("reason",
		    "another process holds its lock, so its supervisor may be alive: nothing in it was killed"));
	if (clean) {
		b->state = BOOT_GONE;
		if (alarm)
			log_info("leftovers_gone", log_str("incarnation", name));
	} else if (!alarm && ++b->rounds == ROUNDS) {
		b->state = BOOT_ALARM;
		raise_alarm(b, name);
	}
}

static size_t in_state(const struct sweeper *s, enum dead_supervisor_state state)
{
	struct dead_supervisor *b;
	size_t n = 0;

	RB_FOREACH(b, boots, boots_of(s))
		n += b->state == state;
	return n;
}

/* One round for all boots in this state: /proc and the cgroups are read once for all of them. */
static void kill_round(struct sweeper *s, enum dead_supervisor_state state)
{
	size_t n = in_state(s, state), i = 0;
	struct cgroup_dead *groups = alloc_zero(n + 1, sizeof(*groups));
	struct leftovers *found = alloc_zero(n + 1, sizeof(*found));
	uint64_t *boots = alloc_zero(n + 1, sizeof(*boots));
	struct dead_supervisor *b;

	RB_FOREACH(b, boots, boots_of(s))
		if (b->state == state)
			boots[i++] = b->who.boot;
	search_groups(s->child, boots, groups, n);
	sweeper_beat(s);
	search_processes(s->child, boots, found, n);
	sweeper_beat(s);
	i = 0;
	RB_FOREACH(b, boots, boots_of(s))
		if (b->state == state) {
			take_round(b, &groups[i], &found[i]);
			i++;
		}
	free(groups);
	free(found);
	free(boots);
}

void dead_supervisors_note(struct sweeper *s, const struct queue_worker *workers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (recover_is_ours(s, &workers[i]))
			find_or_add_boot(s, workers[i].incarnation);
}

int dead_supervisors_end(struct sweeper *s, const char *incarnation)
{
	struct dead_supervisor *b = find_or_add_boot(s, incarnation);

	if (b->state != BOOT_KILLING)
		return 0;
	kill_round(s, BOOT_KILLING);
	publish_alive(s);
	if (b->state != BOOT_KILLING)
		return 0;
	/* The text names no process: each round may find others, and a changed text would be logged again. */
	connection_set_error(s, QUEUE_ERROR_LEFTOVERS,
	    b->last.error != 0 ? "the processes of a dead supervisor cannot be looked for" :
	    b->last.breeding ? "new processes of a dead supervisor come as fast as they are killed"
	    : "processes of a dead supervisor do not end");
	return -1;
}

static bool run_dead_supervisors(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	(void)now_ms;
	if (in_state(s, BOOT_ALARM) > 0)
		kill_round(s, BOOT_ALARM);
	publish_alive(s);
	return false;
}

static void free_own(struct sweeper *s)
{
	struct dead_supervisor *b;

	while ((b = RB_ROOT(boots_of(s))) != NULL) {
		RB_REMOVE(boots, boots_of(s), b);
		free(b);
	}
}

const struct task dead_supervisors_task = { .name = "dead_supervisors", .interval_ms = 10000, .budget = 1,
	.run = run_dead_supervisors,
	.own_size = sizeof(struct boots), .free_own = free_own };
