#ifndef ADMIN_MOVES_BY_FILTER_H
#define ADMIN_MOVES_BY_FILTER_H

#include <stdbool.h>

#include "admin/cli/cli.h"

/* Retries or deletes dead letters that a filter means, or at the pace of --canary, --rate and --max-failures. outcome: of the command, before the first one */
int by_filter_run(struct admin *a, bool retry, const struct outcome *outcome);
/*
 * The whole command, for an operator who pastes it: "quredis -c FILE dlq rm QUEUE --all --class X". action: "dlq rm"; options: of the filter and the pace, as
 * options_to_json() returns them. A new string; NULL: they are not known, there are none, or a terminal cannot show each of their bytes.
 */
char *by_filter_command(const struct admin *a, const char *action, const struct json_t *options);

#endif
