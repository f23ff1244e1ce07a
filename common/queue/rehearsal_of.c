/* Says what a queue uses beyond what every queue does, so that only such steps are rehearsed; and names the scratch
 * keys. */
#include <stdlib.h>

#include "common/queue/rehearsal.h"

#include "common/base/base.h"
#include "common/conf/conf.h"

static bool is_target(const struct conf *conf, const struct conf_queue *q)
{
	for (size_t i = 0; i < conf->nqueues; i++) {
		const struct conf_queue **targets = conf->queues[i]->emit.targets;

		for (size_t k = 0; targets != NULL && targets[k] != NULL; k++)
			if (strcmp(targets[k]->name, q->name) == 0)
				return true;
	}
	return false;
}

unsigned queue_rehearsal_of(const struct queue_keys *k, const struct conf *conf, const struct conf_queue *q)
{
	unsigned what = k->shared ? REHEARSE_NOTES : conf_queue_ages(conf, q) ? REHEARSE_AGES : 0;

	if (q->rate.n > 0)
		what |= REHEARSE_THROTTLE;
	if (q->max_in_flight > 0)
		what |= REHEARSE_SEATS;
	if (q->emit.queues != NULL || is_target(conf, q))
		what |= REHEARSE_EMIT;
	for (size_t i = 0; i < conf->nschedules; i++)
		if (strcmp(conf->schedules[i]->queue, q->name) == 0)
			what |= REHEARSE_SCHEDULES;
	return what;
}

static char *beside(const char *key, const char *name)
{
	return alloc_format("%s:scratch:%s", key, name);
}

void queue_rehearsal_keys(struct queue_keys *to, const char *prefix, const struct queue_keys *k, const char *name)
{
	char *ingress = queue_scratch_key(k, name), *transit = beside(k->transit, name),
	    *escaped = beside(k->escape, name);

	queue_keys_init(to, prefix, k->name, ingress, transit, escaped);
	free(to->registered);
	to->registered = alloc_string(k->registered);
	free(to->pushed);
	to->pushed = alloc_format("%s:pushed", ingress);	/* never that of producers */
	free(to->throttle);
	to->throttle = alloc_format("%s:scratch:%s:throttle", k->throttle, name);	/* queues may share it */
	to->seats = k->seats == NULL ? NULL : alloc_format("%s:scratch:%s:seats", k->seats, name);
	to->seats_free = k->seats == NULL ? NULL : alloc_format("%s:free", to->seats);
	to->shared = k->shared;
	free(ingress);
	free(transit);
	free(escaped);
}
