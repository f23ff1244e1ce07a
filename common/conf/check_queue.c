/*
 * Checks of one queue that concern more than one of its values: the queue itself, its dead letters, and the keys that
 * shared = true forbids.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/conf/conf.h"

#include "common/base/base.h"
#include "common/conf/load.h"

/* ---- the queue ---- */

/* Returns the place that sets a value of the queue, there or in `defaults`; else that of the queue as a whole. */
static const struct conf_origin *place_of(const struct conf_queue *q, const char *key)
{
	const struct conf_origin *own = conf_queue_origin(q, key);

	return conf_given(own) ? own : conf_queue_place(q);
}

static void check_name_and_handler(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "name");

	if (!conf_given(where))
		conf_error(l, conf_queue_place(q), "this queue has no name");
	else if (q->name != NULL && !identifier_is(IDENTIFIER_NAME, q->name, strlen(q->name)))
		conf_error(l, where, "name: expected %s, not \"%s\"", identifier_form(IDENTIFIER_NAME), q->name);
	if (q->handler == NULL && q->function == NULL && !conf_given(conf_queue_origin(q, "handler")) &&
	    !conf_given(conf_queue_origin(&l->defaults, "handler")))
		conf_error(l, conf_queue_place(q), "queue %s has no handler", conf_shown_name(q));
}

static void check_timeout(struct conf_loading *l, const struct conf_queue *q)
{
	char timeout[UNITS_SIZE], drain[UNITS_SIZE];
	const char *key = q->max_duration_ms > 0 ? "max_duration" : "timeout";
	const struct conf_origin *where = conf_queue_origin(q, key);
	const struct conf_origin *drain_where = conf_origin(l->conf, "supervisor.drain_timeout");

	if (where->kind == CONF_ORIGIN_BAD || drain_where->kind == CONF_ORIGIN_BAD ||
	    conf_longest_run_ms(q) <= l->conf->supervisor.drain_timeout_ms)
		return;
	if (!conf_given(where) && !conf_given(drain_where))
		return;		/* the built-in defaults need no warning */
	conf_warning(l, conf_given(where) ? where : conf_queue_place(q),
	    "queue %s: %s %s is longer than supervisor.drain_timeout %s: a stop may interrupt its handlers",
	    conf_shown_name(q), key,
	    units_format_duration(conf_longest_run_ms(q), timeout),
	    units_format_duration(l->conf->supervisor.drain_timeout_ms, drain));
}

/* Warns where max_duration has no effect. */
static void check_max_duration(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "max_duration");
	char timeout[UNITS_SIZE], most[UNITS_SIZE];

	if (where->kind == CONF_ORIGIN_BAD || q->max_duration_ms <= 0)
		return;
	if (q->mode == CONF_MODE_EXEC && q->reply_fd < 0)
		conf_warning(l, conf_given(where) ? where : conf_queue_place(q),
		    "queue %s: max_duration has no effect without reply_fd, on which a handler gives signs of life",
		    conf_shown_name(q));
	else if (conf_queue_origin(q, "timeout")->kind != CONF_ORIGIN_BAD && q->max_duration_ms <= q->timeout_ms)
		conf_warning(l, conf_given(where) ? where : conf_queue_place(q),
		    "queue %s: max_duration %s is not longer than timeout %s, so signs of life extend nothing",
		    conf_shown_name(q),
		    units_format_duration(q->max_duration_ms, most), units_format_duration(q->timeout_ms, timeout));
}

/*
 * The worker renews its lease every quarter of it. With fence = "kill" it ends its handlers when a renewal was refused,
 * or had no answer for another quarter. That leaves half of the lease for TERM, kill_grace and KILL: a third for
 * kill_grace, and the rest for delays.
 */
static void check_fence(struct conf_loading *l, const struct conf_queue *q)
{
	char grace[UNITS_SIZE], lease[UNITS_SIZE], most[UNITS_SIZE];
	int64_t lease_ms = l->conf->supervisor.lease_ms;

	if (q->fence != CONF_FENCE_KILL || conf_queue_origin(q, "kill_grace")->kind == CONF_ORIGIN_BAD ||
	    conf_origin(l->conf, "supervisor.lease")->kind == CONF_ORIGIN_BAD || q->kill_grace_ms <= lease_ms / 3)
		return;
	conf_error(l, conf_queue_origin(q, "fence"),
	    "queue %s: with fence = \"kill\", kill_grace may be at most a third of supervisor.lease (%s of %s), not "
	    "%s: its handlers must be dead before the lease can expire", conf_shown_name(q),
	    units_format_duration(lease_ms / 3, most), units_format_duration(lease_ms, lease),
	    units_format_duration(q->kill_grace_ms, grace));
}

static void check_backoff(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *base = conf_queue_origin(q, "backoff.base"),
	    *cap = conf_queue_origin(q, "backoff.cap");

	if (base->kind != CONF_ORIGIN_BAD && cap->kind != CONF_ORIGIN_BAD && q->backoff.cap_ms < q->backoff.base_ms)
		conf_error(l, conf_given(cap) ? cap : base, "backoff.cap is less than backoff.base");
}

static size_t env_name_len(const char *entry)
{
	return strcspn(entry, "=");
}

static bool env_name_valid(const char *entry)
{
	size_t len = env_name_len(entry);

	if (len == 0 || isdigit((unsigned char)entry[0]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!isalnum((unsigned char)entry[i]) && entry[i] != '_')
			return false;
	return true;
}

/* Values may be secrets, so errors show only names. */
static void check_env(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "env");

	for (size_t i = 0; q->env != NULL && q->env[i] != NULL; i++) {
		int len = (int)env_name_len(q->env[i]);
		size_t before = 0;

		while (before < i && ((int)env_name_len(q->env[before]) != len ||
		    strncmp(q->env[before], q->env[i], (size_t)len) != 0))
			before++;
		if (!env_name_valid(q->env[i]))
			conf_error(l, where, "env: expected \"NAME=VALUE\" or \"NAME\" (letters, digits, _)");
		else if (strncmp(q->env[i], "QUREDIS_", 8) == 0)
			conf_error(l, where, "env: %.*s: names that begin with QUREDIS_ are set by quredisd", len,
			    q->env[i]);
		else if (before < i)
			conf_error(l, where, "env: %.*s is set twice", len, q->env[i]);
	}
}

/* Warns only of keys that the queue itself sets: `defaults` may serve queues of both modes. */
static void check_mode(struct conf_loading *l, const struct conf_queue *q)
{
	static const char *const persistent_only[] = { "window", "recycle.jobs", "recycle.rss", "recycle.age",
		"ready", "start_timeout" };

	if (q->mode == CONF_MODE_PERSISTENT && q->input == CONF_INPUT_ARGV && conf_given_in_queue(l, q, "input"))
		conf_warning(l, conf_queue_origin(q, "input"),
		    "queue %s: input = \"argv\" has no effect with mode = \"persistent\"", conf_shown_name(q));
	if (q->mode == CONF_MODE_PERSISTENT && !q->ready && conf_given_in_queue(l, q, "start_timeout"))
		conf_warning(l, conf_queue_origin(q, "start_timeout"),
		    "queue %s: start_timeout has no effect without ready = true", conf_shown_name(q));
	for (size_t i = 0; q->mode == CONF_MODE_EXEC && i < nitems(persistent_only); i++)
		if (conf_given_in_queue(l, q, persistent_only[i]))
			conf_warning(l, conf_queue_origin(q, persistent_only[i]),
			    "queue %s: %s has no effect without mode = \"persistent\"", conf_shown_name(q),
			    persistent_only[i]);
}

static void check_limits(struct conf_loading *l, const struct conf_queue *q)
{
	/* A sweeper of another host gives the seats of that host to other workers. */
	if (q->max_in_flight > 0 && q->fence == CONF_FENCE_FINISH)
		conf_warning(l, place_of(q, "fence"), "queue %s: with fence = \"finish\" the handlers of a host that "
		    "is cut off run on beside those that take their place, so more than max_in_flight may run",
		    conf_shown_name(q));
	if (q->rate.n == 0 && conf_given_in_queue(l, q, "burst") &&
	    conf_queue_origin(q, "rate")->kind != CONF_ORIGIN_BAD)
		conf_warning(l, conf_queue_origin(q, "burst"), "queue %s: burst has no effect without rate",
		    conf_shown_name(q));
}

/* ---- dead letters ---- */

/* Age, number and forwarding of dead letters are taken from their records. */
static void check_records(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_dead_letter *d = &q->dead_letter;
	const struct {
		const char *key;
		bool set;
	} need[] = { { "ttl", d->ttl_ms > 0 }, { "max_entries", d->max_entries > 0 },
	    { "forward_to", d->forward_to != NULL } };

	for (size_t i = 0; i < nitems(need) && !d->enabled; i++)
		if (need[i].set)
			conf_warning(l, place_of(q, "dead_letter.enabled"),
			    "queue %s: dead_letter.%s has no effect without records (dead_letter.enabled = false)",
			    q->name, need[i].key);
	if (d->enabled && d->archive != NULL && d->ttl_ms <= 0 && d->max_entries <= 0)
		conf_warning(l, place_of(q, "dead_letter.archive"),
		    "queue %s: dead_letter.archive has no effect without dead_letter.ttl or dead_letter.max_entries",
		    q->name);
}

/* In a cycle of forward_to a dead letter would circulate for ever. */
static void check_cycle(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_queue *next = q;

	for (size_t steps = 0; steps <= l->conf->nqueues && next->dead_letter.forward_to != NULL; steps++) {
		next = conf_queue_find(l->conf, next->dead_letter.forward_to);
		if (next == NULL)
			return;
		if (next != q)
			continue;
		conf_error(l, place_of(q, "dead_letter.forward_to"),
		    "queue %s: dead_letter.forward_to = \"%s\" is part of a cycle: its dead letters would return to it",
		    q->name, q->dead_letter.forward_to);
		return;
	}
}

const char *conf_nearest_queue(const struct conf *conf, const struct conf_queue *but, const char *name)
{
	const char **names = alloc_zero(conf->nqueues, sizeof(*names)), *near;
	size_t n = 0;

	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i] != but && conf->queues[i]->name != NULL)
			names[n++] = conf->queues[i]->name;
	near = nearest(name, names, n);
	free(names);
	return near;
}

static void check_dead_letter(struct conf_loading *l, const struct conf_queue *q)
{
	const char *to = q->dead_letter.forward_to, *near;

	if (q->name == NULL)
		return;
	check_records(l, q);
	if (to != NULL && conf_queue_find(l->conf, to) != NULL) {
		check_cycle(l, q);
	} else if (to != NULL && !l->broken) {
		near = conf_nearest_queue(l->conf, q, to);
		conf_error(l, place_of(q, "dead_letter.forward_to"),
		    "queue %s: dead_letter.forward_to: queue %s does not exist%s%s%s",
		    q->name, to, near == NULL ? "" : ": did you mean ", near == NULL ? "" : near,
		    near == NULL ? "" : "?");
	}
}

/* ---- shared = true ---- */

static bool is_bad(const struct conf_queue *q, const char *key)
{
	return conf_queue_origin(q, key)->kind == CONF_ORIGIN_BAD;
}

/* EX_TEMPFAIL is a retry by default, without the operator's wish: the worker treats it as a failure
 * (worker/settle.c). */
static void check_shared_codes(struct conf_loading *l, const struct conf_queue *q)
{
	for (size_t code = 0; code < nitems(q->exit_codes) && !is_bad(q, "exit_codes"); code++) {
		if (q->exit_codes[code] != CONF_OUTCOME_RETRY || code == EX_TEMPFAIL)
			continue;
		conf_error(l, place_of(q, "exit_codes"),
		    "queue %s: exit_codes.retry = [%zu] is not possible with shared = true: a retry adds a line before "
		    "the message, which the other consumers would read", conf_shown_name(q), code);
		return;
	}
}

/* An error only for limits that the queue itself sets: the global ones may serve other queues. */
static void check_shared_purge(struct conf_loading *l, const struct conf_queue *q)
{
	static const char *const ages[] = { "purge.max_ingress_age", "purge.max_message_age" };

	for (size_t i = 0; i < nitems(ages); i++)
		if (conf_given(conf_queue_origin(q, ages[i])))
			conf_error(l, conf_queue_origin(q, ages[i]),
			    "queue %s: %s is not possible with shared = true: quredis would have to write the arrival "
			    "time before the message, and the other consumers would read that line", conf_shown_name(q),
			    ages[i]);
	if (l->conf->purge.enabled)
		conf_warning(l, place_of(q, "shared"),
		    "queue %s: with shared = true, purge does not check waiting messages", conf_shown_name(q));
}

static void check_shared(struct conf_loading *l, const struct conf_queue *q)
{
	char ttl[UNITS_SIZE];

	if (!q->shared)
		return;
	if (q->max_attempts > 1 && !is_bad(q, "max_attempts"))
		conf_error(l, place_of(q, "max_attempts"),
		    "queue %s: max_attempts = %d is not possible with shared = true: a retry adds a line before the "
		    "message, which the other consumers would read; each message has one attempt", conf_shown_name(q),
		    q->max_attempts);
	check_shared_codes(l, q);
	if (q->ttl_ms > 0 && !is_bad(q, "ttl"))
		conf_error(l, place_of(q, "ttl"),
		    "queue %s: ttl = %s is not possible with shared = true: quredis would have to write the arrival "
		    "time before the message, and the other consumers would read that line; a producer may set ttl and "
		    "enqueued in the message", conf_shown_name(q), units_format_duration(q->ttl_ms, ttl));
	check_shared_purge(l, q);
}

/* ---- all ---- */

/* A limit of health as a file has it. */
static const char *limit_text(const char *path, int64_t limit, char text[UNITS_SIZE])
{
	if (conf_key_find(&conf_schema_global, path)->type == CONF_TYPE_DURATION)
		return units_format_duration(limit, text);
	snprintf(text, UNITS_SIZE, "%lld", (long long)limit);
	return text;
}

/* Health compares with the critical number first, so a higher warning number has no effect. */
static void check_order(struct conf_loading *l, const struct conf_queue *q, const char *kind, int64_t warning,
    int64_t critical)
{
	static const char *const levels[] = { "warning", "critical" };
	const struct conf_origin *where = NULL;
	char key[64], first[UNITS_SIZE], second[UNITS_SIZE];

	for (size_t i = 0; i < nitems(levels) && (where == NULL || !conf_given(where)); i++) {
		snprintf(key, sizeof(key), "health.thresholds.%s_%s", kind, levels[i]);
		where = q == NULL ? conf_origin(l->conf, key) : conf_queue_origin(q, key);
	}
	/* a queue that inherits both was reported with the global ones */
	if (warning <= critical || (q != NULL && !conf_given(where)))
		return;
	conf_warning(l, where, "%s%s%shealth.thresholds.%s_warning = %s is above %s_critical = %s: it has no effect",
	    q == NULL ? "" : "queue ",
	    q == NULL ? "" : conf_shown_name(q), q == NULL ? "" : ": ", kind, limit_text(key, warning, first), kind,
	    limit_text(key, critical, second));
}

void conf_check_thresholds(struct conf_loading *l, const struct conf_queue *q, const struct conf_thresholds *t)
{
	check_order(l, q, "dlq_max", t->dlq_max_warning, t->dlq_max_critical);
	check_order(l, q, "failure_rate", t->failure_rate_warning, t->failure_rate_critical);
	check_order(l, q, "oldest_age", t->oldest_age_warning_ms, t->oldest_age_critical_ms);
	check_order(l, q, "stuck_max", t->stuck_max_warning, t->stuck_max_critical);
}

void conf_check_queue(struct conf_loading *l, struct conf_queue *q)
{
	check_name_and_handler(l, q);
	check_timeout(l, q);
	check_max_duration(l, q);
	check_fence(l, q);
	check_backoff(l, q);
	check_env(l, q);
	check_mode(l, q);
	check_limits(l, q);
	conf_check_function(l, q);
	check_dead_letter(l, q);
	check_shared(l, q);
	conf_check_commands(l, q);
	conf_check_thresholds(l, q, &q->health.thresholds);
	if (conf_is_served(l, q))
		conf_check_execution(l, q);
}
