/* quredis peek: shows the messages of a list, newest first (delayed: first due first), and changes nothing. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/commands/commands.h"
#include "admin/queues/queues.h"

#include "common/base/base.h"
#include "common/queue/queue.h"

#define LIMIT 101		/* as many as the Ruby gem shows */
#define SHOWN (64 * 1024)	/* bytes of a message; the rest is cut, and --text does not search it */
/* for the console: the bytes that Redis reads for one list; the output ends there */
#define SERVED_BYTES (64 * 1024 * 1024)

enum { DUE, WORKER, PID, ALIVE, ELAPSED, SIZE, ATTEMPTS, CRASHES, REDELIVERED, WAITING_SINCE, FAILED_AT, CLASS, EXIT,
    SIGNAL, ERROR, ID, MESSAGE, CUT,
	NCOLUMNS };

static const struct column all_columns[NCOLUMNS] = {
	[DUE] = { "due", "Due", COLUMN_STATE },
	[WORKER] = { "worker", "Worker", COLUMN_NAME | YIELDS(5) },
	[PID] = { "pid", "Pid", COLUMN_NUMBER | YIELDS(3) },
	[ALIVE] = { "alive", "Alive", COLUMN_NAME },
	[ELAPSED] = { "elapsed_ms", "Elapsed", COLUMN_NUMBER },
	[SIZE] = { "size", "Size", COLUMN_NUMBER | YIELDS(2) },
	[ATTEMPTS] = { "attempts", "Attempts", COLUMN_NUMBER | YIELDS(4) },
	[CRASHES] = { "crashes", "Crashes", COLUMN_NUMBER | YIELDS(1) },
	[REDELIVERED] = { "redelivered", NULL, COLUMN_NAME },
	[WAITING_SINCE] = { "waiting_since", NULL, COLUMN_NAME },
	[FAILED_AT] = { "failed_at", "Failed", COLUMN_STATE },
	[CLASS] = { "error_class", "Class", COLUMN_NAME },
	[EXIT] = { "exit_code", "Exit", COLUMN_NUMBER },
	[SIGNAL] = { "signal", "Signal", COLUMN_NAME },
	[ERROR] = { "error_message", "Error", COLUMN_TEXT },
	[ID] = { "id", "Id", COLUMN_ID },
	[MESSAGE] = { "message", "Message", COLUMN_LINE },
	[CUT] = { "cut", NULL, COLUMN_NAME },
};

struct peek {
	struct admin *a;
	const char *text;		/* NULL: show every message */
	int64_t left;			/* rows that may still be printed */
	int64_t unread;			/* messages that may still be read */
	int64_t searched;
	bool ended_early;		/* a list has more messages */
	int64_t total;			/* of the list, when the listing began */
	int64_t room;			/* bytes that Redis may still read */
	struct cell of_owner[ELAPSED + 1];	/* the cells that are equal for all messages of one list */
};

static struct cell text_or_none(const char *text)
{
	return text[0] == '\0' ? cell_none() : cell_str(text);
}

/* Why the last attempt failed. It has no failed attempt, or a version that did not keep the cause wrote the wrapper:
 * all are empty. */
static void failure_cells(struct cell cells[NCOLUMNS], const struct message_failure *f)
{
	cells[FAILED_AT] = f->at_ms > 0 ? cell_time(f->at_ms) : cell_none();
	cells[CLASS] = text_or_none(f->class);
	cells[EXIT] = f->at_ms > 0 && f->exit_code >= 0 ? cell_int(f->exit_code) : cell_none();
	cells[SIGNAL] = text_or_none(f->signal);
	cells[ERROR] = f->text[0] == '\0' ? cell_none() : cell_bytes(f->text, strlen(f->text));
}

/* In the message, its id, or the error of its last attempt. */
static bool has_text(const struct message *m, size_t len, const char *text)
{
	const struct message_failure *f = &m->wrapper.failure;

	return contains_text(m->raw + m->wrapper_len, len - m->wrapper_len, text) ||
	    contains_text(m->id, strlen(m->id), text) ||
	    contains_text(f->text, strlen(f->text), text) || contains_text(f->class, strlen(f->class), text);
}

/* Prints an entry of size bytes, if it matches. data: its first len bytes, or all of them. */
static void show_entry(struct peek *p, const void *data, size_t len, size_t size)
{
	struct cell cells[NCOLUMNS];
	struct message m;
	int64_t since;

	message_parse(&m, &p->a->keys.lines, data, len);
	if (p->text != NULL && !has_text(&m, len, p->text))
		return;
	since = m.wrapper.own_ms;
	memcpy(cells, p->of_owner, sizeof(p->of_owner));
	cells[SIZE] = cell_int((int64_t)(size - m.wrapper_len));
	cells[ATTEMPTS] = cell_int(m.wrapper.attempts);
	cells[CRASHES] = cell_int(m.wrapper.crashes);
	cells[REDELIVERED] = cell_int(m.wrapper.redelivered);
	cells[WAITING_SINCE] = since > 0 ? cell_time(since) : cell_none();
	failure_cells(cells, &m.wrapper.failure);
	/* a message without an id is named by the sha1 of all its bytes */
	cells[ID] = size > len && m.id[0] == '\0' ? cell_none() : cell_str(message_id(&m));
	cells[MESSAGE] = cell_bytes(m.raw + m.wrapper_len, len - m.wrapper_len);
	cells[CUT] = cell_bool(size > len);
	output_row(&p->a->output, cells);
	p->left--;
}

/*
 * Reads the list in small steps, for the console only up to SERVED_BYTES. Messages that arrive meanwhile only shift the
 * positions of later steps. score_ms: the unit of the scores of a sorted set; 0: it is a list.
 */
static int peek_list(struct peek *p, const char *key, int score_ms)
{
	struct redis_reply reply;
	int64_t first = 0;
	size_t n;

	if (p->left <= 0 || p->unread <= 0 || p->room <= 0)
		return 0;
	do {
		int64_t most = p->text == NULL ? p->left : p->unread < ENTRIES_MAX ? p->unread : ENTRIES_MAX;

		queue_look(&p->a->redis, &(struct queue_look){ .key = key,
		    .apart = score_ms == 1 ? p->a->keys.delayed_apart : NULL, .sorted = score_ms > 0,
		    .first = first, .most = most, .bytes = ENTRIES_STEP_BYTES, .shown = SHOWN });
		if (admin_reply(p->a, &reply, key) == -1)
			return -1;
		n = queue_look_count(&reply);
		if (n == SIZE_MAX)
			return admin_fail(p->a, EX_PROTOCOL, "unexpected reply type from Redis to a look at %s", key);
		for (size_t i = 0; i < n && p->left > 0; i++) {
			struct queue_looked l;

			queue_looked(&reply, i, &l);
			if (score_ms > 0)
				p->of_owner[DUE] = cell_time(clock_ms_of(score_ms * strtod(l.score.str, NULL)));
			show_entry(p, l.head.str, l.head.len, l.size);
			p->searched++;
			p->unread--;
			p->room -= (int64_t)l.size;
		}
		first += (int64_t)n;
	} while (n > 0 && p->left > 0 && p->unread > 0 && p->room > 0);
	p->ended_early |= n > 0;
	return 0;
}

static int peek_tray(struct peek *p, const struct queue_worker *w, bool alive, int tray, int64_t elapsed_ms)
{
	char *key = queue_tray_key(&p->a->keys, w->incarnation, tray);
	int rc;

	p->of_owner[WORKER] = cell_str(w->incarnation);
	p->of_owner[PID] = w->pid > 0 ? cell_int(w->pid) : cell_none();
	p->of_owner[ALIVE] = cell_bool(alive);
	p->of_owner[ELAPSED] = elapsed_ms >= 0 ? cell_elapsed(elapsed_ms) : cell_none();
	rc = peek_list(p, key, 0);
	free(key);
	return rc;
}

static int peek_bare(struct peek *p, const char *key)
{
	p->of_owner[WORKER] = p->of_owner[PID] = p->of_owner[ALIVE] = p->of_owner[ELAPSED] = cell_none();
	return peek_list(p, key, 0);
}

static int peek_transit(struct peek *p)
{
	struct admin *a = p->a;
	struct lists l;
	char *rescue = queue_bare_rescue_key(&a->keys);
	int rc = lists_read(a, &a->keys, LIST_BIT(LIST_TRANSIT), &l);

	p->total = l.transit;
	for (size_t i = 0; rc == 0 && i < l.nworkers; i++) {
		/* Only its supervisor knows how long a handler has been running. */
		int64_t elapsed = l.owners[i].total > 0 ? control_elapsed(a, &l.workers[i]) : -1;

		for (int t = 0; rc == 0 && t <= QUEUE_TRAYS; t++)
			if (l.owners[i].trays[t] > 0)
				rc = peek_tray(p, &l.workers[i], l.owners[i].alive, t, elapsed);
	}
	if (rc == 0)
		rc = peek_bare(p, rescue);
	if (rc == 0)
		rc = peek_bare(p, a->keys.aside);
	if (rc == 0)
		rc = peek_bare(p, a->keys.transit);
	lists_free(&l);
	free(rescue);
	return rc;
}

/* Leaves out columns that do not apply to this list. */
static void choose_columns(struct column columns[NCOLUMNS], enum admin_list list)
{
	memcpy(columns, all_columns, sizeof(all_columns));
	if (list != LIST_DELAYED)
		columns[DUE] = (struct column){0};
	for (int i = FAILED_AT; list != LIST_DELAYED && i <= ERROR; i++)
		/* JSON has them for each list: messages in flight may have failed before */
		columns[i].title = NULL;
	for (int i = WORKER; list != LIST_TRANSIT && i <= ELAPSED; i++)
		columns[i] = (struct column){0};
}

/* Says where a search ended: an operator who finds nothing must know whether the message can still be there. */
static void note_search(const struct peek *p, int64_t limit)
{
	bool is_page = p->a->served;		/* the console has its own words for what to do */

	if (p->left == 0 && p->ended_early)
		admin_note("found the first %" PRId64 "%s", limit, is_page ? "" : "; -n N shows more");
	else if (p->ended_early)
		admin_note("found %" PRId64 " among the first %" PRId64 " messages%s", limit - p->left, p->searched,
		    is_page ? "" : "; --search N looks through more");
	else
		admin_note("found %" PRId64 " among %" PRId64 " messages", limit - p->left, p->searched);
}

/* How many messages of the list were shown. */
static void note_total(const struct peek *p, int64_t limit)
{
	int64_t shown = limit - p->left;

	if (shown == 0 && p->total <= 0)
		admin_note("no messages");
	else		/* more may have come since they were counted */
		admin_note("%" PRId64 " shown of %" PRId64 " messages", shown, shown > p->total ? shown : p->total);
}

/* Retries and delayed pushes of quredis push, then those of producers, whose key may have another type: they cannot
 * hide the others. */
static int peek_delayed(struct peek *p)
{
	struct admin *a = p->a;
	struct lists l;
	int rc = lists_read(a, &a->keys, LIST_BIT(LIST_DELAYED), &l);

	p->total = l.delayed;
	if (rc == 0)
		rc = peek_list(p, a->keys.delayed, 1);
	if (rc == 0 && l.pushed > 0)
		rc = peek_list(p, a->keys.pushed, 1000);
	lists_free(&l);
	return rc;
}

static int peek_one(struct peek *p, enum admin_list list)
{
	struct admin *a = p->a;
	const char *key = list == LIST_INGRESS ? a->keys.ingress : a->keys.escape;

	if (list == LIST_TRANSIT)
		return peek_transit(p);
	if (list == LIST_DELAYED)
		return peek_delayed(p);
	redis_appendf(&a->redis, "LLEN %s", key);
	return admin_integer(a, &p->total, key) == -1 ? -1 : peek_list(p, key, 0);
}

int cmd_peek(struct admin *a)
{
	int64_t limit = a->options.count >= 0 ? a->options.count : LIMIT;
	struct peek p = { .a = a, .text = a->options.text, .left = limit, .unread = INT64_MAX,
	    .room = a->served ? SERVED_BYTES : INT64_MAX };
	struct column columns[NCOLUMNS];
	enum admin_list list;
	int rc;

	if (admin_list_parse(a, a->operands[1],
	    LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_TRANSIT) | LIST_BIT(LIST_ESCAPE) |
		LIST_BIT(LIST_DELAYED), &list) == -1)
		return -1;
	if (p.text != NULL && p.text[0] == '\0')
		return admin_fail(a, EX_USAGE, "--text: expected a text");
	if (p.text == NULL && a->options.search > 0)
		return admin_fail(a, EX_USAGE, "--search requires --text");
	if (p.text != NULL)
		p.unread = a->options.search > 0 ? a->options.search : SEARCH_DEFAULT;
	if (admin_show_ages(a) == -1)
		return -1;
	choose_columns(columns, list);
	output_begin(&a->output, columns, NCOLUMNS);
	rc = peek_one(&p, list);
	output_end_list(&a->output, rc == 0);
	if (rc == 0 && p.text != NULL)
		note_search(&p, limit);
	else if (rc == 0 && !a->options.json)
		note_total(&p, limit);
	return rc;
}
