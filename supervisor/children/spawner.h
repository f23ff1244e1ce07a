#ifndef SUPERVISOR_CHILDREN_SPAWNER_H
#define SUPERVISOR_CHILDREN_SPAWNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "supervisor/children/processes.h"
#include "supervisor/host/host.h"

/* Functions of the master that a new child calls. */
struct spawner_master {
	void (*close_masters)(void *master);		/* closes what only the master uses */
	int (*queue_index_of)(const char *name);	/* in the sweeper: as in struct child */
	void *master;					/* for close_masters() */
};

/*
 * Forks children, and owns what every child inherits: the pipes by which children and the keeper see that the master is
 * gone, and the cgroup of this boot. staffing.c decides when to fork.
 */
struct spawner {
	struct processes *processes;
	struct lock *lock;
	uint64_t boot;
	int cgroup_fd;			/* directory of this boot's cgroup; -1: there is none */
	int life_fd[2];			/* children read EOF when the master is gone */
	/* the keeper reads EOF when master, workers and sweepers are gone; -1: none or closed */
	int keeper_fd[2];
	int64_t retry_at_ms;		/* after a failed fork: no fork before */
	int failures;			/* of fork in a row; 0 after a success */
	struct spawner_master of;
};

/* The task of a new worker. */
struct spawner_worker {
	const struct conf_queue *conf;
	int queue, index;		/* as in struct process_role */
	uint32_t handler_generation;
	bool successor;			/* as in struct process_role */
	enum order order;		/* its first order: a quiet worker fetches nothing from the first turn on */
};

/* chooses the boot */
void spawner_init(struct spawner *s, struct processes *ps, struct lock *lock, const struct spawner_master *of);

/* -1: errno, and *what names the call that failed. */
int spawner_open(struct spawner *s, bool embedded, const char **what);
void spawner_leave_keeper(struct spawner *s);	/* the keeper ends once no other child holds its pipe */
void spawner_close(struct spawner *s);		/* removes the cgroup */

/* Each forks one child. Returns its slot; -1: no process, no memory or no slot. The failure was logged, and delays the
 * next fork. */
int spawner_fork_worker(struct spawner *s, const struct conf *conf, unsigned epoch, const struct spawner_worker *w,
    int64_t now_ms);
int spawner_fork_sweeper(struct spawner *s, const struct conf *conf, unsigned epoch, int64_t now_ms);
int spawner_fork_keeper(struct spawner *s, const struct conf *conf, unsigned epoch, int64_t now_ms);

#endif
