/* Makes and reads the notes beside the messages of a shared queue. The scripts that move messages write them. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue/notes.h"

#include "common/base/base.h"
#include "common/queue/admin.h"

void queue_note_of(struct queue_note *n, const struct message *m, const struct wrapper *w)
{
	message_digest(m, n->field);
	n->text[0] = '\0';
	if (w != NULL)
		message_memory(w, n->text);
}

void queue_trial_name(const struct message *m, char out[QUEUE_NOTE_FIELD])
{
	if (m->wrapper.nonce != 0)
		snprintf(out, QUEUE_NOTE_FIELD, "%016" PRIx64, m->wrapper.nonce);
	else
		message_digest(m, out);
}

const struct queue_note *queue_remember(const struct queue_keys *k, const struct message *m, const struct wrapper *w,
    struct buffer *line, struct queue_note *n)
{
	/* Other programs that fetch from a shared queue would take a wrapper for payload. */
	if (k->shared) {
		queue_note_of(n, m, w);
		return n;
	}
	message_wrapper(line, &k->lines, w);
	return NULL;
}

void queue_notes_by_sha1(struct redis *r, const struct queue_keys *k, const char *const *sha1s, size_t n)
{
	const char **argv = alloc_zero(n + 2, sizeof(*argv));

	argv[0] = "HMGET";
	argv[1] = k->notes;
	for (size_t i = 0; i < n; i++)
		argv[i + 2] = sha1s[i];
	redis_append(r, n + 2, argv, NULL);
	free(argv);
}

void queue_notes(struct redis *r, const struct queue_keys *k, const struct queue_bytes *raw, size_t n)
{
	struct queue_note *notes = alloc_zero(n, sizeof(*notes));
	const char **fields = alloc_zero(n, sizeof(*fields));

	for (size_t i = 0; i < n; i++) {
		struct message m;

		message_parse(&m, &k->lines, raw[i].data, raw[i].len);
		queue_note_of(&notes[i], &m, NULL);
		fields[i] = notes[i].field;
	}
	queue_notes_by_sha1(r, k, fields, n);
	free(fields);
	free(notes);
}

bool queue_note_read(const struct redis_reply *answer, size_t i, struct wrapper *w)
{
	struct redis_reply note;

	*w = (struct wrapper){0};
	if (answer->type != REDIS_ARRAY || i >= answer->n)
		return false;
	note = redis_element(answer, i);
	return note.type == REDIS_STRING && message_recall(w, note.str, note.len) == 0;
}
