#ifndef COMMON_BOARD_BOARD_H
#define COMMON_BOARD_BOARD_H

/* The shared memory between the master and its children, and what they have agreed on. */
#include "common/board/child.h"
#include "common/board/scoreboard.h"
#include "common/board/server_clock.h"

#endif
