#ifndef SWEEPER_NODE_H
#define SWEEPER_NODE_H

#include <stdbool.h>
#include <stdint.h>

struct sweeper;

void node_drop(struct sweeper *s);	/* at a stop: it is gone */

#endif
