#ifndef TESTS_UNIT_WORKER_FAKE_PERSISTENT_H
#define TESTS_UNIT_WORKER_FAKE_PERSISTENT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/handler/persistent.h"

/* common/handler/persistent.h without a process: there is one handler, which says what the test has set here, and counts what it is told. */
struct persistent {
	bool fork_fails, running, ready, loads, fresh, has_ended, kept;
	int room, unanswered, reads;		/* reads: how often persistent_read() finds answers */
	uint64_t given[16], unwritten_from;	/* 0: all is written */
	int ngiven, starts, stops, cancels, kills, drains, quiets;
	int64_t timeout_at_ms, strays;
	struct handler_reply replies[8];
	void (*at_start)(void);			/* NULL: nothing is looked at then */
	const struct handler_reply *progress;
	int nreplies;
	struct persistent_end end;
};
extern struct persistent process;

#endif
