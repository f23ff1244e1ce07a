/* quredis peek: what lies in a list, newest first (delayed: what is due first), without touching it. */
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "admin/command.h"
#include "admin/control.h"
#include "admin/lists.h"
#include "admin/pager.h"

#include "common/alloc.h"
#include "common/clock.h"

#define LIMIT 101		/* as many as the gem shows */
#define SERVED_PAGE 8		/* anybody may ask the console, many at a time, and how large they are is not known yet */

enum { DUE, WORKER, PID, ALIVE, ELAPSED, SIZE, ATTEMPTS, CRASHES, REDELIVERED, WAITING_SINCE, ID, MESSAGE, NCOLUMNS };

static const struct column all_columns[NCOLUMNS] = {
	[DUE] = { "due", "Due", false },
	[WORKER] = { "worker", "Worker", false },
	[PID] = { "pid", "Pid", true },
	[ALIVE] = { "alive", "Alive", false },
	[ELAPSED] = { "elapsed_ms", "Elapsed", true },
	[SIZE] = { "size", "Size", true },
	[ATTEMPTS] = { "attempts", "Attempts", true },
	[CRASHES] = { "crashes", "Crashes", true },
	[REDELIVERED] = { "redelivered", NULL, false },
	[WAITING_SINCE] = { "waiting_since", NULL, false },
	[ID] = { "id", "Id", false },
	[MESSAGE] = { "message", "Message", false },
};

struct peek {
	struct admin *a;
	int64_t left;			/* rows that may still be shown */
	struct cell of_owner[ELAPSED + 1];	/* the cells that all messages of one list share */
};

static void show(struct peek *p, const void *data, size_t len)
{
	struct cell cells[NCOLUMNS];
	struct message m;
	int64_t since;

	message_parse(&m, data, len);
	since = m.wrapper.own_ms > 0 ? m.wrapper.own_ms : m.wrapper.mark_ms;
	memcpy(cells, p->of_owner, sizeof(p->of_owner));
	cells[SIZE] = cell_int((int64_t)(len - m.wrapper_len));
	cells[ATTEMPTS] = cell_int(m.wrapper.attempts);
	cells[CRASHES] = cell_int(m.wrapper.crashes);
	cells[REDELIVERED] = cell_int(m.wrapper.redelivered);
	cells[WAITING_SINCE] = since > 0 ? cell_time(since) : cell_none();
	cells[ID] = cell_str(message_id(&m));
	cells[MESSAGE] = cell_bytes(m.raw + m.wrapper_len, len - m.wrapper_len);
	output_row(&p->a->output, cells);
	p->left--;
}

static struct pager first_pager(const struct peek *p)
{
	return pager_of(p->a->served ? SERVED_PAGE : LIMIT);
}

/* The first page is one look at the list, as long as the gem's; what comes in meanwhile can only shift later ones. */
static int peek_list(struct peek *p, const char *key)
{
	struct pager pager = first_pager(p);
	int64_t first = 0;

	while (p->left > 0) {
		int64_t want = pager.count < p->left ? pager.count : p->left;
		struct page page;
		size_t n;

		if (page_read(p->a, key, first, first + want - 1, &page) == -1)
			return -1;
		for (size_t i = 0; i < page.n; i++)
			show(p, page.entries[i].data, page.entries[i].len);
		pager_learn(&pager, page.n, page.bytes);
		n = page.n;
		page_free(&page);
		if ((int64_t)n < want)
			break;
		first += (int64_t)n;
	}
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
	rc = peek_list(p, key);
	free(key);
	return rc;
}

static int peek_bare(struct peek *p, const char *key)
{
	p->of_owner[WORKER] = p->of_owner[PID] = p->of_owner[ALIVE] = p->of_owner[ELAPSED] = cell_none();
	return peek_list(p, key);
}

static int peek_transit(struct peek *p)
{
	struct admin *a = p->a;
	struct lists l;
	char *rescue = queue_bare_rescue_key(&a->keys);
	int rc = lists_read(a, &a->keys, LIST_BIT(LIST_TRANSIT), &l);

	for (size_t i = 0; rc == 0 && i < l.nworkers; i++) {
		/* How long a handler has run is known to its supervisor only. */
		int64_t elapsed = l.owners[i].total > 0 ? control_elapsed(a, &l.workers[i]) : -1;

		for (int t = 0; rc == 0 && t <= QUEUE_TRAYS; t++)
			if (l.owners[i].trays[t] > 0)
				rc = peek_tray(p, &l.workers[i], l.owners[i].alive, t, elapsed);
	}
	if (rc == 0)
		rc = peek_bare(p, rescue);
	if (rc == 0)
		rc = peek_bare(p, a->keys.transit);
	lists_free(&l);
	free(rescue);
	return rc;
}

static int peek_delayed(struct peek *p)
{
	struct admin *a = p->a;
	struct pager pager = first_pager(p);
	int64_t first = 0;

	while (p->left > 0) {
		int64_t want = pager.count < p->left ? pager.count : p->left;
		struct redis_reply reply;
		size_t bytes = 0;

		redis_appendf(&a->redis, "ZRANGE %s %d %d WITHSCORES", a->keys.delayed, first, first + want - 1);
		if (admin_reply(a, &reply, a->keys.delayed) == -1)
			return -1;
		if (!redis_is_strings(&reply))
			return admin_fail(a, EX_PROTOCOL, "Redis answered something else than a list");
		for (size_t i = 0; i + 1 < reply.n; i += 2) {
			struct redis_reply entry = redis_element(&reply, i), score = redis_element(&reply, i + 1);

			p->of_owner[DUE] = cell_time(clock_ms_of(strtod(score.str, NULL)));
			show(p, entry.str, entry.len);
			bytes += entry.len;
		}
		pager_learn(&pager, reply.n / 2, bytes);
		if ((int64_t)reply.n / 2 < want)
			break;
		first += want;
	}
	return 0;
}

/* Columns that say nothing of this list are left out. */
static void choose_columns(struct column columns[NCOLUMNS], enum admin_list list)
{
	memcpy(columns, all_columns, sizeof(all_columns));
	if (list != LIST_DELAYED)
		columns[DUE] = (struct column){0};
	for (int i = WORKER; list != LIST_TRANSIT && i <= ELAPSED; i++)
		columns[i] = (struct column){0};
}

int cmd_peek(struct admin *a)
{
	struct peek p = { .a = a, .left = a->options.count >= 0 ? a->options.count : LIMIT };
	struct column columns[NCOLUMNS];
	enum admin_list list;
	int rc;

	if (admin_list_parse(a, a->operands[1], LIST_BIT(LIST_INGRESS) | LIST_BIT(LIST_TRANSIT) | LIST_BIT(LIST_ESCAPE) |
		LIST_BIT(LIST_DELAYED), &list) == -1)
		return -1;
	choose_columns(columns, list);
	output_begin(&a->output, columns, NCOLUMNS);
	if (list == LIST_TRANSIT)
		rc = peek_transit(&p);
	else if (list == LIST_DELAYED)
		rc = peek_delayed(&p);
	else
		rc = peek_list(&p, list == LIST_INGRESS ? a->keys.ingress : a->keys.escape);
	output_end(&a->output, rc == 0);
	return rc;
}
