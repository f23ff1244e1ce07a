/*
 * Remembers the beginnings of messages that were answered. Their own bytes may be freed with the answer, and to compute
 * an id for each would cost more than the message.
 */
#include <string.h>

#include "common/handler/persistent_answered.h"

void persistent_answered_clear(struct persistent_answered *a)
{
	a->next = a->n = 0;
}

void persistent_answered_add(struct persistent_answered *a, const struct token *token, const char *raw, size_t len)
{
	struct answered_job *job = &a->jobs[a->next];

	a->next = (a->next + 1) % ANSWERED_KEPT;
	if (a->n < ANSWERED_KEPT)
		a->n++;
	job->token = *token;
	job->repeat_logged = job->emit_logged = false;
	job->len = len;
	memcpy(job->data, raw, len < ANSWERED_BYTES ? len : ANSWERED_BYTES);
}

struct answered_job *persistent_answered_find(struct persistent_answered *a, const char *token)
{
	for (unsigned i = 0; i < a->n; i++)
		if (memcmp(a->jobs[i].token.text, token, HANDLER_TOKEN_LEN) == 0)
			return &a->jobs[i];
	return NULL;
}

const char *persistent_answered_id(const struct answered_job *job, const struct message_keys *keys, struct message *m)
{
	bool whole = job->len <= ANSWERED_BYTES;

	message_parse(m, keys, job->data, whole ? job->len : ANSWERED_BYTES);
	return whole || m->id[0] != '\0' ? message_id(m) : NULL;
}
