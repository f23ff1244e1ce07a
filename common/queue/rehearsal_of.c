/* Says what a queue uses beyond what every queue does, so that only such steps are rehearsed. */
#include "common/queue/rehearsal.h"

#include "common/conf/conf.h"

unsigned queue_rehearsal_of(const struct queue_keys *k, const struct conf *conf, const struct conf_queue *q)
{
	unsigned what = k->shared ? REHEARSE_NOTES : conf_queue_ages(conf, q) ? REHEARSE_AGES : 0;

	if (q->rate.n > 0)
		what |= REHEARSE_THROTTLE;
	if (q->emit.queues != NULL)
		what |= REHEARSE_EMIT;
	for (size_t i = 0; i < conf->nschedules; i++)
		if (strcmp(conf->schedules[i]->queue, q->name) == 0)
			what |= REHEARSE_SCHEDULES;
	return what;
}
