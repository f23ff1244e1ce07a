#ifndef WORKER_EQUAL_H
#define WORKER_EQUAL_H

#include <stdbool.h>

#include "worker/tray.h"

/* False: a move of an equal message is unanswered, so this one waits, or nobody could tell later which has left. */
bool equal_may_leave(const struct tray *t, const struct item *item);

#endif
