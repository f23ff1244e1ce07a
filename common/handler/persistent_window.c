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

static void free_job(struct persistent_job *job)
{
	persistent_window_said_free(job->said);
	handler_emissions_free(job->emitted);
}

void persistent_window_free(struct persistent_window *w)
{
	persistent_window_clear(w);
	free(w->jobs);
}

void persistent_window_clear(struct persistent_window *w)
{
	persistent_window_cut(w, 0);
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

	free_job(&first[i]);
	memmove(first + 1, first, (size_t)i * sizeof(*first));
	w->first++;
	if (--w->n == 0)
		w->first = 0;
}

void persistent_window_cut(struct persistent_window *w, int n)
{
	assert(n <= w->n);
	while (w->n > n)
		free_job(persistent_window_at(w, --w->n));
	if (n == 0)
		w->first = 0;
}

void persistent_window_say(struct persistent_job *job, uint64_t since, const char *line, size_t len, size_t max)
{
	struct buffer *text;

	if (job->said == NULL) {
		job->said = alloc_zero(1, sizeof(*job->said));
		job->said->since = since;
	}
	text = &job->said->text;
	if (len > max) {
		line += len - max;
		len = max;
	}
	if (text->len > max && text->len + len >= 2 * max)	/* not at each line, since it moves the rest */
		buffer_consume(text, text->len - max);
	buffer_append(text, line, len);
	buffer_append(text, "\n", 1);
}

const char *persistent_window_said(const struct persistent_said *said, size_t max, size_t *len)
{
	*len = said->text.len < max ? said->text.len : max;
	return said->text.data + said->text.len - *len;
}

struct persistent_said *persistent_window_take_said(struct persistent_job *job)
{
	struct persistent_said *said = job->said;

	job->said = NULL;
	return said;
}

void persistent_window_said_free(struct persistent_said *said)
{
	if (said == NULL)
		return;
	buffer_free(&said->text);
	free(said);
}
