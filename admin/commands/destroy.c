/*
 * quredis destroy: deletes every key of a queue, then its registration. It deletes the keys in groups, and last those
 * that lead to the others, so that an interrupted command can be run again.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

static size_t alive(const struct lists *l)
{
	size_t n = 0;

	for (size_t i = 0; i < l->nworkers; i++)
		n += l->owners[i].alive ? 1 : 0;
	return n;
}

static int refuse_workers(struct admin *a, size_t n)
{
	return admin_fail(a, EX_TEMPFAIL,
	    "%zu worker%s of %s %s alive: remove the queue from the configuration of each host that quredis nodes "
	    "shows, then quredis reload there (--force destroys all the same)", n, n == 1 ? "" : "s", a->keys.name,
	    n == 1 ? "is" : "are");
}

/* A key of the wrong type has no known length: it counts as 0, and is deleted, too. */
static int64_t known_length(int64_t length)
{
	return length == LISTS_WRONG_TYPE ? 0 : length;
}

static int take_removed(struct admin *a, size_t answers, int64_t *removed)
{
	for (size_t i = 0; i < answers; i++) {
		int64_t n;

		if (admin_integer(a, &n, a->keys.name) == -1)
			return -1;
		*removed += n;
	}
	return 0;
}

typedef void destroy_times(struct redis *r, const struct queue_keys *k, int64_t first, int n);

/* Deletes all minutes or hours from `first` on; their order does not matter. Returns the number of requests. */
static size_t ask_times(struct admin *a, destroy_times *ask, int64_t first, int64_t left)
{
	size_t groups = 0;

	while (left > 0) {
		int n = left < QUEUE_KEYS_GROUP ? (int)left : QUEUE_KEYS_GROUP;

		ask(&a->redis, &a->keys, first, n);
		first += n;
		left -= n;
		groups++;
	}
	return groups;
}

/* Those that can still exist. */
static size_t ask_figures(struct admin *a, int64_t now_ms)
{
	int64_t minute = now_ms / 60000, hour = minute / QUEUE_HOUR_MINUTES;

	return ask_times(a, queue_destroy_rates, minute - QUEUE_RATE_MINUTES, QUEUE_RATE_MINUTES + 2) +
	       ask_times(a, queue_destroy_backlog, hour - QUEUE_BACKLOG_HOURS - 1, QUEUE_BACKLOG_HOURS + 3);
}

/* The notes of operations on dead letters: one key for each operation. */
static int destroy_redriven(struct admin *a, int64_t *removed)
{
	char id[QUEUE_OPERATION_ID_SIZE];
	struct redis_reply reply;
	const char *what;
	size_t n = 0, at = 0;

	queue_operations_list(&a->redis, &a->keys, OPERATION_WHAT);
	if (admin_wait(a, &reply) == -1)
		return -1;
	/* a wrong type is no error here: it lists none */
	for (; queue_operations_listed(&reply, &at, id, &what); n++)
		queue_destroy_redriven(&a->redis, &a->keys, id);
	return take_removed(a, n, removed);
}

static int destroy(struct admin *a, const struct lists *l, int64_t *removed)
{
	int64_t now_ms;

	if (admin_server_time(a, &now_ms) == -1 || destroy_redriven(a, removed) == -1)
		return -1;
	queue_destroy_lists(&a->redis, &a->keys);
	for (size_t i = 0; i < l->nworkers; i++)
		queue_destroy_owner(&a->redis, &a->keys, l->workers[i].incarnation);
	if (take_removed(a, 2 + l->nworkers, removed) == -1)
		return -1;
	if (take_removed(a, ask_figures(a, now_ms), removed) == -1)
		return -1;
	queue_destroy_registration(&a->redis, &a->keys);
	return take_removed(a, 3, removed);
}

static void print_destroyed(struct admin *a, const struct lists *l, int64_t removed)
{
	static const struct column columns[] = {
		{ "queue", "", COLUMN_NAME }, { "action", "", COLUMN_NAME }, { "ingress_size", "", COLUMN_NAME },
		{ "transit_size", "", COLUMN_NAME },
		{ "escape_size", "", COLUMN_NAME }, { "delayed_size", "", COLUMN_NAME }, { "keys", "", COLUMN_NAME },
		{ "dry_run", "", COLUMN_NAME },
	};

	if (a->options.json)
		output_object(&a->output, columns, nitems(columns),
		    (struct cell[]){ cell_str(a->keys.name), cell_str("destroy"), cell_int(known_length(l->ingress)),
		    cell_int(known_length(l->transit)),
			cell_int(known_length(l->escape)), cell_int(known_length(l->delayed)), cell_int(removed),
			    cell_bool(a->options.dry_run) });
	else
		notice_say("%s %s with %" PRId64 " waiting, %" PRId64 " in transit, %" PRId64 " escaped, %" PRId64
		    " delayed",
		    a->options.dry_run ? "would destroy" : "destroyed", a->keys.name, known_length(l->ingress),
		    known_length(l->transit), known_length(l->escape), known_length(l->delayed));
	if (a->queue != NULL)
		admin_note("%s is still in the configuration: a supervisor that reads it makes the queue again",
		    a->keys.name);
}

int cmd_destroy(struct admin *a)
{
	struct lists l;
	int64_t removed = 0;
	char *question;
	int rc;

	/* Keys of the wrong type are destroyed, too. */
	rc = lists_read(a, &a->keys, 0, &l);
	if (rc == 0 && alive(&l) > 0 && !a->options.force)
		rc = refuse_workers(a, alive(&l));
	if (rc == 0 && !a->options.dry_run) {
		question = alloc_format("This deletes %s and its %" PRId64 " messages.", a->keys.name,
		    known_length(l.ingress) + known_length(l.transit) + known_length(l.escape) +
		    known_length(l.delayed));
		rc = confirm_by_name(a, question, a->keys.name);
		free(question);
		if (rc == 0)
			rc = destroy(a, &l, &removed);
	}
	if (rc == 0)
		print_destroyed(a, &l, removed);
	lists_free(&l);
	return rc;
}
