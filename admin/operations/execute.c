/*
 * Executes an operation in a process of the leading sweeper, by the same code as a command without a supervisor. Filter
 * and pace are bytes in Redis, so they are parsed again, and the id must be that of what they say.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include <bsd/string.h>
#include <jansson.h>

#include "admin/operations/execute.h"

#include "admin/operations/work.h"
#include "common/base/base.h"

static int open_connection(struct admin *a)
{
	char name[QUEUE_NAME_MAX + 32];

	snprintf(name, sizeof(name), "quredisd:%s:operation", a->conf->supervisor.node);
	redis_init(&a->redis, &a->target, name);
	queue_greets(&a->redis, false, a->conf);
	return redis_connect(&a->redis, REDIS_TIMEOUT_MS, NULL) == 0 ? 0
	    : admin_fail(a, EX_UNAVAILABLE, "Redis: %s", a->redis.error);
}

/* The action that `what` begins with; NULL: none that quredis writes */
static const char *action_of(const char *what)
{
	static const char *const actions[] = { "dlq retry", "dlq rm" };

	for (size_t i = 0; i < nitems(actions); i++) {
		size_t len = strlen(actions[i]);

		if (strncmp(what, actions[i], len) == 0 && (what[len] == '\0' || what[len] == ' '))
			return actions[i];
	}
	return NULL;
}

/* *options: holds the texts of a->options, also after an error. *action NULL: there is no such operation any more, or
 * it is not wanted */
static int read_order(struct admin *a, const char *id, const char **action, json_t **options)
{
	const char *text[OPERATION_FIELDS];
	struct redis_reply reply;

	*action = NULL;
	queue_operation_read(&a->redis, &a->keys, id);
	if (admin_reply(a, &reply, a->keys.operations) == -1)
		return -1;
	if (!queue_operation_parse(&reply, 0, text))
		return admin_fail(a, EX_PROTOCOL, "unexpected reply from Redis: expected an operation");
	if (text[OPERATION_BOUND][0] == '\0' || strcmp(text[OPERATION_WANTED], "run") != 0)
		return 0;
	*action = action_of(text[OPERATION_WHAT]);
	*options = json_loads(text[OPERATION_OPTIONS], 0, NULL);
	return *action != NULL && options_from_json(&a->options, *options, OPTION_FILTER | OPTION_PACE) == 0 ? 0 :
	    admin_fail(a, EX_DATAERR, "operation %s (in %s) has a filter or a pace that cannot be parsed", id,
	    a->keys.operations);
}

static int find_and_work(struct admin *a, const struct execution *e, const struct buffer *notes, json_t **options,
    bool *elsewhere)
{
	struct work_report r = {0};
	const char *action;
	struct work w;
	int rc;

	if (read_order(a, e->id, &action, options) == -1)
		return -1;
	*elsewhere = action == NULL;
	if (action == NULL)
		return 0;
	rc = work_find(&w, a, action);
	w.op.swept = true;
	w.notes = notes;
	*elsewhere = rc == 0 && strcmp(w.op.id, e->id) == 0;
	if (rc != -1 && strcmp(w.op.id, e->id) != 0)
		rc = admin_fail(a, EX_DATAERR, "operation %s (in %s) does not have the id of its filter", e->id,
		    a->keys.operations);
	if (rc == 1) {
		rc = work_run(&w, &r);
		if (w.paced.stopped)		/* that is its end, and no error of this process */
			rc = 0;
		*elsewhere = a->status == EX_TEMPFAIL && !r.says && r.status == 0;
	}
	work_report_free(&r);
	work_free(&w);
	return rc;
}

static void write_error(struct buffer *notes, int out)
{
	const char *error;
	size_t len;

	buffer_append(notes, "", 1);
	error = work_error(notes->data, &len);
	if (error != NULL)
		dprintf(out, "%.*s", (int)len, error);
}

int execute(const struct execution *e, int out)
{
	struct admin a = { .options = options_none(), .served = true, .writes = true,
		.conf = (struct conf *)(uintptr_t)e->conf, .queue = e->queue,
		.keys = *e->keys, .target = *e->target };
	struct buffer notes = {0};
	json_t *options = NULL;
	bool elsewhere = false;
	int rc;

	a.options.yes = a.options.all = true;
	notice_keep(&notes);
	interrupt_begin();
	rc = open_connection(&a) == -1 ? -1 : find_and_work(&a, e, &notes, &options, &elsewhere);
	redis_close(&a.redis, NULL);
	if (rc == -1 && !elsewhere && !interrupt_asked())
		write_error(&notes, out);
	json_decref(options);
	buffer_free(&notes);
	return elsewhere ? EXECUTION_ELSEWHERE : rc == -1 && !interrupt_asked() ? EXECUTION_FAILED : EXECUTED;
}
