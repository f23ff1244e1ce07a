/*
 * Kills what handlers of dead supervisors left running, before their messages run again. After five rounds the queues open with an
 * alarm; rounds go on until nothing is left. common/leftovers.h defines what a leftover is. One round is for all boots together,
 * since every user who may write to Redis can register any number of dead boots.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "sweeper/sweeper.h"

#include "common/alloc.h"
#include "common/cgroup.h"
#include "common/leftovers.h"

#define ROUND_MS 1000
#define ROUNDS 5		/* that left processes alive; then the alarm is raised */

enum dead_boot_state { BOOT_KILLING, BOOT_ALARM, BOOT_GONE };

struct dead_boot {
	struct dead_boot *next;
	struct incarnation who;		/* any incarnation of the boot: only node and boot are used */
	enum dead_boot_state state;
	unsigned rounds;		/* that left processes alive */
	struct leftovers last;		/* result of the last round */
	size_t in_cgroup;		/* processes that the last round left in its cgroup */
};

static struct dead_boot *find_or_add_boot(struct sweeper *s, const char *incarnation)
{
	struct incarnation who = {0};
	struct dead_boot *b;

	incarnation_parse(&who, incarnation);
	for (b = s->dead_boots; b != NULL; b = b->next)
		if (b->who.boot == who.boot)
			return b;
	b = alloc_zero(1, sizeof(*b));
	b->who = who;
	b->next = s->dead_boots;
	s->dead_boots = b;
	return b;
}

/* At least 1, since an alarm must show: new processes may come and go between two scans. */
static uint64_t count_alive(const struct dead_boot *b)
{
	size_t n = b->last.alive > b->in_cgroup ? b->last.alive : b->in_cgroup;

	return n > 0 ? n : 1;
}

static void publish_alive(struct sweeper *s)
{
	uint64_t n = 0;

	if (atomic_load(&s->child->board->sweeper) != s->child->slot)
		return;			/* this sweeper only finishes; its successor counts for itself */
	for (const struct dead_boot *b = s->dead_boots; b != NULL; b = b->next)
		n += b->state == BOOT_ALARM ? count_alive(b) : 0;
	atomic_store(&s->child->board->leftovers, n);
}

/* "web1.00f3…": node and boot, the whole supervisor */
static void name_of(const struct dead_boot *b, char out[INCARNATION_SIZE])
{
	snprintf(out, INCARNATION_SIZE, "%s.%016" PRIx64, b->who.node, b->who.boot);
}

static void log_each(const struct dead_boot *b, const char *name)
{
	for (size_t i = 0; i < b->last.nlisted; i++) {
		const struct leftover *l = &b->last.listed[i];

		log_error("leftover_alive", log_str("incarnation", name), log_int("process", l->pid), log_int("uid", (int64_t)l->uid),
		    log_str("reason", l->error != 0 ? strerror(l->error) : "SIGKILL did not end it"));
	}
}

static void raise_alarm(const struct dead_boot *b)
{
	char name[INCARNATION_SIZE];

	name_of(b, name);
	log_each(b, name);
	log_error("leftovers_alive", log_str("incarnation", name), log_int("count", (int64_t)count_alive(b)),
	    log_str("reason", b->last.breeding ? "new ones come as fast as they are killed" : "they do not end"),
	    log_str("advice", "queues are open: end these processes by hand, they may work on messages that run again"));
}

/* The text names no process: those may be others each time, and a changed text would be logged again. */
static void say_trouble(struct sweeper *s, const struct dead_boot *b)
{
	trouble_say(s, TROUBLE_LEFTOVERS, b->last.breeding ? "new processes of a dead supervisor come as fast as they are killed" :
	    "processes of a dead supervisor do not end");
}

/* Another process could hold the lock of a dead supervisor's cgroup, but more likely that supervisor lives. */
static void log_held(const struct dead_boot *b, const struct cgroup_dead *group)
{
	char name[INCARNATION_SIZE];

	name_of(b, name);
	log_warning("cgroup_held", log_str("incarnation", name), log_str("cgroup", group->name), log_int("count", (int64_t)group->left),
	    log_str("reason", "another process holds its lock, so its supervisor may be alive: nothing in it was killed"));
}

static void log_killed(const struct dead_boot *b, size_t killed)
{
	char name[INCARNATION_SIZE];

	name_of(b, name);
	log_warning("handlers_killed", log_str("incarnation", name), log_int("count", (int64_t)killed));
}

static void log_gone(const struct dead_boot *b)
{
	char name[INCARNATION_SIZE];

	name_of(b, name);
	log_info("leftovers_gone", log_str("incarnation", name));
}

/* Takes the result of a round for this boot. */
static void take_round(struct dead_boot *b, const struct cgroup_dead *group, const struct leftovers *found)
{
	bool alarm = b->state == BOOT_ALARM, clean = group->left == 0 && found->alive == 0 && !found->breeding;

	b->last = *found;
	b->in_cgroup = group->left;
	if (!alarm && group->killed + found->killed > 0)
		log_killed(b, group->killed + found->killed);
	if (!alarm && b->rounds == 0 && group->held)
		log_held(b, group);
	if (clean) {
		b->state = BOOT_GONE;
		if (alarm)
			log_gone(b);
	} else if (!alarm && ++b->rounds == ROUNDS) {
		b->state = BOOT_ALARM;
		raise_alarm(b);
	}
}

static size_t in_state(const struct sweeper *s, enum dead_boot_state state)
{
	size_t n = 0;

	for (const struct dead_boot *b = s->dead_boots; b != NULL; b = b->next)
		n += b->state == state;
	return n;
}

/* One round for all boots in this state: /proc and the cgroups are read once for all of them. */
static void kill_round(struct sweeper *s, enum dead_boot_state state)
{
	size_t n = in_state(s, state), i = 0;
	struct cgroup_dead *groups = alloc_zero(n + 1, sizeof(*groups));
	struct leftovers *found = alloc_zero(n + 1, sizeof(*found));

	for (const struct dead_boot *b = s->dead_boots; b != NULL; b = b->next)
		if (b->state == state) {
			leftovers_token(s->child->lock_key, b->who.boot, found[i].token);
			cgroup_name(found[i].token, groups[i].name);
			i++;
		}
	cgroup_kill(groups, n, ROUND_MS);
	sweeper_beat(s);
	leftovers_kill(found, n, s->child->handler_users, ROUND_MS);
	sweeper_beat(s);
	i = 0;
	for (struct dead_boot *b = s->dead_boots; b != NULL; b = b->next)
		if (b->state == state) {
			take_round(b, &groups[i], &found[i]);
			i++;
		}
	free(groups);
	free(found);
}

void dead_boots_note(struct sweeper *s, const struct queue_worker *workers, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (recover_is_ours(s, &workers[i]))
			find_or_add_boot(s, workers[i].incarnation);
}

int dead_boots_end(struct sweeper *s, const char *incarnation)
{
	struct dead_boot *b = find_or_add_boot(s, incarnation);

	if (b->state != BOOT_KILLING)
		return 0;
	kill_round(s, BOOT_KILLING);
	publish_alive(s);
	if (b->state != BOOT_KILLING)
		return 0;
	say_trouble(s, b);
	return -1;
}

static bool run_dead_boots(struct sweeper *s, int budget, int64_t now_ms)
{
	(void)budget;
	(void)now_ms;
	if (in_state(s, BOOT_ALARM) > 0)
		kill_round(s, BOOT_ALARM);
	publish_alive(s);
	return false;
}

const struct task dead_boots_task = { .name = "dead_boots", .interval_ms = 10000, .budget = 1, .run = run_dead_boots };

void dead_boots_free(struct sweeper *s)
{
	while (s->dead_boots != NULL) {
		struct dead_boot *next = s->dead_boots->next;

		free(s->dead_boots);
		s->dead_boots = next;
	}
}
