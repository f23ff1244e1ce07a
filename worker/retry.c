/*
 * The back-off of all components of a worker: it doubles with each error in a row, up to a cap, and some of it is
 * random, so that the workers of a host do not all come back in the same instant.
 */
#include <stdlib.h>

#include <bsd/stdlib.h>

#include "worker/retry.h"

#include "common/base/base.h"

void retry_failed(struct retry *r, const struct retry_backoff *b, int64_t now_ms)
{
	r->errors++;
	r->at_ms = now_ms + clock_backoff_ms(b->base_ms, 2, b->cap_ms, b->jitter, r->errors, arc4random());
}

void retry_succeeded(struct retry *r)
{
	r->errors = 0;
}

void retry_not_before(struct retry *r, int64_t at_ms)
{
	r->at_ms = at_ms;
}
