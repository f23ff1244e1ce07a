/*
 * What a worker is given at its start. Nothing of it changes afterwards, so all components may read it, and none may write it:
 * they see it const. What slot and board point at is shared with other processes.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker/env.h"

#include "common/base/base.h"

struct env *env_new(const struct child *child)
{
	struct env *env = alloc_zero(1, sizeof(*env));

	env->child = child;
	env->conf = child->queue;
	env->slot = &child->board->slots[child->slot];
	env->board = &child->board->queues[child->queue_index];
	snprintf(env->name, sizeof(env->name), "%s/%d", env->conf->name, child->index);
	queue_keys_from_conf(&env->keys, env->conf);
	return env;
}

void env_free(struct env *env)
{
	queue_keys_free(&env->keys);
	free(env);
}

void env_count(const struct env *env, enum counter counter, int n)
{
	assert(counter < COUNTERS && n >= 0);
	atomic_fetch_add(&env->slot->counters[counter], (uint64_t)n);
}
