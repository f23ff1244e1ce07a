#ifndef SWEEPER_SWEEPER_H
#define SWEEPER_SWEEPER_H

#include <bsd/sys/queue.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/child.h"
#include "common/dead.h"
#include "common/queue.h"
#include "common/redis.h"
#include "common/server_clock.h"
#include "sweeper/deaths.h"
#include "sweeper/health.h"
#include "sweeper/metrics.h"
#include "sweeper/node.h"
#include "sweeper/purge.h"
#include "sweeper/recover.h"
#include "sweeper/registry.h"
#include "sweeper/server.h"
#include "sweeper/swept.h"
#include "sweeper/task.h"
#include "sweeper/vacancies.h"

/*
 * The sweeper: one process, one connection to Redis, one loop. Its work is a list of tasks (task.h), most of them in one queue at a time.
 *
 * The core
 *	sweeper.c	the loop, orders of the master, the end
 *	task.c		runs the tasks: when, in which queues, and after an error
 *	swept.c		the queues that the sweeper knows, and their gates
 *	trouble.c	errors of a queue: logged once, shown in status and health, tried again less and less often
 *	connection.c	the connection, answers, secrets	server.c	what kind of server it is, and whether it is refused
 *	clock.c		the server's time			interrupt.c	signals
 *	errand.c	children that do work which may block
 *
 * Messages of dead workers go back
 *	recover.c	at the start of a queue			deaths.c	deaths that the master reports
 *	watch.c		owners that nobody reports		pulse.c		proves that their leases had time to be renewed
 *	rescue.c	one rescue; rescue_learn.c reads what it must know first, rescue_page.c moves a page of messages
 *	late.c		trays of the dead that fill afterwards	dead_boots.c	ends what the handlers of a dead supervisor left running
 *	departures.c	warns of messages in a queue that left the configuration
 *
 * Messages whose time has come, or has passed
 *	due.c		retries that are due; pauses		aside.c		what Redis refused to move
 *	stamps.c	writes since when messages wait		ttl.c, expire.c	what has waited longer than its ttl
 *	purge.c		what exists for too long; purge_look.c, purge_exit.c, purge_check.c; purge_transit.c reports what runs for too long
 *	history.c	done messages
 *
 * Dead letters
 *	letters.c	which leave, by number and age; letters_page.c, letters_claim.c, letters_archive.c; archive.c writes the files
 *	forward.c	copies records to another queue		orphans.c	records without a dead letter
 *
 * The registry
 *	lead.c		which host does a queue's periodic work
 *	registry.c	our queues in it, those of others; registry_page.c reads it; vacancies.c removes entries that nobody uses
 *
 * Reports
 *	tally.c		statistics				gauge.c		measures a queue
 *	metrics.c	when, and for whom: statsd.c, textfile.c (with prometheus.c)
 *	health.c	judges a gauge (health_rule.c), and reports it (health_document.c)
 *	node.c		what this host says of itself
 */
struct sweeper {
	const struct child *child;
	const struct conf *conf;
	struct slot *slot;

	/* connection.c */
	struct redis_target target;
	struct redis redis;
	char client_name[QUEUE_NAME_MAX + 32];	/* CLIENT SETNAME */
	bool up;			/* connected, and the server takes our writes */
	char down[256];			/* why not, as logged last; "": it is or never was up */
	unsigned failures;		/* openings in vain, in a row */
	int64_t connect_at_ms;		/* CLOCK_MONOTONIC: not before */
	char error[256];		/* the last error answer of a queue */
	enum queue_trouble error_kind;

	/* clock.c */
	struct server_clock clock;
	int64_t clock_logged_ms;	/* CLOCK_MONOTONIC: that it was set */
	int64_t clock_keep_at_ms;	/* the same: it is written down */
	bool clock_recalled;		/* from what was written down; no answer has agreed yet */

	/* server.c */
	struct server server;
	int64_t server_looked_ms;	/* CLOCK_MONOTONIC */
	enum queue_trouble refusal;	/* other than NONE: every gate is shut */

	struct swept_list queues;
	struct registry registry;
	struct vacancies vacancies;
	struct pulse pulse;		/* pulse.c: the last one on this connection; zeroed if it was refused */
	struct redis_identity server_seen;	/* pulse.c: the server that took the last pulse whose answer named it */
	unsigned pulses;		/* due so far */
	bool looking;			/* a round of looks is under way */
	struct dead_boot *dead_boots;	/* dead_boots.c */
	struct deaths deaths;
	int64_t *transit_told;		/* purge_transit.c: by slot, started_ms of what was told of; NULL: nothing */
	struct purge_check purge_check;	/* purge_check.c */
	struct health_sum health;
	struct metrics metrics;
	bool secret_trouble;		/* connection.c: the secrets could not be read; that was logged */
	bool unreported;		/* node.c: its report was refused; that was logged */

	/* sweeper.c */
	int64_t *task_due_ms;		/* CLOCK_MONOTONIC, one a task */
	int64_t finish_by_ms;		/* 0: not ordered to */
	bool master_gone;
	bool clearing;			/* something that killed errands left is dying (errand.c) */
	uint32_t log_epoch;
};

/* The sweeper makes progress: the master ends one that says nothing for 10 s (supervisor/watch.c). */
void sweeper_beat(const struct sweeper *s);
/* Between two units: beats, and says whether there may be another one. */
bool sweeper_goes_on(struct sweeper *s);

/* ---- connection.c ---- */

int connection_init(struct sweeper *s);
void connection_free(struct sweeper *s);
/* Opens, and looks at the server. -1: not now; connect_at_ms says when again. May take 5 s. */
int connection_open(struct sweeper *s, int64_t now_ms);
void connection_lost(struct sweeper *s, int64_t now_ms);	/* the reason is in redis.error */
/*
 * Waits for the next answer. 0: a good one. -1: the connection is lost (redis.state), or it is an error
 * that concerns this queue alone: s->error, s->error_kind.
 */
int connection_answer(struct sweeper *s, struct redis_reply *reply);
/*
 * The length of the first entry of a list, from the beginning of an answer that is then given up, with a connection of its own. Writes the first
 * `wanted` bytes of the entry to begin. -1: the entry is not longer than that, or Redis did not answer. Redis copies the entry once.
 */
int64_t connection_glimpse(struct sweeper *s, const char *list, char *begin, size_t wanted);
int connection_unexpected(struct sweeper *s);		/* says that an answer was of another type; returns -1 */
int connection_integer(struct sweeper *s, int64_t *out);	/* the same for INTEGER; other types are errors */
int connection_secret(struct sweeper *s);	/* learns the secrets, and puts ours back where they are missing. -1: as connection_answer() */
void connection_drain(struct sweeper *s);	/* answers nobody took because one before them was an error */

/* ---- trouble.c ---- */

/* s->error has befallen `at` ("due", "rescue"): logged if it is news, tried again after a back-off. Returns -1. Nothing if the connection is lost */
int trouble_note(struct sweeper *s, struct swept *q, struct trouble *t, const char *at, int64_t now_ms);
/* The connection was lost over it, perhaps because of it: so after a back-off, too, and others come first. Logged if that goes on. */
void trouble_cut(struct swept *q, struct trouble *t, const char *at, int64_t now_ms);
void trouble_over(struct sweeper *s, struct swept *q, struct trouble *t);
void trouble_forget(struct swept *q, struct trouble *t);	/* the same without a word: what it was about is no longer there */
void trouble_say(struct sweeper *s, enum queue_trouble kind, const char *error);	/* fills s->error */
/* Storms, WRONGTYPE, … of an error answer's text. */
enum queue_trouble trouble_kind(const char *error);

/* ---- server.c ---- */

int server_look(struct sweeper *s, int64_t now_ms);		/* INFO; sets server, refusal and every gate. -1: lost */

/* ---- swept.c ---- */

void swept_init_all(struct sweeper *s);
void swept_free_all(struct sweeper *s);
struct swept *swept_find(struct sweeper *s, const char *name);	/* NULL: none */
struct swept *swept_add(struct sweeper *s, struct queue_keys keys, const struct conf_queue *conf);	/* keys become its own */
void swept_drop(struct sweeper *s, struct swept *q);	/* one without rescues */
/*
 * Asks who is registered as a worker of it, and takes from them what only they can tell of a queue that is not configured here.
 * workers: to be freed; reply: what they were read from, good until the next answer. -1: as connection_answer()
 */
int swept_workers(struct sweeper *s, struct swept *q, struct redis_reply *reply, struct queue_worker **workers, size_t *n);
void swept_gate(struct sweeper *s, struct swept *q);	/* brings the gate to what is known */
void swept_set_paused(struct sweeper *s, struct swept *q, bool paused);	/* as Redis says; and the gate */
void due_set_delayed(struct swept *q, bool delayed);	/* due.c: something may be due */
void swept_publish(struct sweeper *s, struct swept *q);	/* the same for the trouble shown */
void swept_publish_undecided(struct swept *q);	/* the same for why a silent worker's messages are not returned: status, health, the node's report */
void swept_publish_all(struct sweeper *s, enum queue_trouble kind);	/* it concerns them all; NONE: it is over */
void swept_count(struct swept *q, enum counter counter, uint64_t n);
void swept_lag(struct swept *q, int64_t lag_ms);	/* so long after it was due or expired a message was moved */

/* ---- lead.c ---- */

bool lead_wanted(const struct sweeper *s, const struct swept *q);	/* it has periodic work */
bool lead_is_ours(const struct swept *q);	/* by a lease that has not run out, on this connection */
bool lead_was_ours(const struct swept *q);	/* by the last answer: what status goes by */
#define LEAD_NAME_SIZE (QUEUE_NAME_MAX + 32)
void lead_name(const struct sweeper *s, char out[LEAD_NAME_SIZE]);	/* by which Redis knows the leader */
void lead_doubt(struct sweeper *s);	/* the connection is lost: the next server may know another leader. No periodic work before it is asked */
void lead_give_up(struct sweeper *s);

/* ---- pulse.c ---- */

/*
 * A renewing write, and who took it. First on each connection, so that no look is made before it is known which server is looked
 * at. -1: refused (s->error), or the connection is lost
 */
int pulse_send(struct sweeper *s);

/* ---- watch.c ---- */

void watch_round(struct sweeper *s);	/* every queue is looked at once more, as soon as the round before is over */
bool watch_queue(struct sweeper *s, struct swept *q, int64_t now_ms);	/* false: not ours, nothing is to be done, dropped */

/* ---- dead_boots.c ---- */

/* Whose supervisors of ours are dead, before dead_boots_end() is asked for one of them: they are looked for together. */
void dead_boots_note(struct sweeper *s, const struct queue_worker *workers, size_t n);
/*
 * Kills and awaits what the handlers of this owner's supervisor left. -1: some of it lives, s->error tells of it, ask again. 0: nothing
 * is left; or it was tried often enough, and an alarm was raised.
 */
int dead_boots_end(struct sweeper *s, const char *incarnation);
void dead_boots_free(struct sweeper *s);

/* ---- late.c ---- */

/* Of these, who are dead: what lies in their trays is to be returned. gate: before the queue is opened. */
int late_look(struct sweeper *s, struct swept *q, const char *const *names, size_t n, bool gate);

/* ---- clock.c ---- */

void clock_init(struct sweeper *s);
/* The server said so to what was sent at sent_ms of CLOCK_BOOTTIME and is just answered: learned from, shown on the board */
void clock_learn(struct sweeper *s, int64_t server_ms, int64_t sent_ms);

int clock_recall(struct sweeper *s);	/* what was written down before a restart, if nothing is known. -1: the connection is lost */
void clock_keep(struct sweeper *s);	/* writes it down: the last time */

#endif
