/* Prints the last line of a command: the number of messages that it moved or deleted, and of those that it left. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admin/cli/outcome.h"

#include "admin/cli/notice.h"
#include "common/base/base.h"

char *outcome_count(int64_t n)
{
	return alloc_format("%" PRId64 " message%s", n, n == 1 ? "" : "s");
}

#define COLUMNS_MAX 24

struct line {
	struct column columns[COLUMNS_MAX];
	struct cell cells[COLUMNS_MAX];
	size_t n;
};

static void add(struct line *l, const char *key, struct cell cell)
{
	assert(l->n < COLUMNS_MAX);
	l->columns[l->n] = (struct column){ key, "", COLUMN_NAME };
	l->cells[l->n++] = cell;
}

static void add_unique(struct line *l, const struct queue_unique *u)
{
	add(l, "found", cell_bool(!u->pushed));
	add(l, "found_id", u->id[0] == '\0' ? cell_none() : cell_str(u->id));
	add(l, "found_pushed", u->pushed || u->pushed_ms == -1 ? cell_none() : cell_time(u->pushed_ms));
	add(l, "found_left_ms", u->pushed || u->left_ms == -1 ? cell_none() : cell_int(u->left_ms));
}

static void say_json(struct admin *a, const struct outcome *o)
{
	const struct outcome_durability *d = o->durability;
	const struct outcome_operation *p = o->operation;
	struct line l = {0};

	add(&l, "queue", cell_str(a->keys.name));
	add(&l, "action", cell_str(o->action));
	add(&l, "list", cell_str(o->list));
	add(&l, "count", cell_int(o->count));
	add(&l, "held", cell_int(o->held));
	add(&l, "interrupted", cell_bool(o->interrupted));
	add(&l, "dry_run", cell_bool(a->options.dry_run));
	if (o->due_ms != 0) {
		add(&l, "due", cell_time(o->due_ms));
		add(&l, "due_ms", cell_int(o->due_ms));
		add(&l, "id", cell_str(o->id));
	}
	if (o->unique != NULL)
		add_unique(&l, o->unique);
	if (d != NULL) {
		add(&l, "confirmed", cell_bool(d->confirmed));
		add(&l, "on_disk", cell_bool(d->on_disk));
		add(&l, "replicas", cell_int(d->replicas));
		add(&l, "replicas_on_disk", cell_bool(d->replicas_on_disk));
	}
	if (o->says_left)
		add(&l, "left", cell_count(o->left));
	if (p != NULL) {
		add(&l, "operation", cell_str(p->id));
		add(&l, "total", cell_count(p->total));
		add(&l, "done", cell_int(p->done));
		add(&l, "failed_again", cell_count(p->failed));
		add(&l, "same_cause", cell_count(p->same_cause));
		add(&l, "failed_cause", p->failed_cause == NULL ? cell_none()
		    : cell_bytes(p->failed_cause, strlen(p->failed_cause)));
		add(&l, "complete", cell_bool(p->complete));
	}
	output_object(&a->output, l.columns, l.n, l.cells);
}

/* Says what was confirmed: a new string. Empty: nothing, or it was not asked for. */
static char *durability_text(const struct outcome_durability *d)
{
	struct buffer text = {0};

	if (d != NULL && d->confirmed && d->on_disk)
		buffer_format(&text, ", on disk");
	if (d != NULL && d->confirmed && d->replicas > 0)
		buffer_format(&text, "%s %s of %" PRId64 " replica%s", d->on_disk ? " and" : ",",
		    d->replicas_on_disk ? "on disk" : "in memory", d->replicas, d->replicas == 1 ? "" : "s");
	return text.len == 0 ? alloc_string("") : text.data;
}

/* ", due 2026-11-27T02:00:00.000Z, in 6h54m, id order:7": a new string. Empty: the messages are not delayed. */
static char *due_text(const struct outcome *o)
{
	char at[CLOCK_RFC3339_SIZE], in[UNITS_SIZE];

	return o->due_ms == 0 ? alloc_string("")
	    : alloc_format(", due %s, in %s%s%s", clock_rfc3339(o->due_ms, at), units_elapsed(o->delay_ms, in),
	    o->id == NULL ? "" : ", id ", o->id == NULL ? "" : o->id);
}

/* Why push --unique pushed nothing: ": order:17 was pushed with this key 5m ago, which stays for 55m". A new string;
 * empty: it pushed. */
static char *unique_text(const struct outcome *o)
{
	const struct queue_unique *u = o->unique;
	struct buffer text = {0};
	char time[UNITS_SIZE];

	if (u == NULL || u->pushed)
		return alloc_string("");
	buffer_format(&text, ": %s was pushed with this key", u->id[0] == '\0' ? "a message of unknown id" : u->id);
	if (u->pushed_ms >= 0)
		buffer_format(&text, " %s ago",
		    units_elapsed(o->now_ms > u->pushed_ms ? o->now_ms - u->pushed_ms : 0, time));
	if (u->left_ms == -1)
		buffer_format(&text, ", which has no end");
	else
		buffer_format(&text, ", which stays for %s", units_elapsed(u->left_ms, time));
	return text.data;
}

/* "; 40 matching messages are left" */
static void append_left(struct buffer *text, const struct outcome *o)
{
	if (o->left < 0)
		buffer_format(text, "; an unknown number %sis left", o->filtered ? "of matching messages " : "");
	else if (o->filtered)
		buffer_format(text, "; %" PRId64 " matching message%s left", o->left, o->left == 1 ? " is" : "s are");
	else
		buffer_format(text, "; %" PRId64 " %s left", o->left, o->left == 1 ? "is" : "are");
}

/* "; 3 failed again so far; 40 matching messages are left": a new string. */
static char *rest_text(const struct outcome *o)
{
	const struct outcome_operation *p = o->operation;
	struct buffer text = {0};

	if (p != NULL && p->done > o->count)
		buffer_format(&text, " (%" PRId64 " with the commands before)", p->done);
	if (p != NULL && p->failed >= 0)
		buffer_format(&text, "; %" PRId64 " failed again%s", p->failed, p->settled ? "" : " so far");
	if (o->says_left)
		append_left(&text, o);
	buffer_append(&text, "", 1);
	return text.data;
}

/* "3 dead letters of mail", "3 messages of delayed", "3 messages": a new string. */
static char *what_text(const struct admin *a, const struct outcome *o)
{
	char *count = outcome_count(o->count), *text;

	if (o->list != NULL && strcmp(o->list, admin_list_name(LIST_ESCAPE)) == 0)
		text = alloc_format("%" PRId64 " dead letter%s of %s", o->count, o->count == 1 ? "" : "s",
		    a->keys.name);
	else
		text = alloc_format("%s%s%s", count, o->list == NULL ? "" : " of ", o->list == NULL ? "" : o->list);
	free(count);
	return text;
}

void outcome_say(struct admin *a, const struct outcome *o)
{
	char *what = what_text(a, o), *held = outcome_count(o->held), *durability = durability_text(o->durability);
	char *rest = rest_text(o), *due = due_text(o), *unique = unique_text(o);

	if (a->options.json)
		say_json(a, o);
	else
		notice_say("%s %s%s%s%s%s%s", a->options.dry_run ? o->would : o->did, what,
		    a->options.dry_run && o->what != NULL ? o->what : "", due, durability, rest, unique);
	if (o->held > 0)
		admin_note("%s with live workers left alone (--force takes them too)", held);
	if (o->interrupted)
		admin_note("interrupted; run the command again to continue");
	free(what);
	free(held);
	free(durability);
	free(due);
	free(unique);
	free(rest);
}
