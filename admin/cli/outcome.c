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
		/* with a durability: */
		{ "confirmed", "", false }, { "on_disk", "", false }, { "replicas", "", false }, { "replicas_on_disk", "", false },
	};
	static const struct outcome_durability none;
	const struct outcome_durability *d = o->durability == NULL ? &none : o->durability;

	output_object(&a->output, columns, nitems(columns) - (o->durability == NULL ? 4 : 0),
	    (struct cell[]){ cell_str(a->keys.name), cell_str(o->action), cell_str(o->list), cell_int(o->count),
		cell_int(o->held), cell_bool(o->interrupted), cell_bool(a->options.dry_run), cell_bool(d->confirmed),
		cell_bool(d->on_disk), cell_int(d->replicas), cell_bool(d->replicas_on_disk) });
}

/* What was confirmed: a new string. Empty: nothing, or it was not asked for. */
static char *durability_text(const struct outcome_durability *d)
{
	struct buffer text = {0};

	if (d != NULL && d->confirmed && d->on_disk)
		buffer_format(&text, ", on disk");
	if (d != NULL && d->confirmed && d->replicas > 0)
		buffer_format(&text, "%s %s of %" PRId64 " replica%s", d->on_disk ? " and" : ",", d->replicas_on_disk ? "on disk" : "in memory", d->replicas,
		    d->replicas == 1 ? "" : "s");
	return text.len == 0 ? alloc_string("") : text.data;
}

void outcome_say(struct admin *a, const struct outcome *o)
{
	char *count = outcome_count(o->count), *held = outcome_count(o->held), *durability = durability_text(o->durability);

	if (a->options.json)
		say_json(a, o);
	else
		printf("%s %s%s%s%s\n", a->options.dry_run ? o->would : o->did, count, o->list == NULL ? "" : " of ",
		    o->list == NULL ? "" : o->list, durability);
	if (o->held > 0)
		admin_note("%s with live workers left alone (--force takes them too)", held);
	if (o->interrupted)
		admin_note("interrupted; run it again to continue");
	free(count);
	free(held);
	free(durability);
}
