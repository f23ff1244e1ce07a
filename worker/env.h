#ifndef WORKER_ENV_H
#define WORKER_ENV_H

#include "common/board/board.h"
#include "common/queue/queue.h"

/*
 * Owner: env.c. Everything that the master gives a worker at its start. It does not change afterwards, so the
 * components get it const. slot and board point into the scoreboard, which other processes read and write: use atomic
 * operations only.
 */
struct env {
	const struct child *child;
	const struct conf_queue *conf;
	struct slot *slot;		/* of this worker only */
	struct board_queue *board;	/* shared by all workers of the queue */
	char name[QUEUE_NAME_MAX + 16];	/* "mail/2", for the log and for records */
	struct queue_keys keys;
	struct queue_keys *targets;	/* those of conf->emit.targets; NULL: none */
};

struct env *env_new(const struct child *child);		/* keeps child */
void env_free(struct env *env);
void env_count(const struct env *env, enum counter counter, int n);	/* adds n to a counter of the slot */
/*
 * The record of a message that fails in this worker, now, without a run and without its payload. incarnation, class and
 * why are not copied. m NULL: nothing of the message is known.
 */
struct record env_record(const struct env *env, const char *incarnation, const struct message *m, const char *class,
    const char *why);

#endif
