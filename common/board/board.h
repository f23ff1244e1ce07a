#ifndef COMMON_BOARD_BOARD_H
#define COMMON_BOARD_BOARD_H

/* What the master shares with its children: the scoreboard, and the contract between them. */
#include "common/board/child.h"
#include "common/board/scoreboard.h"
#include "common/board/server_clock.h"

#endif
