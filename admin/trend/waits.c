/* The estimate of waiting times, which the header explains. */
#include "admin/trend/waits.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/base.h"
#include "common/queue/queue.h"

#define SAMPLES 10	/* messages of a minute that are followed, at equal distances in the order in which they left */

/* Numbers of messages are doubles, which hold the sum of any counts that Redis may contain. */
struct waits {
	size_t n;		/* minutes */
	size_t first_known;	/* the first minute with a known backlog; n: there is none */
	double *fetched;	/* in each of the n minutes */
	/* n + 1 each: how many came or left between the beginning of first_known and the beginning of minute i; [n]: at
	 * the end */
	double *came, *left;
};

struct sample {
	double minutes;		/* how long it waited; INFINITY: not known */
	double messages;	/* how many messages it stands for */
};

/* ---- the course of the queue ---- */

/* The backlog of each minute. Between two known ones it changes evenly; after the last known one it stays. Returns the
 * index of the first known one. */
static size_t fill_backlog(const struct waits_minute *minutes, size_t n, double *backlog)
{
	size_t first = n, last = 0;

	for (size_t i = 0; i < n; i++) {
		if (minutes[i].backlog == QUEUE_BACKLOG_UNKNOWN) {
			backlog[i] = first == n ? 0 : backlog[last];
			continue;
		}
		backlog[i] = (double)minutes[i].backlog;
		for (size_t k = last + 1; first != n && k < i; k++)
			backlog[k] = backlog[last] + (backlog[i] - backlog[last]) * (double)(k - last) /
			    (double)(i - last);
		first = first == n ? i : first;
		last = i;
	}
	return first;
}

/*
 * Adds up how many messages came and left. The backlog of a minute is the most that waited in it; it stands for the
 * backlog at the end of the minute, so an estimate is wrong by less than a minute. If the backlog fell by more than the
 * messages that were counted, the others left in another way.
 */
static void add_up(struct waits *w, const double *backlog)
{
	for (size_t i = w->first_known; i < w->n; i++) {
		w->left[i + 1] = w->left[i] + w->fetched[i];
		w->came[i + 1] = w->left[i + 1] + backlog[i];
		if (w->came[i + 1] < w->came[i]) {
			w->left[i + 1] += w->came[i] - w->came[i + 1];
			w->came[i + 1] = w->came[i];
		}
	}
}

struct waits *waits_new(const struct waits_minute *minutes, size_t n)
{
	double *backlog = alloc_zero(n, sizeof(*backlog));
	struct waits *w = alloc_zero(1, sizeof(*w));

	w->n = n;
	w->fetched = alloc_zero(n, sizeof(*w->fetched));
	w->came = alloc_zero(n + 1, sizeof(*w->came));
	w->left = alloc_zero(n + 1, sizeof(*w->left));
	for (size_t i = 0; i < n; i++)
		w->fetched[i] = minutes[i].left > 0 ? (double)minutes[i].left : 0;
	w->first_known = fill_backlog(minutes, n, backlog);
	add_up(w, backlog);
	free(backlog);
	return w;
}

void waits_free(struct waits *w)
{
	if (w == NULL)
		return;
	free(w->fetched);
	free(w->came);
	free(w->left);
	free(w);
}

/* ---- the messages of some minutes ---- */

/* When the message came, in minutes, that left `part` of a minute after the beginning of `minute`. part: from 0 to 1 */
static double came_at(const struct waits *w, size_t minute, double part)
{
	double nth = w->left[minute] + part * (w->left[minute + 1] - w->left[minute]);
	size_t low = w->first_known, high = w->n + 1;

	while (high - low > 1) {
		size_t middle = low + (high - low) / 2;

		if (w->came[middle] <= nth)
			low = middle;
		else
			high = middle;
	}
	return low == w->n ? (double)low : (double)low + (nth - w->came[low]) / (w->came[low + 1] - w->came[low]);
}

static struct sample sample_of(const struct waits *w, size_t minute, double part)
{
	double minutes = minute < w->first_known ? INFINITY : (double)minute + part - came_at(w, minute, part);

	return (struct sample){ .minutes = minutes < 0 ? 0 : minutes, .messages = w->fetched[minute] / SAMPLES };
}

size_t waits_oldest(const struct waits *w, size_t first)
{
	while (first < w->n && w->fetched[first] <= 0)
		first++;
	if (first == w->n)
		return w->n;
	return first < w->first_known || came_at(w, first, 0) < (double)w->first_known + 1 ? 0
	    : (size_t)came_at(w, first, 0);
}

static int by_minutes(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;

	return (x->minutes > y->minutes) - (x->minutes < y->minutes);
}

int64_t waits_below_minutes(const struct waits *w, size_t first, size_t n, int percent)
{
	struct sample *samples = alloc_zero(n * SAMPLES, sizeof(*samples)), *s = samples;
	double messages = 0, wanted;
	int64_t below;

	for (size_t i = first; i < first + n; i++) {
		messages += w->fetched[i];
		for (int k = 0; k < SAMPLES; k++)
			*s++ = sample_of(w, i, (k + 0.5) / SAMPLES);
	}
	qsort(samples, n * SAMPLES, sizeof(*samples), by_minutes);
	wanted = messages * percent / 100;
	for (s = samples; s < samples + n * SAMPLES - 1 && s->messages < wanted; s++)
		wanted -= s->messages;
	below = messages <= 0 ? WAITS_NONE : isinf(s->minutes) ? WAITS_UNKNOWN : (int64_t)s->minutes + 1;
	free(samples);
	return below;
}
