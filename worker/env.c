/*
 * Everything that the master gives a worker at its start. It does not change afterwards, so the components get it
 * const. Other processes share the memory to which slot and board point.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/env.h"

#include "common/base/base.h"

static size_t count_targets(const struct conf_queue *conf)
{
	size_t n = 0;

	while (conf->emit.targets != NULL && conf->emit.targets[n] != NULL)
		n++;
	return n;
}

static void init_targets(struct env *env)
{
	size_t n = count_targets(env->conf);

	if (n == 0)
		return;
	env->targets = alloc_zero(n, sizeof(*env->targets));
	for (size_t i = 0; i < n; i++)
		queue_keys_from_conf(&env->targets[i], env->child->conf, env->conf->emit.targets[i]);
}

struct env *env_new(const struct child *child)
{
	struct env *env = alloc_zero(1, sizeof(*env));

	env->child = child;
	env->conf = child->queue;
	env->slot = &child->board->slots[child->slot];
	env->board = &child->board->queues[child->queue_index];
	snprintf(env->name, sizeof(env->name), "%s/%d", env->conf->name, child->index);
	queue_keys_from_conf(&env->keys, child->conf, env->conf);
	init_targets(env);
	return env;
}

void env_free(struct env *env)
{
	for (size_t i = 0; i < count_targets(env->conf); i++)
		queue_keys_free(&env->targets[i]);
	free(env->targets);
	queue_keys_free(&env->keys);
	free(env);
}

void env_count(const struct env *env, enum counter counter, int n)
{
	assert(counter < COUNTERS && n >= 0);
	atomic_fetch_add(&env->slot->counters[counter], (uint64_t)n);
}

struct record env_record(const struct env *env, const char *incarnation, const struct message *m, const char *class,
    const char *why)
{
	const struct wrapper none = {0}, *w = m == NULL ? &none : &m->wrapper;

	return (struct record){
		.queue = env->conf->name,
		.queue_from = "transit",
		.error_class = class,
		.error_message = why,
		.failed_at_ms = clock_realtime_ms(),
		.first_failed_ms = w->first_failed_ms,
		.attempts = w->attempts,
		.crashes = w->crashes,
		.exit_code = -1,
		.duration_ms = -1,
		.node = env->child->conf->supervisor.node,
		.worker = incarnation,
		.handler = conf_handler_name(env->conf),
	};
}
