#ifndef TESTS_UNIT_WORKER_EVIDENCE_FIXTURE_H
#define TESTS_UNIT_WORKER_EVIDENCE_FIXTURE_H

#include "tests/unit/worker/lone_worker.h"

/*
 * A lone worker whose evidence is only noted here. A test program that links this file needs
 *	ldflags: -Wl,--wrap=queue_annotate
 */
extern struct evidence_fixture {
	int written;			/* calls of queue_annotate(), and the last of them: */
	char key[16], value[64];
} noted;

int evidence_fixture_setup(void **state);
int evidence_fixture_setup_shared(void **state);	/* the queue is shared */

#endif
