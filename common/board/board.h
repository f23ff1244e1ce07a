#ifndef COMMON_BOARD_BOARD_H
#define COMMON_BOARD_BOARD_H

/* The scoreboard, which the master shares with its children, and the contract between master and child. */
#include "common/board/child.h"
#include "common/board/classes.h"
#include "common/board/failed.h"
#include "common/board/scoreboard.h"
#include "common/board/server_clock.h"

#endif
