/*
 * The names of keys and of owners. A key of a queue is the name of its transit or escape list with a suffix, or a
 * private key of its own (conf_private_suffixes), or its entry in the registry. Nothing that quredis trusts has a name
 * that begins with the name of an ingress list.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/moves.h"

#include "common/base/base.h"
#include "common/conf/conf.h"

char *queue_key(const char *prefix, enum queue_key which, const char *of)
{
	static const struct { const char *before, *after; } names[] = {
		[QUEUE_KEY_REGISTRY] = { "quredis:queues", "" },
		[QUEUE_KEY_REGISTERED] = { "quredis:queue:", "" },
		[QUEUE_KEY_SECRET] = { "quredis:secret", "" },
		[QUEUE_KEY_SECRET_ASIDE] = { "quredis:secret:aside", "" },
		[QUEUE_KEY_SCHEMA] = { "quredis:schema", "" },
		[QUEUE_KEY_HEALTH] = { "quredis:health", "" },
		[QUEUE_KEY_NODE] = { "quredis:node:", "" },
		[QUEUE_KEY_CLOCK] = { "quredis:node:", ":clock" },
		[QUEUE_KEY_NO_SECRET] = { "quredis:secret:none", "" },
		[QUEUE_KEY_PULSE] = { "quredis:node:", ":pulse" },
		[QUEUE_KEY_THROTTLE] = { "quredis:throttle:", "" },
		[QUEUE_KEY_SEATS] = { "quredis:throttle:", ":seats" },
		[QUEUE_KEY_SEATS_FREE] = { "quredis:throttle:", ":seats:free" },
	};

	return alloc_format("%s%s%s%s", prefix == NULL ? "" : prefix, names[which].before, of == NULL ? "" : of,
	    names[which].after);
}

char *queue_key_of(const struct redis *r, enum queue_key which, const char *of)
{
	return queue_key(redis_prefix(r), which, of);
}

/* which: with a '*' in its suffix, more stands there. */
static char *private_key(const char *base, enum conf_private_key which, const char *more)
{
	const char *suffix = conf_private_suffixes[which];

	return alloc_format("%s%.*s%s", base, (int)strcspn(suffix, "*"), suffix, more);
}

void queue_keys_init(struct queue_keys *k, const char *prefix, const char *name, const char *ingress,
    const char *transit, const char *escape)
{
	char *base = conf_private_base(prefix, ingress);

	*k = (struct queue_keys){
		.private_base = base,
		.name = alloc_string(name),
		.ingress = alloc_string(ingress),
		.transit = alloc_string(transit),
		.escape = alloc_string(escape),
		.pushed = conf_list_name(prefix, "delayed", name),
		.unique = conf_list_name(prefix, "unique", name),
		.delayed = private_key(base, CONF_PRIVATE_DELAYED, ""),
		.delayed_apart = private_key(base, CONF_PRIVATE_APART, ""),
		.done = private_key(base, CONF_PRIVATE_DONE, ""),
		.stats = private_key(base, CONF_PRIVATE_STATS, ""),
		.paused = private_key(base, CONF_PRIVATE_PAUSED, ""),
		.cancels = private_key(base, CONF_PRIVATE_CANCELS, ""),
		.throttle = private_key(base, CONF_PRIVATE_THROTTLE, ""),
		.sweeper = private_key(base, CONF_PRIVATE_SWEEPER, ""),
		.notes = private_key(base, CONF_PRIVATE_NOTES, ""),
		.schedules = private_key(base, CONF_PRIVATE_SCHEDULES, ""),
		.workers = alloc_format("%s:workers", transit),
		.aside = alloc_format("%s:aside", transit),
		.aside_log = alloc_format("%s:aside:log", transit),
		.log = alloc_format("%s:log", escape),
		.forwarded = alloc_format("%s:forwarded", escape),
		.claimed = alloc_format("%s:claimed", escape),
		.operations = alloc_format("%s:operations", escape),
		.redriven = alloc_format("%s:redriven", escape),
		.registered = queue_key(prefix, QUEUE_KEY_REGISTERED, name),
	};
	k->lines = message_keys_of(k->ingress, true);
}

void queue_keys_use_seats(struct queue_keys *k, const char *prefix, const char *throttle)
{
	free(k->seats);
	free(k->seats_free);
	k->seats = throttle == NULL ? private_key(k->private_base, CONF_PRIVATE_SEATS, "")
				    : queue_key(prefix, QUEUE_KEY_SEATS, throttle);
	k->seats_free = throttle == NULL ? private_key(k->private_base, CONF_PRIVATE_SEATS_FREE, "")
					 : queue_key(prefix, QUEUE_KEY_SEATS_FREE, throttle);
}

void queue_keys_from_conf(struct queue_keys *k, const struct conf *conf, const struct conf_queue *q)
{
	queue_keys_init(k, conf->redis.prefix, q->name, q->ingress, q->transit, q->escape);
	k->shared = q->shared;
	k->lines.headers = q->headers;
	if (q->max_in_flight > 0)
		queue_keys_use_seats(k, conf->redis.prefix, q->throttle);
	if (q->throttle == NULL)
		return;
	free(k->throttle);
	k->throttle = queue_key(conf->redis.prefix, QUEUE_KEY_THROTTLE, q->throttle);
}

void queue_keys_default(struct queue_keys *k, const char *prefix, const char *name)
{
	char *ingress = conf_list_name(prefix, "ingress", name), *transit = conf_list_name(prefix, "transit", name),
	     *escape = conf_list_name(prefix, "escape", name);

	queue_keys_init(k, prefix, name, ingress, transit, escape);
	free(ingress);
	free(transit);
	free(escape);
}

void queue_keys_free(struct queue_keys *k)
{
	char *all[] = { k->name, k->private_base, k->ingress, k->transit, k->escape, k->pushed, k->unique, k->delayed,
	    k->delayed_apart, k->done, k->stats, k->paused,
		k->cancels, k->throttle, k->seats, k->seats_free, k->sweeper, k->notes, k->schedules,
		k->workers, k->aside, k->aside_log, k->log, k->forwarded, k->claimed,
		    k->operations, k->redriven,
		k->registered };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	*k = (struct queue_keys){0};
}

char *queue_tray_key(const struct queue_keys *k, const char *incarnation, int tray)
{
	if (tray == QUEUE_RESCUE)
		return alloc_format("%s:%s:rescue", k->transit, incarnation);
	return alloc_format("%s:%s:%d", k->transit, incarnation, tray);
}

char *queue_rate_key(const struct queue_keys *k, int64_t minute)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRId64, minute);
	return private_key(k->private_base, CONF_PRIVATE_RATE, number);
}

char *queue_backlog_key(const struct queue_keys *k, int64_t hour)
{
	char number[24];

	snprintf(number, sizeof(number), "%" PRId64, hour);
	return private_key(k->private_base, CONF_PRIVATE_BACKLOG, number);
}

char *queue_scratch_key(const struct queue_keys *k, const char *name)
{
	return private_key(k->private_base, CONF_PRIVATE_SCRATCH, name);
}

char *queue_lease_key(const struct queue_keys *k, const char *incarnation)
{
	return alloc_format("%s:lease:%s", k->transit, incarnation == NULL ? QUEUE_NOBODY : incarnation);
}

char *queue_bare_rescue_key(const struct queue_keys *k)
{
	return alloc_format("%s:rescue", k->transit);
}

void queue_owner_init(struct queue_owner *o, const struct queue_keys *k, const char *incarnation, int64_t lease_ms)
{
	*o = (struct queue_owner){ .keys = k, .incarnation = alloc_string(incarnation), .lease_ms = lease_ms };
	o->lease = queue_lease_key(k, incarnation);
	for (int i = 0; i < QUEUE_TRAYS; i++)
		o->trays[i] = queue_tray_key(k, incarnation, i);
}

static void free_fetches(struct owner_commands *c)
{
	redis_command_free(&c->fetch);
	redis_command_free(&c->fetch_now);
}

void queue_owner_free(struct queue_owner *o)
{
	free(o->incarnation);
	free(o->lease);
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		free(o->trays[i]);
		free_fetches(&o->commands[i]);
		redis_command_free(&o->commands[i].done);
	}
	redis_command_free(&o->paused);
	*o = (struct queue_owner){0};
}

void queue_owner_count_moved(struct queue_owner *o, int tray)
{
	o->moved[tray]++;
}

void queue_owner_has_seats(struct queue_owner *o, int64_t seats)
{
	o->seats = seats;
}

void queue_owner_use_blmove(struct queue_owner *o)
{
	o->blmove = true;
	for (int i = 0; i < QUEUE_TRAYS; i++)
		free_fetches(&o->commands[i]);
}

void incarnation_format(const struct incarnation *i, char out[INCARNATION_SIZE])
{
	snprintf(out, INCARNATION_SIZE, "%s.%016" PRIx64 ".%d.%" PRIu64, i->node, i->boot, i->slot, i->generation);
}

/* The node may hold dots itself, so the parts are taken from the right. */
int incarnation_parse(struct incarnation *i, const char *s)
{
	char copy[INCARNATION_SIZE], *part[3], *end;

	if (strlcpy(copy, s, sizeof(copy)) >= sizeof(copy))
		return -1;
	for (int n = 2; n >= 0; n--) {
		part[n] = strrchr(copy, '.');
		if (part[n] == NULL)
			return -1;
		*part[n]++ = '\0';
	}
	if (copy[0] == '\0' || strlcpy(i->node, copy, sizeof(i->node)) >= sizeof(i->node) ||
	    strlen(part[0]) != 16 || strspn(part[0], "0123456789abcdef") != 16)
		return -1;
	i->boot = strtoull(part[0], NULL, 16);
	i->slot = (int)strtol(part[1], &end, 10);
	if (part[1][0] == '\0' || *end != '\0')
		return -1;
	i->generation = strtoull(part[2], &end, 10);
	return part[2][0] == '\0' || *end != '\0' ? -1 : 0;
}
