/*
 * The table of the sweeper's tasks. A new task is a file that defines `const struct task NAME_task` (core/task.h), and
 * its name here; no other file lists it. The core runs the tasks in this order in each turn, so the most urgent ones
 * come first: messages of dead workers, then work for which workers wait, then periodic work, then reports.
 */
#include "sweeper/sweeper.h"

#include "common/base/base.h"
#include "sweeper/core/core.h"
#include "sweeper/rescue/rescue.h"

#define TASKS(X) \
	X(deaths) X(rescue) X(departures) X(recover) X(due) X(pushed) X(pulse) X(dead_supervisors) X(watch) X(foreign) \
	X(lead) X(seats) X(schedules) X(schedules_forgotten) X(registry) X(registry_show) X(throttles) X(secret) \
	X(operations) \
	X(tally) X(failed) X(stamps) X(ttl) X(purge) \
	X(transit) X(unused_entries) X(aside) X(orphans) X(history) X(outcomes) X(backlog) X(types) X(metrics) \
	X(health) X(health_sum) X(on_change) X(forward) X(bounds) X(node) X(clock) X(server) X(sentinel)

#define TASK_DECLARED(name) extern const struct task name##_task;
TASKS(TASK_DECLARED)

static const struct task *const tasks[] = {
#define TASK_ROW(name) &name##_task,
	TASKS(TASK_ROW)
};

void sweeper_run(const struct child *child)
{
	core_run(child, tasks, nitems(tasks));
}

void sweeper_search(const struct child *child, int fd)
{
	search_serve(child, fd);
}
