/*
 * Decides how many messages a worker fetches at once: as many as it is expected to finish within half of batch.time.
 * The other half belongs to the tray that it fetches ahead. So a worker with a slow handler holds one message, a fast
 * one runs at full speed, and no operator tunes anything.
 */
#include "worker/pacing.h"

#define WEIGHT 0.2			/* of the newest measurement */
#define TRAY_BYTES (1024.0 * 1024.0)	/* messages of about so much in one tray */

static const struct retry_backoff backoff = { .base_ms = 100, .cap_ms = 30000, .jitter = 0.5 };

void pacing_init(struct pacing *p, const struct conf_queue *conf)
{
	p->conf = conf;
	p->message_us = -1;
	p->batch = 1;
}

int64_t pacing_limit_us(const struct pacing *p)
{
	return p->conf->batch.time_ms * 1000;
}

static int at_most(const struct pacing *p)
{
	double n = p->conf->batch.max;

	if (p->message_us < 0)
		return 1;
	if (n * p->message_us * 2 > (double)pacing_limit_us(p))
		n = (double)pacing_limit_us(p) / 2 / p->message_us;
	if (n * p->message_bytes > TRAY_BYTES)
		n = TRAY_BYTES / p->message_bytes;
	return n < 1 ? 1 : (int)n;
}

int pacing_size(const struct pacing *p)
{
	int n = p->batch > 1 ? at_most(p) : 1;

	return n < p->batch ? n : p->batch;
}

/* A message counts as batch.time at most: what waits behind a slower one is handed back anyway. */
void pacing_learn(struct pacing *p, int64_t us, int n)
{
	double each = (double)us / (n > 0 ? n : 1), limit = (double)pacing_limit_us(p);

	if (each > limit)
		each = limit;
	if (each < 0.01)
		each = 0.01;
	p->message_us = p->message_us < 0 ? each : p->message_us * (1 - WEIGHT) + each * WEIGHT;
}

void pacing_learn_size(struct pacing *p, size_t len)
{
	double bytes = (double)len;

	/* Up at once, down slowly: this limit protects memory. */
	p->message_bytes = bytes > p->message_bytes ? bytes : p->message_bytes * 0.99 + bytes * 0.01;
}

void pacing_full(struct pacing *p, bool full)
{
	if (!full)
		p->batch = 1;
	else if (p->batch < p->conf->batch.max)
		p->batch = p->batch * 2 < p->conf->batch.max ? p->batch * 2 : p->conf->batch.max;
}

void pacing_progressed(struct pacing *p, int n, int64_t now_us)
{
	if (n > 0)
		pacing_learn(p, now_us - p->progress_us, n);
	p->progress_us = now_us;
}

bool pacing_is_slow(const struct pacing *p, bool runs, int64_t now_us)
{
	return runs && now_us - p->progress_us >= pacing_limit_us(p);
}

void pacing_pause_ahead(struct pacing *p, int64_t until_ms)
{
	p->ahead_at_ms = until_ms;
}

void pacing_not_before(struct pacing *p, int64_t until_ms)
{
	if (until_ms > p->retry.at_ms)
		retry_not_before(&p->retry, until_ms);
}

void pacing_retry_now(struct pacing *p)
{
	retry_not_before(&p->retry, 0);
}

void pacing_retry_failed(struct pacing *p, int64_t now_ms)
{
	retry_failed(&p->retry, &backoff, now_ms);
}

void pacing_retry_succeeded(struct pacing *p)
{
	retry_succeeded(&p->retry);
}

void pacing_probes(struct pacing *p, bool probing)
{
	p->probing = probing;
}
