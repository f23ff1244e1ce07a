#ifndef TESTS_UNIT_SWEEPER_TASK_FIXTURE_H
#define TESTS_UNIT_SWEEPER_TASK_FIXTURE_H

#include "sweeper/core/core.h"

/*
 * The core that runs tasks, in a sweeper with three queues and one task, which the test defines. The connection, the lead and the errors
 * of tasks are fakes.
 */
#define FAR_MS (INT64_MAX / 2)
#define QUEUES 3

extern struct sweeper s;
extern struct sweeper_queue queues[QUEUES];

extern struct task_fixture {
	bool wanted[QUEUES];		/* by task_fixture_wanted(); at first only the first one */
	bool ours;			/* we lead every queue; at first true */
	bool no_secret;			/* no secret is known; at first false */
	bool urgent;			/* by task_fixture_urgent() */
	enum task_end ends;		/* of task_fixture_run(); at first TASK_DONE */
	int runs[QUEUES];		/* of task_fixture_run() */
	int noted, cleared;		/* errors of the task */
	const char *noted_at;		/* the step at which the last one was noted */
	int removed;			/* queues */
} fixture;

/* Callbacks of tasks. A task that uses task_fixture_run() has this budget. */
#define TASK_FIXTURE_BUDGET 7
bool task_fixture_wanted(const struct sweeper *unused, const struct sweeper_queue *q);
bool task_fixture_urgent(const struct sweeper *unused, const struct sweeper_queue *q, int64_t now_ms);
enum task_end task_fixture_run(struct sweeper *unused, struct sweeper_queue *q, int budget, int64_t now_ms);

void task_fixture_start(const struct task *task);
int task_fixture_stop(void **state);
struct task_in_queue *task_fixture_in(int queue);

/*
 * start_NAME(): the setup of TEST(test, start_NAME, task_fixture_stop), a test of NAME_task. It calls forget(), which the
 * test defines, for what the test counts itself.
 */
#define TASK_FIXTURE_STARTS(name) \
	static int start_##name(void **state) \
	{ \
		(void)state; \
		forget(); \
		task_fixture_start(&name##_task); \
		return 0; \
	}
#endif
