#ifndef ADMIN_OUTCOME_H
#define ADMIN_OUTCOME_H

#include <stdbool.h>
#include <stdint.h>

#include "admin/admin.h"

/* What a command did to how many messages. */
struct outcome {
	const char *action;	/* the command: "purge" */
	const char *did, *would;	/* "purged", "would purge" */
	const char *list;	/* "escape"; NULL: none */
	int64_t count;
	int64_t held;		/* with live workers, left alone */
	bool interrupted;	/* before all was done */
};

void outcome_say(struct admin *a, const struct outcome *o);

/* "1 message", "2 messages": a new string. */
char *outcome_count(int64_t n);

#endif
