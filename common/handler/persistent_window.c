/*
 * The jobs that a handler has not answered, oldest first. Answers mostly come in the order of the jobs; then adding,
 * finding and removing touch one entry each.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/handler/persistent_window.h"

#include "common/base/base.h"

void persistent_window_init(struct persistent_window *w, int window)
{
	*w = (struct persistent_window){ .cap = 2 * window };
	w->jobs = alloc_zero((size_t)w->cap, sizeof(*w->jobs));
}

void persistent_window_free(struct persistent_window *w)
{
	free(w->jobs);
}

void persistent_window_clear(struct persistent_window *w)
{
	w->first = w->n = 0;
}

struct persistent_job *persistent_window_at(const struct persistent_window *w, int i)
{
	return &w->jobs[w->first + i];
}

void persistent_window_add(struct persistent_window *w, const struct persistent_job *job)
{
	assert(w->n < w->cap / 2);
	assert(w->n == 0 || job->serial > persistent_window_at(w, w->n - 1)->serial);
	if (w->first + w->n == w->cap) {
		memmove(w->jobs, w->jobs + w->first, (size_t)w->n * sizeof(*w->jobs));
		w->first = 0;
	}
	w->jobs[w->first + w->n++] = *job;
}

/* Looks at as many jobs as persistent_window_remove() then moves. */
int persistent_window_find(const struct persistent_window *w, const char *token)
{
	for (int i = 0; i < w->n; i++)
		if (memcmp(persistent_window_at(w, i)->token.text, token, HANDLER_TOKEN_LEN) == 0)
			return i;
	return -1;
}

/* The jobs before it move by one: few, if answers come almost in order. */
void persistent_window_remove(struct persistent_window *w, int i)
{
	struct persistent_job *first = &w->jobs[w->first];

	memmove(first + 1, first, (size_t)i * sizeof(*first));
	w->first++;
	if (--w->n == 0)
		w->first = 0;
}

void persistent_window_cut(struct persistent_window *w, int n)
{
	assert(n <= w->n);
	w->n = n;
	if (n == 0)
		w->first = 0;
}
