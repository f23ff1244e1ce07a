#ifndef ADMIN_MOVES_BY_FILTER_H
#define ADMIN_MOVES_BY_FILTER_H

#include "admin/cli/cli.h"

/* Retries or deletes dead letters that a filter means, or at the pace of --canary, --rate and --max-failures. outcome: of the command, before the first one */
int by_filter_run(struct admin *a, const struct outcome *outcome);

#endif
