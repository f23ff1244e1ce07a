#ifndef TESTS_UNIT_WORKER_ADOPT_FIXTURE_H
#define TESTS_UNIT_WORKER_ADOPT_FIXTURE_H

#include "tests/unit/worker/lone_worker.h"

/*
 * A lone worker without a name, what it believes to lie in its first tray, and what really lies there, on lone_server. A group of
 * tests also needs lone_worker_start_server() and lone_worker_stop_server().
 */
extern struct worker *w;
extern int set_aside;			/* calls of settle_set_aside() */

int adopt_fixture_setup(void **state);
int adopt_fixture_teardown(void **state);

/*
 * A tray as a string: a letter and a state for each message, oldest first. w waiting, r running, d done, m its move was sent, u it
 * was not sent yet, g gone. Afterwards also: l running and lost, W waiting and told that it may have run before.
 */
void adopt_fixture_believe(enum tray_state state, const char *items);
const char *adopt_fixture_believed(void);
uint64_t adopt_fixture_lost(void);		/* messages that were lost, by the slot's counter */

/* The worker compares its first tray with the list in Redis, after these messages were pushed there: letters, oldest first; "": none. */
void adopt_fixture_compare(const char *there);

#endif
