#ifndef TESTS_UNIT_PERSISTENT_LOOP_H
#define TESTS_UNIT_PERSISTENT_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/message/message.h"
#include "common/handler/persistent.h"

/*
 * A loop like the worker's around a handler that stays, which is this program again (tests/unit/persistent/scripted_handler.h). All that
 * waits in it fails the test after LOOP_HANG_MS.
 */
#define LOOP_HANG_MS 60000
#define LOOP_GOT_MAX 4096

/* What a test varies, and what came of it. Cleared before each. */
struct loop {
	struct conf_queue conf;
	char *argv[8];			/* of the handler: this program, "handler", how */
	struct persistent *p;
	uint64_t serial;		/* of the last job */
	struct message messages[LOOP_GOT_MAX];	/* by serial */
	struct handler_job job;		/* the next one, but for its message */
	struct loop_got {
		uint64_t serial;
		enum handler_verb verb;
		int64_t delay_ms;
		char reason[256];
		size_t reason_len;
		char stderr_tail[256];
	} got[LOOP_GOT_MAX];
	int ngot;
	bool count_only;		/* answers, which are all OK */
	long counted;
	bool ended;
	struct persistent_end end;
	char end_stderr[256];
	int64_t now_ms;
};
extern struct loop loop;

int loop_setup(void **unused);		/* of the program */
int loop_teardown(void **unused);
int loop_begin(void **unused);		/* of each test */
int loop_end(void **unused);

void loop_start(void);
void loop_start_with(const char *how);
/* Returns its serial. data must live until it is answered. */
uint64_t loop_give_bytes(const void *data, size_t len);
uint64_t loop_give(const char *commands);

void loop_turn(void);
void loop_take_all(void);		/* answers that are there */
void loop_until_answers(int n);
void loop_until_end(void);		/* and nothing is left */
void loop_until_logged(const char *want);
void loop_drain(void);			/* it ends well, with nothing unanswered */

void loop_got(int i, uint64_t serial, enum handler_verb verb, int64_t delay_ms, const char *reason);
void loop_got_ok(int i, uint64_t serial);
void loop_logged(const char *want);
void loop_not_logged(const char *what);

#endif
