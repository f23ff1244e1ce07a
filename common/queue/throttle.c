/* The throttle of a queue: the script that gives starts, and the figures that the key holds. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/queue/throttle.h"

#include "common/base/base.h"
#include "common/queue/scripts.h"

void queue_throttle_format(const struct queue_throttle_figures *f, struct queue_throttle_text *out)
{
	int64_t per_us = f->per_ms * 1000;

	snprintf(out->figures, sizeof(out->figures), "%" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %s",
	    f->loaded_ms, f->n, per_us, f->burst, f->node);
	snprintf(out->each_us, sizeof(out->each_us), "%.6f", (double)per_us / (double)f->n);
	snprintf(out->burst, sizeof(out->burst), "%" PRId64, f->burst);
}

void queue_throttle(struct redis *r, const struct queue_keys *k, const struct queue_throttle_text *figures, int wanted,
    bool from_ingress, struct queue_throttle_unused unused)
{
	char *none = queue_lease_key(k, NULL);
	const char *keys[] = { none, k->throttle, k->ingress };
	struct script_number numbers[3];
	struct script_arg args[] = { script_number(&numbers[0], wanted), script_number(&numbers[1], unused.appointment),
		script_number(&numbers[2], unused.starts), script_string(figures->each_us),
		script_string(figures->burst), script_string(figures->figures) };

	queue_script(r, QUEUE_SCRIPT_throttle, from_ingress ? 3 : 2, keys, nitems(args), args);
	free(none);
}

void queue_throttle_announce(struct redis *r, const struct queue_keys *k, const struct queue_throttle_text *figures)
{
	queue_throttle(r, k, figures, 0, false, (struct queue_throttle_unused){0});
}

int queue_throttle_parse(const struct redis_reply *reply, struct queue_throttle_answer *out)
{
	int64_t *const fields[] = { &out->starts, &out->wait_us, &out->appointment, &out->now_us };

	return redis_integers(reply, fields, nitems(fields));
}

void queue_throttle_figures(struct redis *r, const struct queue_keys *k)
{
	redis_appendf(r, "GET %s", k->throttle);
}

int queue_throttle_figures_parse(const struct redis_reply *reply, struct queue_throttle_figures *out)
{
	char text[QUEUE_THROTTLE_TEXT_SIZE + 48];
	int64_t per_us;

	_Static_assert(QUEUE_NAME_MAX == 64, "the width below");
	*out = (struct queue_throttle_figures){0};
	if (reply->type != REDIS_STRING || reply->len >= sizeof(text) || memchr(reply->str, '\0', reply->len) != NULL)
		return -1;
	memcpy(text, reply->str, reply->len);
	text[reply->len] = '\0';
	if (sscanf(text, "%*d %*d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %64s", &out->loaded_ms, &out->n,
	    &per_us, &out->burst, out->node) != 5 || out->n <= 0 || out->burst <= 0)
		return -1;
	out->per_ms = per_us / 1000;
	return out->per_ms > 0 ? 0 : -1;
}
