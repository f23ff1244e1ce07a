/* Reports retries and deletions of dead letters by a filter that were interrupted, so that another operator knows that
 * they are not complete. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "admin/doctor/checks.h"
#include "admin/moves/moves.h"
#include "admin/operations/operations.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define OPERATIONS_MOST 20

/* Redis may hold what another program wrote: ids and texts are copied, since the next answer takes their place. */
struct unfinished {
	char id[QUEUE_OPERATION_ID_SIZE];
	char *what;			/* action and filter; owned */
};

static size_t take_list(const struct redis_reply *reply, struct unfinished all[OPERATIONS_MOST])
{
	const char *what;
	size_t n = 0, at = 0;

	while (n < OPERATIONS_MOST && queue_operations_listed(reply, &at, all[n].id, &what))
		all[n++].what = visible(what, strlen(what), 200);
	return n;
}

static void advise(const struct doctor *d, struct finding *f, const struct unfinished *u, const char *options)
{
	json_t *json = json_loads(options, 0, NULL);
	char *command = by_filter_command(d->a,
	    strncmp(u->what, "dlq rm", strlen("dlq rm")) == 0 ? "dlq rm" : "dlq retry", json);

	findings_advise(f, "Redis forgets it 7 days after its last step; to start over, add --anew to the command; "
	    "to continue it, run %s", command == NULL ? "the same command again" : command);
	json_decref(json);
	free(command);
}

/* Skips one that a process holds: it is at work. */
static int add_unfinished(struct doctor *d, const struct unfinished *u)
{
	const char *text[OPERATION_FIELDS];
	int64_t begun, done, total;
	char age[UNITS_SIZE], of[32] = "";
	struct redis_reply reply;

	queue_operation_read(&d->a->redis, &d->a->keys, u->id);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	if (!queue_operation_parse(&reply, 0, text))
		return 0;
	begun = operation_figure(text[OPERATION_BEGUN], OPERATION_TIME_MAX_MS, 0);
	done = operation_figure(text[OPERATION_DONE], OPERATION_FIGURE_MAX, 0);
	total = operation_figure(text[OPERATION_TOTAL], OPERATION_FIGURE_MAX, 0);
	if (begun == 0 || operations_is_held(text, d->server.now_ms))
		return 0;
	if (total > 0)
		snprintf(of, sizeof(of), " of %" PRId64, total);
	advise(d, findings_add(d, SEVERITY_NOTE, d->a->keys.escape,
	    "%s: %s, begun %s ago, %" PRId64 "%s messages done",
	    operations_state(text, d->server.now_ms) == OPERATION_STOPPED ? "stopped by an operator" : "unfinished",
	    u->what,
	    units_elapsed(d->server.now_ms > begun ? d->server.now_ms - begun : 0, age), done, of), u,
	    text[OPERATION_OPTIONS]);
	return 0;
}

int check_operations(struct doctor *d, struct queue_check *q)
{
	struct unfinished all[OPERATIONS_MOST];
	struct redis_reply reply;
	int rc = 0;
	size_t n;

	(void)q;
	queue_operations_list(&d->a->redis, &d->a->keys, OPERATION_WHAT);
	if (doctor_reply(d, &reply) == -1)
		return -1;
	n = take_list(&reply, all);
	for (size_t i = 0; i < n && rc == 0; i++)
		rc = add_unfinished(d, &all[i]);
	for (size_t i = 0; i < n; i++)
		free(all[i].what);
	return rc;
}
