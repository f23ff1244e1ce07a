/* The seats of a queue with max_in_flight: the scripts that take and free them, and what their hash says. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/seats.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

/* The quiet time is so much longer than a lease, whose end the worker and Redis measure by two clocks. */
#define QUIET_MORE_MS 1000
#define KEPT_MS 86400000		/* as in seats.lua */

/*
 * The script splits at spaces, and this has none. A server that hides both ids counts as one and the same. The
 * replication id of a server that was never a replica says nothing: such a server takes a new one when a first replica,
 * or a backup, connects.
 */
static void format_server(const struct redis_identity *id, char out[2 * REDIS_RUN_ID_SIZE + 2])
{
	snprintf(out, 2 * REDIS_RUN_ID_SIZE + 2, "%s.%s", id->run_id,
	    id->promoted ? id->replid : "");
}

void queue_seats(struct redis *r, const struct queue_owner *o, const struct queue_seats_wish *wish)
{
	const char *keys[] = { o->lease, o->keys->seats, o->keys->seats_free, o->keys->ingress };
	char server[2 * REDIS_RUN_ID_SIZE + 2], limit[QUEUE_NAME_MAX + 2 * 24];
	struct script_number numbers[6];

	format_server(wish->server, server);
	snprintf(limit, sizeof(limit), "%" PRId64 " %" PRId64 " %s", wish->limit->loaded_ms, wish->limit->max,
	    wish->limit->node);
	struct script_arg args[] = { script_string(o->incarnation), script_number(&numbers[0], (int64_t)wish->first),
		script_number(&numbers[1], wish->held), script_number(&numbers[2], wish->wanted),
		script_string(o->keys->name), script_string(server),
		script_string(wish->known ? "1" : wish->recount ? "2" : "0"),
		script_number(&numbers[3], o->lease_ms + QUIET_MORE_MS), script_number(&numbers[4], wish->up_ms),
		script_string(limit), script_number(&numbers[5], wish->watched_ms) };

	queue_script(r, QUEUE_SCRIPT_seats, wish->from_ingress ? 4 : 3, keys, nitems(args), args);
}

int queue_seats_parse(const struct redis_reply *reply, struct queue_seats_answer *out)
{
	int64_t *const fields[] = { &out->has, &out->taken, &out->max, &out->quiet_ms, &out->waiting };

	return redis_integers(reply, fields, nitems(fields));
}

void queue_seats_await(struct redis *r, const struct queue_keys *k, int64_t timeout_ms)
{
	struct script_number seconds;

	queue_script_seconds(&seconds, timeout_ms);
	redis_appendf(r, "BLPOP %s %s", k->seats_free, seconds.text);
}

/* ---- the whole hash ---- */

void queue_seats_read(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "HGETALL %s", k->seats);
}

static void note_strange(struct queue_seats_seen *seen, const struct redis_reply *field)
{
	size_t i = 0;

	if (seen->foreign)
		return;
	seen->foreign = true;
	for (; i < field->len && i < sizeof(seen->strange) - 1; i++)
		seen->strange[i] = field->str[i] >= ' ' && field->str[i] <= '~' ? field->str[i] : '?';
	seen->strange[i] = '\0';
}

static bool is_text(const struct redis_reply *r)
{
	return r->type == REDIS_STRING && memchr(r->str, '\0', r->len) == NULL;
}

/* "N QUEUE"; NULL: another form. */
static const char *read_value(const char *value, int64_t *n)
{
	char *end;

	*n = value[0] >= '1' && value[0] <= '9' ? strtoll(value, &end, 10) : 0;
	if (*n <= 0 || *end != ' ' || end[1] == '\0' || strchr(end + 1, ' ') != NULL)
		return NULL;
	return end + 1;
}

static bool read_limit(const char *value, struct queue_seats_limit *limit)
{
	_Static_assert(QUEUE_NAME_MAX == 64, "the width below");
	if (sscanf(value, "%" SCNd64 " %" SCNd64 " %64s", &limit->loaded_ms, &limit->max, limit->node) == 3 &&
	    limit->max > 0)
		return true;
	*limit = (struct queue_seats_limit){0};
	return false;
}

/* A field that is no name. False: quredis does not write it so. */
static bool read_mark(const char *field, const char *value, struct queue_seats_limit *limit)
{
	if (strcmp(field, "limit") == 0)
		return read_limit(value, limit);
	return strcmp(field, "server") == 0 || strcmp(field, "refused") == 0;
}

int queue_seats_each(const struct redis_reply *reply, struct queue_seats_seen *seen, queue_seats_visit *visit,
    void *arg)
{
	*seen = (struct queue_seats_seen){0};
	if (reply->type != REDIS_ARRAY)
		return -1;
	for (size_t i = 0; i + 1 < reply->n; i += 2) {
		struct redis_reply field = redis_element(reply, i), value = redis_element(reply, i + 1);
		const char *queue = NULL;
		struct incarnation who;
		int64_t n = 0;

		if (is_text(&field) && is_text(&value) && incarnation_parse(&who, field.str) == 0)
			queue = read_value(value.str, &n);
		if (queue != NULL && n <= INT32_MAX) {
			seen->taken += n;
			if (visit != NULL)
				visit(arg, field.str, n, queue, value.str);
		} else if (queue != NULL || !is_text(&field) || !is_text(&value) ||
		    !read_mark(field.str, value.str, &seen->limit)) {
			note_strange(seen, &field);
		}
	}
	return 0;
}

void queue_seats_leave(struct redis *r, const struct queue_keys *k, const char *workers, const char *incarnation,
    int64_t died_at_ms, const char *value)
{
	const char *keys[] = { workers, k->seats, k->seats_free };
	struct script_number died;
	struct script_arg args[] = { script_string(incarnation), script_number(&died, died_at_ms),
		script_string(value) };

	queue_script(r, QUEUE_SCRIPT_seats_leave, 3, keys, nitems(args), args);
}

void queue_seats_keep(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "PEXPIRE %s %d", k->seats, KEPT_MS);
}
