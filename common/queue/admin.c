/*
 * Sends requests of operators: push, purge, hurry, discard, pause, destroy. Bulk work is either one step that takes
 * constant time, or steps of at most a hundred entries, which the commands in admin/ repeat.
 */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/admin.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"
#include "common/queue/types.h"
#include "common/queue/waiting.h"

/* a producer may write any number, and this is the time of a push */
#define FIRST_MS INT64_C(1000000000000)		/* in 2001 */
#define LAST_MS INT64_C(253402300799999)	/* the end of the year 9999 */

/* ---- push ---- */

static const char *push_command(bool urgent)
{
	return urgent ? "RPUSH" : "LPUSH";
}

void queue_push(struct redis *r, const struct queue_keys *k, bool urgent, const struct queue_bytes *messages, size_t n)
{
	const char *argv[QUEUE_BATCH + 2] = { push_command(urgent), k->ingress };
	size_t lens[QUEUE_BATCH + 2] = { 5, strlen(k->ingress) };

	for (size_t i = 0; i < n; i++) {
		argv[i + 2] = messages[i].data;
		lens[i + 2] = messages[i].len;
	}
	redis_append(r, n + 2, argv, lens);
}

void queue_push_delayed(struct redis *r, const struct queue_keys *k, int64_t from_ms, int64_t delay_ms, int64_t first,
    const struct queue_bytes *messages, size_t n)
{
	struct script_arg args[QUEUE_BATCH + 3];
	struct script_number from, delay, index;

	args[0] = script_number(&from, from_ms);
	args[1] = script_number(&delay, delay_ms);
	args[2] = script_number(&index, first);
	for (size_t i = 0; i < n; i++)
		args[i + 3] = (struct script_arg){ messages[i].data, messages[i].len };
	queue_script(r, QUEUE_SCRIPT_delay, 1, (const char *[]){ k->delayed }, n + 3, args);
}

void queue_push_unique(struct redis *r, const struct queue_keys *k, const char *key, int64_t for_ms, bool urgent,
    const char *id, const struct queue_bytes *message)
{
	char *unique = alloc_format("%s:%s", k->unique, key);
	struct script_number ms;

	queue_script(r, QUEUE_SCRIPT_unique, 2, (const char *[]){ unique, k->ingress }, 4,
	    (struct script_arg[]){ script_number(&ms, for_ms), script_string(push_command(urgent)), script_string(id),
	    { message->data, message->len } });
	free(unique);
}

/* The script writes "1764355179123 order:17". */
static void parse_unique(const struct redis_reply *said, struct queue_unique *out)
{
	char *end = NULL;
	int64_t ms = strtoll(said->str, &end, 10);
	size_t len = said->len - (size_t)(end - said->str);

	out->pushed_ms = ms >= FIRST_MS && ms <= LAST_MS && (*end == ' ' || len == 0) ? ms : -1;
	if (out->pushed_ms >= 0 && len > 0 && identifier_is(IDENTIFIER_ID, end + 1, len - 1))
		memcpy(out->id, end + 1, len - 1);
}

int queue_pushed_unique(const struct redis_reply *reply, struct queue_unique *out)
{
	struct redis_reply first, said, left;

	*out = (struct queue_unique){0};
	if (reply->type != REDIS_ARRAY || reply->n == 0 || (first = redis_element(reply, 0)).type != REDIS_INTEGER)
		return -1;
	out->pushed = first.integer == 1;
	if (out->pushed)
		return 0;
	if (reply->n != 3 || (said = redis_element(reply, 1)).type != REDIS_STRING ||
	    (left = redis_element(reply, 2)).type != REDIS_INTEGER)
		return -1;
	parse_unique(&said, out);
	out->left_ms = left.integer;
	return 0;
}

/* ---- purge ---- */

static void append_purge(struct redis *r, const char *how_many, const char *list, const char *with)
{
	const char *keys[] = { list, with };

	queue_script(r, QUEUE_SCRIPT_purge, with == NULL ? 1 : 2, keys, 1,
	    (struct script_arg[]){ script_string(how_many) });
}

void queue_purge_ingress(struct redis *r, const struct queue_keys *k)
{
	append_purge(r, "LLEN", k->ingress, NULL);
}

void queue_purge_escape(struct redis *r, const struct queue_keys *k)
{
	append_purge(r, "LLEN", k->escape, k->log);
}

static void purge_delayed(struct redis *r, const struct queue_keys *k, const char *how_many)
{
	queue_script(r, QUEUE_SCRIPT_purge, 2, (const char *[]){ k->delayed, k->delayed_apart }, 2,
	    (struct script_arg[]){ script_string(how_many), script_string("apart") });
}

void queue_purge_delayed(struct redis *r, const struct queue_keys *k)
{
	purge_delayed(r, k, "ZCARD");
}

void queue_purge_pushed(struct redis *r, const struct queue_keys *k)
{
	append_purge(r, "ZCARD", k->pushed, NULL);
}

void queue_purge_bare(struct redis *r, const struct queue_keys *k)
{
	char *lease = queue_lease_key(k, NULL), *rescue = queue_bare_rescue_key(k);
	const char *keys[] = { lease, k->transit, rescue };

	queue_script(r, QUEUE_SCRIPT_purge_owner, 3, keys, 1, (struct script_arg[]){ script_string("1") });
	free(lease);
	free(rescue);
}

void queue_purge_owner(struct redis *r, const struct queue_keys *k, const char *incarnation, bool force)
{
	struct queue_owner o;
	char *rescue = queue_tray_key(k, incarnation, QUEUE_RESCUE);

	queue_owner_init(&o, k, incarnation, 0);
	const char *keys[] = { o.lease, o.trays[0], o.trays[1], o.trays[2], rescue };
	queue_script(r, QUEUE_SCRIPT_purge_owner, 5, keys, 1,
	    (struct script_arg[]){ script_string(force ? "1" : "0") });
	queue_owner_free(&o);
	free(rescue);
}

/* ---- single messages and records ---- */

void queue_discard(struct redis *r, const struct queue_keys *k, const struct queue_entry *e, const char *record_id)
{
	const char *keys[] = { k->escape, k->log };
	struct script_arg args[SCRIPT_ENTRY_ARGS + 2];
	struct script_entry room;
	size_t n = script_entry(e, &room, args);

	args[n++] = script_string(e->sha1);
	if (record_id != NULL)
		args[n++] = script_string(record_id);
	queue_script(r, QUEUE_SCRIPT_discard, 2, keys, n, args);
}

void queue_pick_waiting(struct redis *r, const struct queue_keys *k, enum queue_pick pick, const struct queue_entry *e)
{
	char *none = queue_lease_key(k, NULL);
	struct script_arg args[1 + SCRIPT_ENTRY_ARGS];
	struct script_entry room;

	args[0] = script_string(pick == QUEUE_PICK_DELETE ? "1" : "0");
	queue_script(r, QUEUE_SCRIPT_pick_waiting, 2, (const char *[]){ none, k->ingress },
	    1 + script_entry(e, &room, args + 1), args);
	free(none);
}

void queue_pick_delayed(struct redis *r, const struct queue_keys *k, enum queue_pick pick,
    const struct queue_delayed *d)
{
	char *none = queue_lease_key(k, NULL);
	struct script_number rank, len, strip;
	/* all that the caller saw of a message that is not cut */
	size_t head = d->entry.tail == NULL ? d->entry.len : QUEUE_ENTRY_ENDS;

	queue_script(r, QUEUE_SCRIPT_pick_delayed, d->pushed ? 3 : 4,
	    (const char *[]){ none, d->pushed ? k->pushed : k->delayed, k->ingress, k->delayed_apart }, 6,
	    (struct script_arg[]){ script_string(pick == QUEUE_PICK_DELETE ? "1" : "0"), script_number(&rank, d->rank),
	    script_string(d->due),
		script_number(&len, (int64_t)d->entry.len), { d->entry.raw, head },
		    script_number(&strip, (int64_t)d->strip) });
	free(none);
}

void queue_log_fields(struct redis *r, const struct queue_keys *k, const char *start, int count,
    const char *const *fields, size_t n)
{
	struct script_arg args[2 + QUEUE_LOG_FIELDS];
	struct script_number most;

	args[0] = script_string(start);
	args[1] = script_number(&most, count);
	for (size_t i = 0; i < n; i++)
		args[2 + i] = script_string(fields[i]);
	queue_script(r, QUEUE_SCRIPT_log_page, 1, (const char *[]){ k->log }, 2 + n, args);
}

void queue_log_page(struct redis *r, const struct queue_keys *k, const char *start, int count)
{
	queue_log_fields(r, k, start, count, (const char *[]){ "sha1" }, 1);
}

/* ---- reads ---- */

void queue_apart_count(struct redis *r, const struct queue_keys *k)
{
	queue_script(r, QUEUE_SCRIPT_apart_count, 2, (const char *[]){ k->delayed, k->delayed_apart }, 0, NULL);
}

int queue_apart_counted(const struct redis_reply *reply, struct queue_apart_count *out)
{
	if (reply->type != REDIS_ARRAY || reply->n != 2 || redis_element(reply, 0).type != REDIS_INTEGER ||
	    redis_element(reply, 1).type != REDIS_INTEGER)
		return -1;
	*out = (struct queue_apart_count){ redis_element(reply, 0).integer, redis_element(reply, 1).integer };
	return 0;
}

/* ---- pause ---- */

void queue_pause(struct redis *r, const struct queue_keys *k, const char *why)
{
	const char *keys[] = { k->paused };

	queue_script(r, QUEUE_SCRIPT_pause, 1, keys, 1, (struct script_arg[]){ script_string(why) });
}

void queue_resume(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "DEL %s", k->paused);
}

/* ---- destroy ---- */

static void unlink_keys(struct redis *r, const char *const *keys, size_t n)
{
	const char *argv[QUEUE_KEYS_GROUP + 1] = { "UNLINK" };

	memcpy(argv + 1, keys, n * sizeof(*keys));
	redis_append(r, n + 1, argv, NULL);
}

void queue_destroy_lists(struct redis *r, const struct queue_keys *k)
{
	struct queue_types all = {0};
	const char *keys[QUEUE_KEYS_GROUP];
	size_t n = 0;

	purge_delayed(r, k, "EXISTS");
	/* queue_destroy_rates() deletes the keys of minutes and hours; here they have names that never exist */
	queue_types_add_queue(&all, k, 0);
	assert(all.n <= QUEUE_KEYS_GROUP);
	for (size_t i = 0; i < all.n; i++)
		if (strcmp(all.of[i].key, k->workers) != 0 && strcmp(all.of[i].key, k->registered) != 0)
			keys[n++] = all.of[i].key;
	unlink_keys(r, keys, n);
	queue_types_free(&all);
}

void queue_destroy_owner(struct redis *r, const struct queue_keys *k, const char *incarnation)
{
	struct queue_owner o;
	char *rescue = queue_tray_key(k, incarnation, QUEUE_RESCUE);

	queue_owner_init(&o, k, incarnation, 0);
	const char *keys[] = { o.lease, o.trays[0], o.trays[1], o.trays[2], rescue };
	unlink_keys(r, keys, sizeof(keys) / sizeof(keys[0]));
	queue_owner_free(&o);
	free(rescue);
}

static void destroy_times(struct redis *r, const struct queue_keys *k,
    char *(*key)(const struct queue_keys *k, int64_t time), int64_t first, int n)
{
	char *keys[QUEUE_KEYS_GROUP] = {0};

	for (int i = 0; i < n; i++)
		keys[i] = key(k, first + i);
	unlink_keys(r, (const char *const *)keys, (size_t)n);
	for (int i = 0; i < n; i++)
		free(keys[i]);
}

void queue_destroy_rates(struct redis *r, const struct queue_keys *k, int64_t first_minute, int n)
{
	destroy_times(r, k, queue_rate_key, first_minute, n);
}

void queue_destroy_backlog(struct redis *r, const struct queue_keys *k, int64_t first_hour, int n)
{
	destroy_times(r, k, queue_backlog_key, first_hour, n);
}

void queue_destroy_registration(struct redis *r, const struct queue_keys *k)
{
	char *registry = queue_key_of(r, QUEUE_KEY_REGISTRY, NULL);

	redis_appendf(r, "UNLINK %s", k->workers);
	redis_appendf(r, "ZREM %s %s", registry, k->name);
	redis_appendf(r, "UNLINK %s", k->registered);
	free(registry);
}
