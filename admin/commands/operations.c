/* quredis operations: lists the long work on dead letters that is not complete, of one queue or of all, and stops
 * one. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <jansson.h>

#include "admin/commands/commands.h"
#include "admin/operations/operations.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"

static const struct column columns[] = {
	{ "queue", "Queue", COLUMN_NAME },
	{ "id", "Id", COLUMN_ID },
	{ "operation", "Operation", COLUMN_LINE },
	{ "state", "State", COLUMN_STATE },
	{ "done", "Done", COLUMN_NUMBER },
	{ "total", "Total", COLUMN_NUMBER },
	{ "left", "Left", COLUMN_NUMBER },
	{ "begun_at", "Begun", COLUMN_STATE },
	{ "by", "By", COLUMN_NAME },
	{ "process", "Process", COLUMN_NAME },
	{ "error", "Error", COLUMN_LINE },
};

/* Why the last run failed, while a supervisor retries. A new string; NULL: it did not */
static char *error_of(const char *result)
{
	const char *at = strchr(result, ' ');
	json_t *all = at == NULL ? NULL : json_loads(at, 0, NULL);
	const char *notes = json_string_value(json_object_get(all, "notes"));
	size_t len;
	const char *error = notes == NULL ? NULL : work_error(notes, &len);
	char *line = error == NULL ? NULL : alloc_copy(error, len);

	json_decref(all);
	return line;
}

/* bytes of a text that any program may have written; a filter that a command line holds is shorter */
#define GIVEN_MOST 8192

/* Cuts a longer text between two characters of UTF-8, and shows that. NULL: none. Returns a new string. */
static char *copy_given(const char *text)
{
	size_t len = text == NULL ? 0 : strnlen(text, GIVEN_MOST);
	bool cut = len == GIVEN_MOST && text[len] != '\0';

	while (cut && len > 0 && (text[len] & 0xc0) == 0x80)
		len--;
	return len == 0 ? NULL : alloc_format("%.*s%s", (int)len, text, cut ? "..." : "");
}

static struct cell cell_given(const char *text)
{
	return text == NULL ? cell_none() : cell_str(text);
}

static void show_row(struct admin *a, const struct queue_keys *k, const char *id,
    const char *const text[OPERATION_FIELDS], int64_t now_ms)
{
	int64_t begun_ms = operation_figure(text[OPERATION_BEGUN], OPERATION_TIME_MAX_MS, -1);
	int64_t done = operation_figure(text[OPERATION_DONE], OPERATION_FIGURE_MAX, 0),
	    total = operation_figure(text[OPERATION_TOTAL], OPERATION_FIGURE_MAX, -1);
	const struct operation_state_words *state = &operations_states[operations_state(text, now_ms)];
	bool held = operations_is_held(text, now_ms);
	const char *end = strrchr(text[OPERATION_HOLDER], ' ');		/* behind host and process */
	char *holder = held && end != NULL ? alloc_copy(text[OPERATION_HOLDER], (size_t)(end - text[OPERATION_HOLDER]))
	    : NULL;
	char *error = error_of(text[OPERATION_RESULT]);
	char *given[] = { copy_given(text[OPERATION_WHAT]), copy_given(text[OPERATION_BY]), copy_given(holder),
		copy_given(error) };

	output_row(&a->output, (struct cell[]){ cell_str(k->name), cell_str(id), cell_given(given[0]),
	    cell_str(state->name), cell_int(done), cell_count(total), cell_count(total < done ? -1 : total - done),
	    begun_ms < 0 ? cell_none() : cell_time(begun_ms), cell_given(given[1]), cell_given(given[2]),
	    cell_given(given[3]) });
	for (size_t i = 0; i < nitems(given); i++)
		free(given[i]);
	free(holder);
	free(error);
}

#define LISTED_MOST 200

static int list_queue(struct admin *a, const struct queue_keys *k, int64_t now_ms)
{
	char ids[LISTED_MOST][QUEUE_OPERATION_ID_SIZE];
	const char *text[OPERATION_FIELDS];
	struct redis_reply reply;
	size_t n = 0, at = 0;

	queue_operations_list(&a->redis, k, OPERATION_WHAT);
	if (admin_reply(a, &reply, k->operations) == -1)
		return -1;
	for (const char *what; n < LISTED_MOST && queue_operations_listed(&reply, &at, ids[n], &what);)
		n++;
	for (size_t i = 0; i < n; i++) {
		queue_operation_read(&a->redis, k, ids[i]);
		if (admin_reply(a, &reply, k->operations) == -1)
			return -1;
		if (queue_operation_parse(&reply, 0, text) && text[OPERATION_BOUND][0] != '\0')
			show_row(a, k, ids[i], text, now_ms);
	}
	return 0;
}

static int list_all(struct admin *a)
{
	struct registry_queue *queues;
	int64_t now_ms;
	size_t n;
	int rc = 0;

	if (admin_server_time(a, &now_ms) == -1 || admin_show_ages(a) == -1)
		return -1;
	if (a->noperands > 0)
		return list_queue(a, &a->keys, now_ms);
	if (registry_read(a, &queues, &n) == -1)
		return -1;
	for (size_t i = 0; i < n && a->redis.state == REDIS_READY; i++)
		if (list_queue(a, &queues[i].keys, now_ms) == -1)
			rc = -1;
	registry_free(queues, n);
	return rc;
}

/* The answer that operation_stop.lua would give. -1: error */
static int look_whether_it_stops(struct admin *a, const char *id, int64_t *stopped)
{
	const char *text[OPERATION_FIELDS];
	struct redis_reply reply;
	int64_t now_ms;

	if (admin_server_time(a, &now_ms) == -1)
		return -1;
	queue_operation_read(&a->redis, &a->keys, id);
	if (admin_reply(a, &reply, a->keys.operations) == -1)
		return -1;
	if (!queue_operation_parse(&reply, 0, text))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
	*stopped = text[OPERATION_BOUND][0] == '\0' ? 0 : operations_is_held(text, now_ms) ? 1 : 2;
	return 0;
}

static int ask_to_stop(struct admin *a, const char *id, int64_t *stopped)
{
	a->writes = true;
	queue_operation_stop(&a->redis, &a->keys, id);
	return admin_integer(a, stopped, a->keys.operations);
}

static int stop(struct admin *a)
{
	static const struct column stop_columns[] =
	    { { "queue", "", COLUMN_NAME }, { "id", "", COLUMN_NAME }, { "running", "", COLUMN_NAME },
		{ "dry_run", "", COLUMN_NAME } };
	const char *id = a->options.stop;
	bool dry_run = a->options.dry_run;
	int64_t stopped;
	char *shown;

	if ((dry_run ? look_whether_it_stops(a, id, &stopped) : ask_to_stop(a, id, &stopped)) == -1)
		return -1;
	shown = visible(id, strlen(id), 40);
	if (stopped == 0)
		admin_fail(a, EX_NOINPUT, "%s has no operation %s", a->keys.name, shown);
	else if (a->options.json)
		output_object(&a->output, stop_columns, nitems(stop_columns),
		    (struct cell[]){ cell_str(a->keys.name), cell_str(shown), cell_bool(stopped == 1),
		    cell_bool(dry_run) });
	else if (dry_run)
		notice_say("operation %s of %s would %s", shown, a->keys.name,
		    stopped == 1 ? "stop after its next message" : "be stopped");
	else
		notice_say("operation %s of %s %s", shown, a->keys.name,
		    stopped == 1 ? "stops after its next message" : "is stopped");
	free(shown);
	return stopped == 0 ? -1 : 0;
}

int cmd_operations(struct admin *a)
{
	int rc;

	if (a->options.stop != NULL && a->noperands == 0)
		return admin_fail(a, EX_USAGE, "--stop requires the queue: quredis operations QUEUE --stop ID");
	if (a->noperands > 0 && lookup_queue(a, a->operands[0], &a->keys) == -1)
		return -1;
	if (a->options.stop != NULL)
		return stop(a);
	output_begin(&a->output, columns, nitems(columns));
	rc = list_all(a);
	output_end_list(&a->output, rc == 0);
	if (rc == 0 && a->output.nrows == 0 && !a->options.json)
		admin_note("no operations");
	return rc;
}
