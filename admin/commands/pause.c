/* quredis pause, quredis resume: stop and allow the fetches of a queue on all hosts. Both can be repeated without
 * harm. */
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

#include <jansson.h>

#include "admin/commands/commands.h"

#include "common/base/base.h"

/* Returns JSON with the user who pauses the queue, the host and the time, for operators who find it paused. */
static char *pause_reason(void)
{
	char host[256] = "", stamp[CLOCK_RFC3339_SIZE], *text;
	json_t *object;

	gethostname(host, sizeof(host) - 1);
	object = json_pack("{s:s?, s:i, s:s, s:s}", "user", admin_user(), "uid", (int)getuid(), "host", host, "since",
	    clock_rfc3339(clock_realtime_ms(), stamp));
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

/* Reads the reason from the key as one line; NULL: the queue is not paused. The caller frees it. */
static int read_reason(struct admin *a, char **why)
{
	struct redis_reply reply;

	*why = NULL;
	redis_appendf(&a->redis, "GET %s", a->keys.paused);
	if (admin_reply(a, &reply, a->keys.paused) == -1)
		return -1;
	if (reply.type == REDIS_STRING)
		*why = visible(reply.str, reply.len, 200);
	return 0;
}

/* Returns who stops the fetches, behind "is" or "was": a new string. An operator may have written the key by hand, in
 * another form than pause_reason(). */
static char *in_words(const char *why)
{
	json_t *object = json_loads(why, 0, NULL);
	const char *user = NULL, *host = NULL, *since = NULL;
	struct queue_hold hold;
	char *words;

	if (queue_hold_parse(&hold, why, strlen(why)))
		words = alloc_format("held by its handler on %s until %s%s%s", hold.node, hold.until,
		    hold.reason[0] == '\0' ? "" : ": ", hold.reason);
	else if (json_unpack(object, "{s:s, s:s, s:s}", "user", &user, "host", &host, "since", &since) == 0)
		words = alloc_format("paused by %s on %s since %s", user, host, since);
	else
		words = alloc_format("paused: %s", why);
	json_decref(object);
	return words;
}

static void say_in_words(const struct admin *a, bool paused, bool changed, const char *why)
{
	const char *name = a->keys.name;
	char *before = why == NULL ? NULL : in_words(why);
	struct queue_hold hold;

	if (!changed)
		notice_say("%s was already %s", name, before != NULL ? before : paused ? "paused" : "running");
	else if (a->options.dry_run)
		notice_say("would %s %s%s%s", paused ? "pause" : "resume", name, before == NULL ? "" : "; it is ",
		    before == NULL ? "" : before);
	else
		notice_say("%s is %s%s%s", name, paused ? "paused" : "running", before == NULL ? "" : "; it was ",
		    before == NULL ? "" : before);
	if (!paused && why != NULL && queue_hold_parse(&hold, why, strlen(why)))
		admin_note("the message that asked for the hold %s delayed until %s; quredis retry %s delayed moves it "
		    "to ingress now, with all that are delayed", a->options.dry_run ? "would stay" : "stays",
		    hold.until, name);
	free(before);
}

static void print_state(struct admin *a, bool paused, bool changed, const char *why)
{
	static const struct column columns[] = {
		{ "queue", "", COLUMN_NAME }, { "paused", "", COLUMN_NAME }, { "changed", "", COLUMN_NAME },
		{ "by", "", COLUMN_NAME },
		{ "dry_run", "", COLUMN_NAME },
	};

	if (a->options.json) {
		json_t *by = why == NULL ? NULL : json_loads(why, 0, NULL);

		output_object(&a->output, columns, 5,
		    (struct cell[]){ cell_str(a->keys.name), cell_bool(paused), cell_bool(changed),
		    json_is_object(by) ? (struct cell){ .type = CELL_JSON, .json = by } : cell_str(why),
		    cell_bool(a->options.dry_run) });
		json_decref(by);
		return;
	}
	say_in_words(a, paused, changed, why);
}

int cmd_pause(struct admin *a)
{
	struct queue_hold hold;
	char *before, *why;
	int64_t paused;
	bool changed;

	if (read_reason(a, &before) == -1)
		return -1;
	changed = before == NULL || queue_hold_parse(&hold, before, strlen(before));
	if (!a->options.dry_run && changed) {
		why = pause_reason();
		queue_pause(&a->redis, &a->keys, why);
		free(why);
		if (admin_integer(a, &paused, a->keys.paused) == -1) {
			free(before);
			return -1;
		}
		changed = paused == 1;
		/* another process has paused the queue since, and before says nothing of that */
		if (!changed) {
			free(before);
			before = NULL;
		}
	}
	print_state(a, true, changed, before);
	free(before);
	return 0;
}

int cmd_resume(struct admin *a)
{
	int64_t gone;
	char *before;

	if (read_reason(a, &before) == -1)
		return -1;
	gone = before != NULL;
	if (!a->options.dry_run) {
		queue_resume(&a->redis, &a->keys);
		if (admin_integer(a, &gone, a->keys.paused) == -1) {
			free(before);
			return -1;
		}
	}
	print_state(a, false, gone == 1, gone == 1 ? before : NULL);
	free(before);
	return 0;
}
