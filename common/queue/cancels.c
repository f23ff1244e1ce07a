/* Orders to cancel messages in flight: their text in Redis, and the scripts that write and read them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/cancels.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

const char *const queue_cancel_results[CANCEL_RESULTS] = {
	[CANCEL_WANTED] = "ordered", [CANCEL_ESCAPED] = "escaped", [CANCEL_HANDED_BACK] = "handed_back",
	[CANCEL_NOT_RUNNING] = "not_running",
};

int queue_cancel_marks(const struct wrapper *w)
{
	return w->redelivered + w->crashes + w->outages;
}

/* ---- the text ---- */

void queue_cancel_format(const struct queue_cancel *c, char out[QUEUE_CANCEL_TEXT_SIZE])
{
	if (c->result == CANCEL_WANTED)
		snprintf(out, QUEUE_CANCEL_TEXT_SIZE, "wanted %s %d %d %" PRId64 " %s %s", c->owner, c->attempts,
		    c->marks, c->redriven_ms, c->retry ? "retry" : "escape", c->by);
	else
		snprintf(out, QUEUE_CANCEL_TEXT_SIZE, "ended %s", queue_cancel_results[c->result]);
}

static int parse_result(struct queue_cancel *c, const char *word)
{
	for (int i = CANCEL_WANTED + 1; i < CANCEL_RESULTS; i++)
		if (strcmp(word, queue_cancel_results[i]) == 0)
			c->result = (enum queue_cancel_result)i;
	return c->result == CANCEL_WANTED ? -1 : 0;
}

int queue_cancel_parse(struct queue_cancel *c, const char *text, size_t len)
{
	char copy[QUEUE_CANCEL_TEXT_SIZE], mode[8];

	_Static_assert(INCARNATION_SIZE == 160 && QUEUE_CANCEL_BY_SIZE == 128, "the widths below");
	*c = (struct queue_cancel){0};
	if (len >= sizeof(copy) || memchr(text, '\0', len) != NULL)
		return -1;
	memcpy(copy, text, len);
	copy[len] = '\0';
	if (strncmp(copy, "ended ", strlen("ended ")) == 0)
		return parse_result(c, copy + strlen("ended "));
	if (sscanf(copy, "wanted %159s %d %d %" SCNd64 " %7s %127[^\n]", c->owner, &c->attempts, &c->marks,
	    &c->redriven_ms, mode, c->by) != 6)
		return -1;
	c->retry = strcmp(mode, "retry") == 0;
	return c->retry || strcmp(mode, "escape") == 0 ? 0 : -1;
}

/* ---- requests ---- */

void queue_cancel(struct redis *r, const struct queue_keys *k, const char *tray, const struct queue_entry *e,
    size_t strip, const struct queue_cancel *c)
{
	char *none = queue_lease_key(k, NULL), text[QUEUE_CANCEL_TEXT_SIZE];
	struct script_arg args[SCRIPT_ENTRY_ARGS + 4];
	struct script_number numbers[3];
	struct script_entry room;
	size_t n = script_entry(e, &room, args);

	queue_cancel_format(c, text);
	args[n++] = script_number(&numbers[0], (int64_t)strip);
	args[n++] = script_number(&numbers[1], QUEUE_CANCEL_KEEP_MS);
	args[n++] = script_number(&numbers[2], QUEUE_CANCELS_MAX);
	args[n++] = script_string(text);
	queue_script(r, QUEUE_SCRIPT_cancel, 3, (const char *[]){ none, tray, k->cancels }, n, args);
	free(none);
}

void queue_cancels(struct redis *r, const struct queue_keys *k)
{
	char *none = queue_lease_key(k, NULL);
	struct script_number keep, ended;

	queue_script(r, QUEUE_SCRIPT_cancels, 2, (const char *[]){ none, k->cancels }, 2,
	    (struct script_arg[]){ script_number(&keep, QUEUE_CANCEL_KEEP_MS),
	    script_number(&ended, QUEUE_CANCEL_ENDED_MS) });
	free(none);
}

void queue_cancels_count(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "HLEN %s", k->cancels);
}

void queue_cancel_read(struct redis *r, const struct queue_keys *k, const char *field)
{
	redis_appendf(r, "HGET %s %s", k->cancels, field);
}

void queue_cancel_note(struct redis *r, const struct queue_keys *k, const char *field, const char *before,
    const struct queue_cancel *after)
{
	char *none = queue_lease_key(k, NULL), text[QUEUE_CANCEL_TEXT_SIZE];
	struct script_number keep;

	queue_cancel_format(after, text);
	queue_script(r, QUEUE_SCRIPT_cancel_note, 2, (const char *[]){ none, k->cancels }, 5,
	    (struct script_arg[]){ script_string(field), script_string(before),
	    script_number(&keep, QUEUE_CANCEL_KEEP_MS), script_string(text),
		script_string(after->result == CANCEL_WANTED ? "0" : "1") });
	free(none);
}
