/* The life of a struct conf: made empty, found in, freed. Filling it is conf_load.c's work. */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/conf.h"

#include "common/alloc.h"
#include "common/conf_load.h"
#include "common/conf_schema.h"
#include "common/conf_types.h"

static void unset(const struct conf_schema *schema, void *base)
{
	for (size_t i = 0; i < schema->n; i++)
		conf_value_unset(&schema->keys[i], base);
}

static void release(const struct conf_schema *schema, void *base)
{
	for (size_t i = 0; i < schema->n; i++)
		conf_value_free(&schema->keys[i], base);
}

struct conf *conf_new(void)
{
	struct conf *conf = alloc_zero(1, sizeof(*conf));

	unset(&conf_schema_global, conf);
	conf->origins = alloc_zero(conf_schema_global.n, sizeof(*conf->origins));
	conf->files = alloc_zero(1, sizeof(*conf->files));
	return conf;
}

void conf_queue_init(struct conf_queue *q)
{
	unset(&conf_schema_queue, q);
	q->origins = alloc_zero(conf_schema_queue.n + 1, sizeof(*q->origins));
}

struct conf_queue *conf_queue_add(struct conf *conf)
{
	struct conf_queue *q = alloc_zero(1, sizeof(*q));

	conf_queue_init(q);
	conf->queues = alloc_resize(conf->queues, conf->nqueues + 1, sizeof(*conf->queues));
	conf->queues[conf->nqueues++] = q;
	return q;
}

void conf_queue_release(struct conf_queue *q)
{
	release(&conf_schema_queue, q);
	free(q->run_as.groups);
	free(q->run_as.home);
	free(q->run_as.login);
	free(q->origins);
}

void conf_free(struct conf *conf)
{
	if (conf == NULL)
		return;
	for (size_t i = 0; i < conf->nqueues; i++) {
		conf_queue_release(conf->queues[i]);
		free(conf->queues[i]);
	}
	free(conf->queues);
	release(&conf_schema_global, conf);
	free(conf->redis.user);
	if (conf->redis.password != NULL)
		explicit_bzero(conf->redis.password, strlen(conf->redis.password));
	free(conf->redis.password);
	for (char **f = conf->files; *f != NULL; f++)
		free(*f);
	free(conf->files);
	free(conf->origins);
	free(conf);
}

struct conf_queue *conf_queue_find(const struct conf *conf, const char *name)
{
	for (size_t i = 0; i < conf->nqueues; i++)
		if (conf->queues[i]->name != NULL && strcmp(conf->queues[i]->name, name) == 0)
			return conf->queues[i];
	return NULL;
}

struct conf_origin *conf_origin(const struct conf *conf, const char *path)
{
	return &conf->origins[conf_key_index(&conf_schema_global, path)];
}

struct conf_origin *conf_queue_origin(const struct conf_queue *q, const char *path)
{
	return &q->origins[conf_key_index(&conf_schema_queue, path)];
}

struct conf_origin *conf_queue_place(const struct conf_queue *q)
{
	return &q->origins[conf_schema_queue.n];
}
