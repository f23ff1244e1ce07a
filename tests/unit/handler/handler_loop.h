#ifndef TESTS_UNIT_HANDLER_LOOP_H
#define TESTS_UNIT_HANDLER_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/conf/conf.h"
#include "common/handler/handler.h"
#include "common/message/message.h"

/* A loop like the worker's around one handler. All that waits in it fails the test after LOOP_HANG_MS. */
#define LOOP_HANG_MS 60000

/* What a test varies. Cleared before each. */
struct loop {
	struct conf_queue conf;
	char *argv[16];
	struct message message;
	struct handler_job job;
	struct handler *h;
	struct handler_result result;
	int64_t stop_after_ms;		/* -1: never */
	size_t turns;
};
extern struct loop loop;
extern char loop_dir[], loop_log[64], loop_file[64];	/* a directory, the log in it, and what a test writes there */

int loop_setup(void **unused);		/* of the program */
int loop_teardown(void **unused);
int loop_begin(void **unused);		/* of each test */
int loop_end(void **unused);

/* As a queue's `handler`: absolute, no shell but the one named. NULL ends it. */
void loop_set_handler(const char *arg, ...);
void loop_set_payload(const void *data, size_t len);
void loop_become_nobody(void);		/* its user; skipped if we are not root */

int loop_start(void);			/* as handler_start() */
void loop_one_turn(int64_t wait_ms);
int64_t loop_wait_of(int64_t due_ms, int64_t now_ms);
void loop_until_ready(void);		/* it has made loop_file: it is as far as it says */
void loop_finish(void);			/* and nothing is left */
void loop_run(void);			/* from start to end */
void loop_run_shell(const char *script);

void loop_exited_with(int code);
void loop_logged(const char *want);
size_t loop_logged_times(const char *what);

#endif
