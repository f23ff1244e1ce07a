/* Checks of one queue that look at more than one value, or at what a value says. */
#include <ctype.h>
#include <string.h>

#include "common/conf.h"

#include "common/conf_load.h"
#include "common/duration.h"
#include "common/nitems.h"
#include "common/queue.h"

static const char *shown_name(const struct conf_queue *q)
{
	return q->name == NULL ? "?" : q->name;
}

static void check_name(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "name");

	if (!conf_given(where))
		conf_error(l, conf_queue_place(q), "this queue has no name");
	else if (q->name != NULL && (strlen(q->name) > QUEUE_NAME_MAX || q->name[strspn(q->name, QUEUE_NAME_BYTES)] != '\0'))
		conf_error(l, where, "name: expected 1 to %d letters, digits, dots, dashes and underscores, not \"%s\"",
		    QUEUE_NAME_MAX, q->name);
}

static void check_present(struct conf_loading *l, const struct conf_queue *q)
{
	if (q->handler == NULL && !conf_given(conf_queue_origin(q, "handler")) &&
	    !conf_given(conf_queue_origin(&l->defaults, "handler")))
		conf_error(l, conf_queue_place(q), "queue %s has no handler", shown_name(q));
}

static void check_timeout(struct conf_loading *l, const struct conf_queue *q)
{
	char timeout[DURATION_SIZE], drain[DURATION_SIZE];
	const struct conf_origin *where = conf_queue_origin(q, "timeout");
	const struct conf_origin *drain_where = conf_origin(l->conf, "supervisor.drain_timeout");

	if (where->kind == CONF_ORIGIN_BAD || drain_where->kind == CONF_ORIGIN_BAD ||
	    q->timeout_ms <= l->conf->supervisor.drain_timeout_ms)
		return;
	if (!conf_given(where) && !conf_given(drain_where))
		return;		/* the defaults alone are nobody's mistake */
	conf_warning(l, conf_given(where) ? where : conf_queue_place(q),
	    "queue %s: timeout %s is longer than supervisor.drain_timeout %s: a stop may interrupt its handlers", shown_name(q),
	    duration_format(q->timeout_ms, timeout), duration_format(l->conf->supervisor.drain_timeout_ms, drain));
}

/*
 * Renewed every quarter of the lease, it must be refused or unanswered for as long again before a handler is ended,
 * and what a handler is given to end must be over well before the lease is.
 */
static void check_fence(struct conf_loading *l, const struct conf_queue *q)
{
	char grace[DURATION_SIZE], lease[DURATION_SIZE], most[DURATION_SIZE];
	int64_t lease_ms = l->conf->supervisor.lease_ms;

	if (q->fence != CONF_FENCE_KILL || conf_queue_origin(q, "kill_grace")->kind == CONF_ORIGIN_BAD ||
	    conf_origin(l->conf, "supervisor.lease")->kind == CONF_ORIGIN_BAD || q->kill_grace_ms <= lease_ms / 3)
		return;
	conf_error(l, conf_queue_origin(q, "fence"),
	    "queue %s: with fence = \"kill\" kill_grace may be a third of supervisor.lease at most, %s of %s, and is %s: "
	    "its handlers must be dead before the lease can have run out", shown_name(q),
	    duration_format(lease_ms / 3, most), duration_format(lease_ms, lease), duration_format(q->kill_grace_ms, grace));
}

static void check_backoff(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *base = conf_queue_origin(q, "backoff.base"), *cap = conf_queue_origin(q, "backoff.cap");

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

static bool env_repeated(char *const *env, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (env_name_len(env[k]) == env_name_len(env[i]) && strncmp(env[k], env[i], env_name_len(env[i])) == 0)
			return true;
	return false;
}

/* Values may be secrets: only names are told. */
static void check_env(struct conf_loading *l, const struct conf_queue *q)
{
	const struct conf_origin *where = conf_queue_origin(q, "env");

	for (size_t i = 0; q->env != NULL && q->env[i] != NULL; i++) {
		int len = (int)env_name_len(q->env[i]);

		if (!env_name_valid(q->env[i]))
			conf_error(l, where, "env: expected \"NAME=VALUE\" or \"NAME\" (letters, digits, _)");
		else if (strncmp(q->env[i], "QUREDIS_", 8) == 0)
			conf_error(l, where, "env: %.*s: names that begin with QUREDIS_ are set by quredisd", len, q->env[i]);
		else if (env_repeated(q->env, i))
			conf_error(l, where, "env: %.*s stands there twice", len, q->env[i]);
	}
}

static bool given_here(const struct conf_loading *l, const struct conf_queue *q, const char *key)
{
	return conf_queue_origin(q, key)->kind == CONF_ORIGIN_FILE && !conf_given(conf_queue_origin(&l->defaults, key));
}

/* What `defaults` says for all need not fit each. */
static void check_mode(struct conf_loading *l, const struct conf_queue *q)
{
	static const char *const persistent_only[] = { "window", "reply_fd", "recycle.jobs", "recycle.rss", "recycle.age" };

	if (q->mode == CONF_MODE_PERSISTENT && q->input == CONF_INPUT_ARGV && given_here(l, q, "input"))
		conf_warning(l, conf_queue_origin(q, "input"),
		    "queue %s: input = \"argv\" has no effect with mode = \"persistent\"", shown_name(q));
	for (size_t i = 0; q->mode == CONF_MODE_EXEC && i < nitems(persistent_only); i++)
		if (given_here(l, q, persistent_only[i]))
			conf_warning(l, conf_queue_origin(q, persistent_only[i]),
			    "queue %s: %s has no effect without mode = \"persistent\"", shown_name(q), persistent_only[i]);
}

void conf_check_purge(struct conf_loading *l, const struct conf_origin *where, const struct conf_purge *purge)
{
	if (conf_given(where) && where->kind != CONF_ORIGIN_BAD && purge->check != NULL && purge->check[0][0] != '/')
		conf_error(l, where, "purge.check: expected an absolute path first, not \"%s\"", purge->check[0]);
}

bool conf_is_served(const struct conf_loading *l, const struct conf_queue *q)
{
	return (l->flags & CONF_LENIENT_HANDLERS) == 0 && (l->only == NULL || (q->name != NULL && strcmp(q->name, l->only) == 0));
}

void conf_check_queue(struct conf_loading *l, struct conf_queue *q)
{
	check_name(l, q);
	check_present(l, q);
	check_timeout(l, q);
	check_fence(l, q);
	check_backoff(l, q);
	check_env(l, q);
	check_mode(l, q);
	conf_check_letters(l, q);
	conf_check_shared(l, q);
	conf_check_purge(l, conf_queue_origin(q, "purge.check"), &q->purge);
	if (conf_is_served(l, q)) {
		conf_check_user(l, q);
		conf_check_handler(l, q);
	}
}
