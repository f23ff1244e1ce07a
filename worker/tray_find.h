#ifndef WORKER_TRAY_FIND_H
#define WORKER_TRAY_FIND_H

#include "worker/tray.h"

/* the oldest WAITING message; tray -1: none, or its notes are not known */
struct place tray_find_next(struct trays *ts);
int tray_find_empty(struct trays *ts);				/* the next EMPTY tray in rotation; -1: none */
/*
 * While messages run in all trays, and none waits: the tray that takes n more, the one with the fewest; -1: none. Nor
 * is there one while a tray is DELETING, since it will be empty soon.
 */
int tray_find_open(const struct trays *ts, int n);

#endif
