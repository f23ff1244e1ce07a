/* quredis dlq export: records with their messages as lines of JSON, oldest first, as the archive has them. */
#include <inttypes.h>
#include <stdlib.h>

#include "admin/dead_letters/dead_letter.h"
#include "admin/dead_letters/dead_letters.h"


struct export {
	struct admin *a;
	int64_t left;		/* -1: all */
	int64_t lost;		/* messages that are nowhere any more */
	struct buffer line;
};

static int write_line(void *arg, const struct dead_letter *d)
{
	struct export *e = arg;
	struct queue_bytes message;

	if (e->a->options.class != NULL && !dead_letter_is(d, "error_class", e->a->options.class))
		return 0;
	if (e->left == 0 || interrupt_asked())
		return 1;
	if (dead_letter_message(e->a, d, &message) == -1)
		return -1;
	e->lost += message.data == NULL;
	buffer_clear(&e->line);
	record_line(&e->line, &(struct record_line){ .record_id = d->record_id, .fields = d->fields, .nfields = d->nfields,
	    .message = message.data == NULL ? NULL : &message });
	free((void *)(uintptr_t)message.data);
	fwrite(e->line.data, 1, e->line.len, e->a->output.file);
	e->left -= e->left > 0;
	return ferror(e->a->output.file) ? 1 : 0;
}

int cmd_dlq_export(struct admin *a)
{
	struct export e = { .a = a, .left = a->options.count };
	int rc;

	interrupt_begin();
	rc = dead_letter_each_oldest(a, NULL, DEAD_LETTER_WHOLE, write_line, &e);
	buffer_free(&e.line);
	if (e.lost > 0)
		admin_note("%" PRId64 " messages were too large for their record, and are no longer in %s", e.lost, a->keys.escape);
	interrupt_end();
	return rc == -1 ? -1 : 0;
}
