/* Notes beside the messages of a shared queue: what is in one, and reading them. They are written by the scripts that move messages. */
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "common/queue_notes.h"

#include "common/alloc.h"
#include "common/queue_admin.h"

void queue_note_of(struct queue_note *n, const struct message *m, const struct wrapper *w)
{
	message_sha1(m->raw + m->wrapper_len, m->raw_len - m->wrapper_len, n->field);
	n->text[0] = '\0';
	if (w != NULL)
		message_memory(w, n->text);
}

const struct queue_note *queue_remember(const struct queue_keys *k, const struct message *m, const struct wrapper *w,
    struct buffer *instead, struct queue_note *n)
{
	if (!k->shared) {
		message_wrap(instead, m, w);
		return NULL;
	}
	/* Others who fetch it would not know what lies before it. */
	buffer_append(instead, m->raw + m->wrapper_len, m->raw_len - m->wrapper_len);
	queue_note_of(n, m, w);
	return n;
}

void queue_notes(struct redis *r, const struct queue_keys *k, const struct queue_bytes *raw, size_t n)
{
	struct queue_note *notes = alloc_zero(n, sizeof(*notes));
	const char **argv = alloc_zero(n + 2, sizeof(*argv));

	argv[0] = "HMGET";
	argv[1] = k->notes;
	for (size_t i = 0; i < n; i++) {
		struct message m;

		message_parse(&m, raw[i].data, raw[i].len);
		queue_note_of(&notes[i], &m, NULL);
		argv[i + 2] = notes[i].field;
	}
	redis_append(r, n + 2, argv, NULL);
	free(argv);
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
