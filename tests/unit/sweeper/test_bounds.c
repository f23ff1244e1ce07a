/* The task of the bounds of dead letters, and who holds the archive of a queue. The subprocesses of the archive are real, Redis is away. */
#include <sys/wait.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/base.h"
#include "common/board/scoreboard.h"
#include "sweeper/core/core.h"
#include "sweeper/core/subprocess.h"
#include "sweeper/dead_letters/bounds.h"
#include "tests/unit/unit.h"

#define SLOT 3

static char directory[32];

static struct conf conf;
static struct conf_queue mail = { .dead_letter = { .enabled = true, .max_entries = 2, .archive = directory, .archive_size = 1 << 20 } };
static struct child child = { .conf = &conf, .slot = SLOT };
static struct sweeper s;
static struct sweeper_queue q;

static int start(void **state)
{
	static const struct task *const table[] = { &bounds_task };
	sigset_t unused;

	(void)state;
	core_catch_term(getppid(), &unused);		/* our parent stands for the master */
	snprintf(directory, sizeof(directory), "/tmp/quredis-bounds.XXXXXX");
	assert_non_null(mkdtemp(directory));
	conf.supervisor.node = (char *)(uintptr_t)"here";
	child.board = scoreboard_new();
	s = (struct sweeper){ .conf = &conf, .child = &child, .slot = &child.board->slots[SLOT] };
	s.redis.state = REDIS_READY;
	TAILQ_INIT(&s.queues);
	tasks_init(&s, table, 1);
	q = (struct sweeper_queue){ .conf = &mail, .board = &child.board->queues[0], .keys.name = (char *)(uintptr_t)"mail" };
	task_error_list_init(&q.errors);
	tasks_enter(&s, &q);
	TAILQ_INSERT_TAIL(&s.queues, &q, entry);
	return 0;
}

static int stop(void **state)
{
	char file[64];

	(void)state;
	tasks_leave(&q);
	tasks_free(&s);
	scoreboard_free(child.board);
	snprintf(file, sizeof(file), "%s/mail@here.ndjson", directory);
	unlink(file);
	assert_int_equal(rmdir(directory), 0);
	return 0;
}

static void run_until_the_subprocess_ends(void)
{
	siginfo_t info;

	assert_int_equal(bounds_task.run_queue(&s, &q, bounds_task.budget, clock_monotonic_ms()), TASK_DONE);
	assert_true(subprocess_runs(&bounds_of(&q)->archiver.subprocess));
	assert_int_equal(waitid(P_PID, (id_t)bounds_of(&q)->archiver.subprocess.pid, &info, WEXITED | WNOWAIT), 0);
}

/* The sweeper lost the lead while a subprocess read the archive, whose time ends in a minute. */
TEST(one_that_leads_again_begins_at_once, start, stop)
{
	run_until_the_subprocess_ends();
	assert_true(task_at_ms(&q, &bounds_task) > clock_monotonic_ms());
	assert_true(bounds_task.stop(&s, &q, clock_monotonic_ms()));
	assert_false(bounds_of(&q)->archiver.holds);
	assert_true(task_at_ms(&q, &bounds_task) <= clock_monotonic_ms());
	run_until_the_subprocess_ends();
}

static int64_t mark_of(int64_t slot, uint64_t generation)
{
	return (int64_t)(generation << 16) + slot + 1;
}

TEST(one_sweeper_holds_the_archive, start, stop)
{
	struct slot *other = &child.board->slots[SLOT + 1];

	slot_next_generation(other);
	atomic_store(&q.board->sweeper.archiver, mark_of(SLOT + 1, slot_generation(other)));
	assert_true(archiver_hold(&s, &q));		/* that slot is free: its sweeper has ended */
	archiver_let_go(&q);
	slot_set_state(other, SLOT_IDLE);
	atomic_store(&q.board->sweeper.archiver, mark_of(SLOT + 1, slot_generation(other)));
	assert_false(archiver_hold(&s, &q));
	slot_next_generation(other);			/* another process uses the slot now */
	assert_true(archiver_hold(&s, &q));
}

/* The word lies in memory that all children share. */
TEST(a_damaged_holder_is_none, start, stop)
{
	static const int64_t damaged[] = { SCOREBOARD_SLOTS + 1, 0xffff, -1, INT64_MIN, INT64_MAX };

	for (size_t i = 0; i < nitems(damaged); i++) {
		atomic_store(&q.board->sweeper.archiver, damaged[i]);
		assert_true(archiver_hold(&s, &q));
		archiver_let_go(&q);
	}
}

UNIT_MAIN(NULL, NULL)
