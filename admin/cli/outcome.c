/* Prints the last line of a command: the number of messages that it moved or deleted, and of those that it left. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "admin/cli/outcome.h"

#include "common/base/base.h"

char *outcome_count(int64_t n)
{
	return alloc_format("%" PRId64 " message%s", n, n == 1 ? "" : "s");
}

static void say_json(struct admin *a, const struct outcome *o)
{
	static const struct column columns[] = {
		{ "queue", "", false }, { "action", "", false }, { "list", "", false }, { "count", "", false },
		{ "held", "", false }, { "interrupted", "", false }, { "dry_run", "", false },
	};

	output_object(&a->output, columns, nitems(columns),
	    (struct cell[]){ cell_str(a->keys.name), cell_str(o->action), cell_str(o->list), cell_int(o->count),
		cell_int(o->held), cell_bool(o->interrupted), cell_bool(a->options.dry_run) });
}

void outcome_say(struct admin *a, const struct outcome *o)
{
	char *count = outcome_count(o->count), *held = outcome_count(o->held);

	if (a->options.json)
		say_json(a, o);
	else
		printf("%s %s%s%s\n", a->options.dry_run ? o->would : o->did, count, o->list == NULL ? "" : " of ",
		    o->list == NULL ? "" : o->list);
	if (o->held > 0)
		admin_note("%s with live workers left alone (--force takes them too)", held);
	if (o->interrupted)
		admin_note("interrupted; run it again to continue");
	free(count);
	free(held);
}
