#ifndef ADMIN_TREND_TREND_H
#define ADMIN_TREND_TREND_H

/*
 * quredis trend.
 *	trend	the command: reads the figures of minutes, and adds them up to points
 *	waits	the estimate of how long messages waited
 */
#include "admin/cli/cli.h"

int cmd_trend(struct admin *a);

#endif
