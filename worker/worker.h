#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "common/base/base.h"

#include "worker/admission.h"
#include "worker/adopt.h"
#include "worker/breaker.h"
#include "worker/cancel.h"
#include "worker/emit.h"
#include "worker/env.h"
#include "worker/errors.h"
#include "worker/evidence.h"
#include "worker/exit.h"
#include "worker/expiry.h"
#include "worker/fence.h"
#include "worker/fetcher.h"
#include "worker/history.h"
#include "worker/loader.h"
#include "worker/mover.h"
#include "worker/notes.h"
#include "worker/pacing.h"
#include "worker/seats.h"
#include "worker/session.h"
#include "worker/settle.h"
#include "worker/starter.h"
#include "worker/throttle.h"
#include "worker/too_large.h"
#include "worker/tray.h"
#include "worker/tray_find.h"
#include "worker/undeliverable.h"

/*
 * A worker consists of components. Each has a header, and a file of the same name that alone assigns its fields:
 *	env		what the master gives the worker at its start; const
 *	retry, parsed	shared by several components: a back-off; a message that is parsed once
 *	session		the connection to Redis, incarnation, lease, answers in order
 *	errors		what the log and the scoreboard show of errors of Redis
 *	adopt		reads what a tray really holds after a doubt, for example after Redis returned to an earlier
 *			state
 *	too_large	messages longer than message_max
 *	undeliverable	messages that Redis cannot send
 *	tray		the trays and the messages in them
 *	admission	whether the worker fetches now; if not, why, and until when
 *	fetcher		how the worker fetches messages
 *	throttle	the starts that the limits of the queue allow: its rate, and its seats (seats.c)
 *	pacing		how many it fetches: by how long the last ones took
 *	notes		notes beside messages of a shared queue; reads the secrets again for a seal that cannot be
 *			verified
 *	evidence	reports stops and trials to Redis, so that a sweeper can judge a death of this worker
 *	starter		which message starts, and when
 *	runner		runner_exec.c: a process for each message; runner_persistent.c: a persistent handler
 *			(common/handler/)
 *	fence		ends running handlers before the lease expires, if fence = "kill"
 *	cancel		ends messages that an operator has cancelled
 *	expiry		keeps a message that has waited longer than its TTL from starting
 *	settle		verdict.c: what the end of a handler means; settle.c: which move the message gets
 *	emit		what a handler emits: whether its message may push it, and the push
 *	mover		sends the moves, and sends them again until Redis answers
 *	history		acknowledges messages that are done, and writes the history of the queue
 *	breaker		the circuit breaker of the queue, shared by all its workers
 *	exit		the order of the master, and the steps to the end of the process
 * worker.c has the table of those that the loop and the session call, component.h the contract.
 */
struct worker {
	const struct env *env;
	struct session session;
	struct errors errors;
	struct adoption adoption;
	struct too_large too_large;
	struct undeliverable undeliverable;
	struct trays trays;
	struct admission admission;
	struct fetcher fetcher;
	struct throttle throttle;
	struct seats seats;
	struct pacing pacing;
	struct notes notes;
	struct evidence evidence;
	struct starter starter;
	struct loader loader;
	struct runner_exec exec;
	struct runner_persistent persistent;
	struct fence fence;
	struct cancels cancels;
	struct expiry expiry;
	struct mover mover;
	struct history history;
	struct exit exit;
	int64_t now_us;			/* CLOCK_MONOTONIC at the beginning of this turn; worker_look_at_clock() */
	/* CLOCK_MONOTONIC: when this turn was to begin at the latest; 0: the first one */
	int64_t turn_by_ms;
};

/* Reads the clock; sets and returns now_us. */
static inline int64_t worker_look_at_clock(struct worker *w)
{
	w->now_us = clock_monotonic_us();
	return w->now_us;
}

/* The handler of the last process that this worker started: queue_master.newest_generation of that time. */
static inline uint32_t worker_generation(const struct worker *w)
{
	return atomic_load(&w->env->slot->handler_generation);
}

extern const struct components worker_components;

#endif
