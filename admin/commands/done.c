/* quredis done ls: lists the messages that a queue has done lately, if it keeps a history (done.keep). */
#include "admin/commands/commands.h"
#include "admin/dead_letters/dead_letters.h"

#include "common/base/base.h"

#define LIMIT 50
enum { DURATION = 3, ATTEMPTS = 4, SIZE = 5 };	/* indexes of columns */

static const struct column columns[] = {
	{ "entry", "Entry", COLUMN_ID },
	{ "finished_at", "Finished at", COLUMN_STATE },
	{ "id", "Id", COLUMN_NAME },
	{ "duration_ms", "Duration", COLUMN_NUMBER | YIELDS(3) },
	{ "attempts", "Attempts", COLUMN_NUMBER | YIELDS(2) },
	{ "size", "Size", COLUMN_NUMBER | YIELDS(1) },
	{ "message", "Message", COLUMN_LINE },
	{ "worker", NULL, COLUMN_NAME },
	{ "node", NULL, COLUMN_NAME },
	{ "sha1", NULL, COLUMN_NAME },
	{ "root", NULL, COLUMN_NAME },
	{ "depth", NULL, COLUMN_NAME },
};

struct listing {
	struct admin *a;
	int64_t left;
};

static int show_row(void *arg, const struct dead_letter *d)
{
	struct cell cells[nitems(columns)];
	struct listing *l = arg;

	if (l->left-- == 0)
		return 1;
	cells[0] = cell_str(d->record_id);
	for (size_t i = 1; i < nitems(cells); i++)
		cells[i] = dead_letter_cell(d, columns[i].key);
	if (cells[DURATION].type == CELL_INT)
		cells[DURATION] = cell_elapsed(cells[DURATION].value);
	output_row(&l->a->output, cells);
	return 0;
}

int cmd_done_ls(struct admin *a)
{
	struct listing l = { .a = a, .left = a->options.count >= 0 ? a->options.count : LIMIT };
	int rc;

	if (admin_show_ages(a) == -1)
		return -1;
	output_begin(&a->output, columns, nitems(columns));
	rc = dead_letter_walk(a, &(struct dead_letter_walk){ .done = true }, show_row, &l) == -1 ? -1 : 0;
	output_end_list(&a->output, rc == 0);
	if (rc == 0 && a->output.nrows == 0 && !a->options.json)
		admin_note("no messages%s",
		    a->queue != NULL && a->queue->done.keep <= 0
		    ? ": the queue keeps no history, since done.keep is not set" : "");
	return rc;
}
