#ifndef WORKER_ADMISSION_H
#define WORKER_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/board/board.h"

struct worker;

/* Owner: admission.c. Whether the worker requests messages now; if not, why, and until when. */
struct admission {
	enum worker_hold hold;	/* the first one that applies; WORKER_ADMITTED: none does */
	/*
	 * CLOCK_MONOTONIC: the hold may end then without an event. ADMISSION_BY_EVENT: each event that can end it also
	 * ends the poll: an answer of Redis, an answer or the end of the handler, a signal of the master, or the
	 * deadline of another component.
	 */
	int64_t until_ms;
};
#define ADMISSION_BY_EVENT INT64_MAX

/* The only place that says why the worker does not fetch. It changes nothing. */
struct admission admission_judge(const struct worker *w);
/*
 * How many messages the next fetch asks for; 0 or less: none are wanted. With messages in flight, the worker requests
 * more only if it will start them soon, or if the handler takes them at once: it fills the window of a persistent
 * handler however long a message takes.
 */
int admission_count(const struct worker *w);
/* a fetch of n messages may wait in Redis for the first one */
bool admission_may_block(const struct worker *w, int n);
/* no order, gate or pause keeps the worker from fetching and starting messages */
bool admission_lets_work(const struct worker *w);

/* Before the fetch of a turn: judges, and keeps the judgement for admission_show(). */
enum worker_hold admission_look(struct worker *w);
/* The end of a turn, after admission_look(): shows the state and the hold on the scoreboard. admission_deadline_ms()
 * then returns the end of that hold. */
void admission_show(struct worker *w);
int64_t admission_deadline_ms(const struct worker *w, int64_t now_ms);

#endif
