#ifndef TESTS_FUZZ_FAKE_HANDLER_H
#define TESTS_FUZZ_FAKE_HANDLER_H

#include "tests/fuzz/input.h"

/* common/handler/handler.h without a process: it runs until it is told how it ended. */
void fake_handler_begin(struct input *in);
void fake_handler_act(void);		/* it may end now */
bool fake_handler_runs(void);

#endif
