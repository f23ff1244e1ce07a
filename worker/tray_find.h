#ifndef WORKER_TRAY_FIND_H
#define WORKER_TRAY_FIND_H

#include "worker/tray.h"

/* the oldest WAITING message; tray -1: none, or its notes are not known */
struct place tray_find_next(struct trays *ts);
/* a message that came after the one with this serial is in a tray */
bool tray_find_since(const struct trays *ts, uint64_t serial);
int tray_find_empty(struct trays *ts);				/* the next EMPTY tray in rotation; -1: none */
/*
 * If all trays are FILLED and no message waits: the tray with the fewest messages of those that take n more; -1: none.
 * Messages run in it, and none moves: if the answers to both a move and the fetch were lost, nothing would tell an
 * equal message that came from the one that left.
 */
int tray_find_open(const struct trays *ts, int n);

#endif
