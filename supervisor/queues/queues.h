#ifndef SUPERVISOR_QUEUES_QUEUES_H
#define SUPERVISOR_QUEUES_QUEUES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/holds/holds.h"
#include "supervisor/children/children.h"

/*
 * The queues of the master: how many workers each one should have, how many it has, and the totals of dead workers. A
 * queue that comes back, or gets other keys, takes a new place here and on the scoreboard, since a sweeper of the
 * earlier configuration may still write to the old place. Both places then have one name; the totals of the older one
 * count for the newer one, its heir.
 *
 * Owner: queues.c, and newest.c of not_ready. They also write the words of struct queue_master on the scoreboard.
 */

/*
 *	NONE -> CONFIGURED	queues_enter()
 *	CONFIGURED -> LEFT	queues_leave(): its last workers finish
 *	LEFT -> NONE		dissolved: another queue needs the place, and nothing uses it any more
 */
enum membership { MEMBER_NONE, MEMBER_CONFIGURED, MEMBER_LEFT };

struct queue_workers {
	char name[PROCESS_QUEUE_SIZE];
	enum membership membership;
	const struct conf_queue *conf;	/* of the running configuration; NULL exactly if not CONFIGURED */
	int heir;			/* the place that continues the queue's totals; -1: none */
	unsigned left_epoch;		/* LEFT: sweepers up to this epoch know the queue */
	int serving;			/* = its workers in PROCESS_SERVING */
	int leaving;			/* = its workers in PROCESS_LEAVING */
	int unreplaced;			/* its dead workers that are not replaced yet; >= 0 */
	bool quiet;			/* the operator stopped its fetches (quredis quiet QUEUE) */
	uint64_t files;			/* conf_handler_files() of the newest handler */
	int scaled;			/* number of workers that the operator set, until a reload; -1: as configured */
	struct policy policy;
	uint32_t handler_generation;	/* of the newest workers; only ever rises */
	/* a handler of that generation was not ready, and workers with earlier ones go on (renewal.c) */
	bool not_ready;
	int64_t tried_ms;		/* not_ready: when its process was started */
	uint64_t done_seen;		/* the word workers.done at the last look */
	uint32_t openings_seen;		/* the word sweeper.openings, as queues_wake_opened() saw it last */
	enum hold hold;			/* as logged last */
	const char *reason;		/* the same; static; NULL: none */
	uint32_t also;			/* the same: struct judged */
};

struct queues {
	struct scoreboard *board;
	struct processes *processes;
	const struct deaths *deaths;
	struct queue_workers items[SCOREBOARD_QUEUES];
	int n;				/* places from this index on were never used */
	bool quiet;			/* the operator stopped the fetches of all queues */
};

void queues_init(struct queues *qs, struct processes *ps, const struct deaths *d);

/* ---- looking ---- */

/* Returns the next queue of the configuration after q; q NULL: the first one. NULL: there is no further one.
 * queues_place() gives its index. */
const struct queue_workers *queues_next(const struct queues *qs, const struct queue_workers *q);
int queues_place(const struct queues *qs, const struct queue_workers *q);
int queues_find(const struct queues *qs, const char *name);	/* index of a queue of the configuration; -1: none */
int queues_wanted(const struct queue_workers *q);
int queues_wanted_by_others(const struct queues *qs, int queue);	/* in all other queues together */
/* the queue itself, or the last one in its line of heirs */
int queues_root(const struct queues *qs, int queue);
int queues_count_workers(const struct queues *qs);		/* living workers, including those that leave */
bool queues_are_complete(const struct queues *qs);		/* each queue has the workers that it wants */
/* the number for a missing worker; -1: none is missing, or none may start yet */
int queues_free_index(const struct queues *qs, int queue);

/* ---- the configuration changes ---- */

int queues_enter(struct queues *qs, const struct conf_queue *conf);	/* -1: there are too many */

/* The queue leaves the configuration: its workers finish. epoch: of the configuration that it leaves. */
void queues_leave(struct queues *qs, int queue, unsigned epoch, int64_t now_ms);
/* the queue has the same keys in the new configuration */
void queues_keep(struct queues *qs, int queue, const struct conf_queue *conf);

/* The configuration of the queue changes: its workers have an older one than the next handler, which
 * queues_recycle() wants. */
void queues_note_conf(struct queues *qs, int queue);

/* The files of its handler, in the new configuration, are others than those of its workers. */
bool queues_have_older_files(const struct queues *qs, int queue, const struct conf_queue *conf);

/*
 * Replaces all workers of the queue: new ones start first, then the old ones finish. A worker of a number that still
 * has two living ones starts when one of these has finished; until then it is missing. With `ready`, in the present
 * configuration of the queue, renewal_step() replaces them.
 */
void queues_recycle(struct queues *qs, int queue, int64_t now_ms);

/* ---- the operator ---- */

void queues_scale(struct queues *qs, int queue, int workers);
void queues_set_quiet(struct queues *qs, int queue, bool quiet, int64_t now_ms);
void queues_set_all_quiet(struct queues *qs, bool quiet, int64_t now_ms);
enum order queues_first_order(const struct queues *qs, int queue);	/* of a new worker: RUN or QUIET */

/* ---- workers come and go ---- */

void queues_worker_forked(struct queues *qs, int queue, int64_t now_ms);

/*
 * The worker in this slot ended. died: the crash policy of the queue counts it. chance: 0..1, for the policy. Call this
 * before processes_release().
 */
void queues_worker_ended(struct queues *qs, int slot, bool died, int64_t now_ms, double chance);
/* How the worker ended: its exit status, or its signal. */
void queues_note_end(struct queues *qs, int queue, int code, bool by_signal, int64_t now_ms);
/* workers beyond the number wanted leave */
void queues_dismiss_surplus(struct queues *qs, int queue, int64_t now_ms);

/* Called once a second: tells the policies of successes, logs states that changed, and compares the counts of workers
 * with the table of processes. */
void queues_look(struct queues *qs, int64_t now_ms);
/* wakes the workers of each queue whose gate has opened since the last call */
void queues_wake_opened(struct queues *qs);
/* what the judge of holds reads (common/holds/): call it after a change, before somebody judges */
void queues_publish(struct queues *qs);

/* ---- for renewal.c ---- */

/* newest.c */
void queues_note_files(struct queues *qs, int queue);			/* the next workers load what is there now */
void queues_want_handler(struct queues *qs, int queue);			/* there is a newer one */
/* why the handler of the newest generation was not ready, and when its process was started. NULL: nothing is known
 * against it */
void queues_set_not_ready(struct queues *qs, int queue, const char *why, int64_t tried_ms);
/* no worker has an earlier handler any more */
void queues_widen_not_ready(struct queues *qs, int queue);
bool queues_know_not_ready(const struct queues *qs, int queue);		/* of whichever kind */
/* The breaker is about the newest generation from now on. proven: that works, as far as the scoreboard knows;
 * otherwise what is known against the one before stands until a handler is READY. */
void queues_adopt_handler(struct queues *qs, int queue, bool proven);
void queues_dismiss(struct queues *qs, int slot, int64_t now_ms);	/* the worker leaves */
/* A successor serves. replaces_dead: the worker of its number died */
void queues_promote(struct queues *qs, int slot, bool replaces_dead);

#include "supervisor/queues/renewal.h"
#include "supervisor/queues/totals.h"

#endif
