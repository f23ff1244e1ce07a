/*
 * How many messages a worker asks for at once: as many as it can be expected to finish within half of
 * batch.time, the other half being the tray fetched ahead. Slow handlers so hold exactly one message,
 * fast ones run at full speed, and nobody tunes anything.
 */
#include "worker/worker.h"

#define WEIGHT 0.2			/* of the newest measurement */
#define TRAY_BYTES (1024.0 * 1024.0)	/* messages of about so much in one tray */

int64_t batch_limit_us(const struct worker *w)
{
	return w->conf->batch.time_ms * 1000;
}

static int at_most(const struct worker *w)
{
	double n = w->conf->batch.max;

	if (w->message_us < 0)
		return 1;
	if (n * w->message_us * 2 > (double)batch_limit_us(w))
		n = (double)batch_limit_us(w) / 2 / w->message_us;
	if (n * w->message_bytes > TRAY_BYTES)
		n = TRAY_BYTES / w->message_bytes;
	return n < 1 ? 1 : (int)n;
}

int batch_size(const struct worker *w)
{
	int n = at_most(w);

	if (breaker_until_ms(w->board) != 0 || !w->runner->ready(w))
		return 1;
	return n < w->batch ? n : w->batch;
}

/* One that takes very long says no more than one that takes all of batch.time: what waits behind it is handed back. */
void batch_learn(struct worker *w, int64_t us, int n)
{
	double each = (double)us / (n > 0 ? n : 1), limit = (double)batch_limit_us(w);

	if (each > limit)
		each = limit;
	if (each < 0.01)
		each = 0.01;
	w->message_us = w->message_us < 0 ? each : w->message_us * (1 - WEIGHT) + each * WEIGHT;
}

void batch_learn_size(struct worker *w, size_t len)
{
	double bytes = (double)len;

	/* Up at once, down slowly: memory is what this is about. */
	w->message_bytes = bytes > w->message_bytes ? bytes : w->message_bytes * 0.99 + bytes * 0.01;
}

void batch_full(struct worker *w, bool full)
{
	if (!full)
		w->batch = 1;
	else if (w->batch < w->conf->batch.max)
		w->batch = w->batch * 2 < w->conf->batch.max ? w->batch * 2 : w->conf->batch.max;
}
