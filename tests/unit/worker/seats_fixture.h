#ifndef TESTS_UNIT_WORKER_SEATS_FIXTURE_H
#define TESTS_UNIT_WORKER_SEATS_FIXTURE_H

#include "tests/unit/worker/lone_worker.h"

/*
 * A lone worker of a queue with three seats, registered on lone_server, and a runner in place of a handler. A group of tests also
 * needs lone_worker_start_server() and lone_worker_stop_server(), and each test lone_worker_teardown().
 */
#define SEATS "quredis:of:i:seats"		/* the hash */
#define SEATS_FREE SEATS ":free"		/* the list that wakes workers */
#define SEATS_NOW_MS 1000000			/* seats_now_ms() when a test begins */

extern int seats_room;				/* so many messages the runner takes beside those that run; 4 when a test begins */
extern int seats_renewed;			/* calls of session_renew_incarnation() */

int seats_setup(void **state);
int64_t seats_now_ms(void);

void seats_take_answer(void);			/* gives the component the next answer to its requests */
bool seats_asked(int wanted, bool from_ingress);	/* seats_ask(). Returns whether that sent a request */
bool seats_asked_and_answered(int wanted, bool from_ingress);

const char *seats_in_redis(void);		/* the field of this worker in the hash; "": none */
void seats_others_take(int n);			/* 1..3: another name has so many, in place of what it had */

/* The first tray gets n messages; the run of one begins, or ends well. */
void seats_fill(int n);
void seats_run(int item);
void seats_end(int item);

#endif
