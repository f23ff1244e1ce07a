#ifndef ADMIN_COMMANDS_INIT_JUDGE_H
#define ADMIN_COMMANDS_INIT_JUDGE_H

#include "admin/cli/cli.h"

/*
 * Whether quredisd would start with the configuration `name` in dir. -1: it would not, and the reasons were printed.
 * planned: nothing is there yet, also not dir, and nothing is written; conf: the text.
 */
int init_judge_written(struct admin *a, const char *dir, const char *name);
int init_judge_planned(struct admin *a, const char *dir, const char *name, const char *conf);

#endif
