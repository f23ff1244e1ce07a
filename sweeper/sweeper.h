#ifndef SWEEPER_SWEEPER_H
#define SWEEPER_SWEEPER_H

struct child;

/*
 * The sweeper: one process of a supervisor that moves the messages which no worker has, judges health and reports
 * metrics. The folders below are:
 *
 *	core/		the loop, the connection, the contract of a task (core.h, task.h)
 *	registry/	our queues in quredis:queues, and unused entries there
 *	dead_letters/	bounds of dead letters, their archive, forwards, records without a dead letter
 *	age/		retries that are due, times of waiting messages, ttl, purge, history
 *	rescue/		messages of dead workers go back; which owners are dead
 *	report/		statistics, health, metrics, the report of this node
 *
 * sweeper.c has the table of all tasks. A folder uses only those before it in this list.
 */
_Noreturn void sweeper_run(const struct child *child);

/* The process that searches for leftovers of dead supervisors in place of a sweeper without root's rights
 * (rescue/search.h). fd: its end of a stream socket. */
_Noreturn void sweeper_search(const struct child *child, int fd);

#endif
