#ifndef ADMIN_MOVES_BY_FILTER_H
#define ADMIN_MOVES_BY_FILTER_H

#include <stdbool.h>

#include "admin/cli/cli.h"

/* Retries or deletes dead letters that a filter means, or at the pace of --canary, --rate and --max-failures. outcome: of the command, before the first one */
int by_filter_run(struct admin *a, bool retry, const struct outcome *outcome);
/* "quredis dlq retry mail --all --class Mine --rate 5/s": with filter and pace of these options, quoted for a shell; a new string. action: "dlq retry" */
char *by_filter_command(const struct admin *a, const char *action, const struct options *o);

#endif
