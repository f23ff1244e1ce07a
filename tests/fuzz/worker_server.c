/*
 * The server of a worker that is played by tests/fuzz/fake_redis.c: it answers from what the worker believes, and holds what it is
 * asked against that. It removes nothing whose handler did not end well, and moves nothing that was not to move.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bsd/string.h>

#include "tests/fuzz/worker_server.h"

#include "common/base/nitems.h"
#include "common/queue/notes.h"
#include "tests/fuzz/fake_answers.h"
#include "tests/fuzz/script_move.h"

static const struct worker *worker;

/* What the lease of the current name counts, as common/queue/scripts/done.lua reads it. */
static struct {
	char incarnation[INCARNATION_SIZE];
	int64_t left[QUEUE_TRAYS];	/* how many messages left each tray alive under this name */
} lease;

void worker_server_begin(const struct worker *w)
{
	worker = w;
	memset(&lease, 0, sizeof(lease));
}

/* ---- acknowledgements ---- */

static int tray_named(const char *key)
{
	for (int i = 0; worker->session.owner.keys != NULL && i < QUEUE_TRAYS; i++)
		if (strcmp(worker->session.owner.trays[i], key) == 0)
			return i;
	return -1;
}

/* A tray is deleted only when every message in it was done, or has left it. */
static void check_delete(const char *key)
{
	int i = tray_named(key);
	const struct tray *t = &worker->trays.tray[i < 0 ? 0 : i];

	if (i == -1)
		return;		/* of an incarnation before: the name is nobody's now */
	FUZZ_ASSERT(t->state == TRAY_DELETING);
	FUZZ_ASSERT(t->count[ITEM_DONE] > 0 && t->count[ITEM_DONE] + t->count[ITEM_GONE] == t->n);
}

/* What left it alive may have come back: such a tray only the script deletes. */
static void check_bare_delete(const char *key)
{
	int i = tray_named(key);

	check_delete(key);
	FUZZ_ASSERT(i == -1 || worker->session.owner.moved[i] == 0);
}

static bool is_done(const struct tray *t, const char *sha1)
{
	for (int i = 0; i < t->n; i++) {
		const struct item *item = &t->items[i];
		struct queue_note note;
		struct message m;

		if (item->state != ITEM_DONE && (item->state != ITEM_MOVING || item->move != MOVE_DONE))
			continue;
		message_parse(&m, &worker->env->keys.lines, tray_raw(t, item), item->len);
		queue_note_of(&note, &m, NULL);
		if (strcmp(note.field, sha1) == 0)
			return true;
	}
	return false;
}

/* The script, too; and what it forgets is of messages that it acknowledges. */
static void check_done(const struct fake_command *c)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10), n = strtoul(c->argv[args + 9], NULL, 10);
	int i = tray_named(c->argv[4]);

	if (i == -1)
		return;
	if (strcmp(c->argv[args], "0") == 0) {
		check_delete(c->argv[4]);
		FUZZ_ASSERT(strtoll(c->argv[args + 5], NULL, 10) == worker->session.owner.moved[i]);
	}
	for (size_t k = 0; k < n && args + 10 + k < c->argc; k++)
		FUZZ_ASSERT(is_done(&worker->trays.tray[i], c->argv[args + 10 + k]));
}

/* ---- moves ---- */

static bool makes_move(const char *script, enum move move)
{
	static const char *const scripts[MOVES] = { [MOVE_DONE] = "done", [MOVE_RETRY] = "retry", [MOVE_PUT_OFF] = "retry", [MOVE_HOLD] = "retry",
		[MOVE_ESCAPE] = "escape", [MOVE_ASIDE] = "escape", [MOVE_HAND_BACK] = "hand_back" };

	return strcmp(scripts[move], script) == 0;
}

/* The item that the call names, if this move of it is under way. */
static const struct item *moving_item(const struct tray *t, const struct script_move *m, const char *script)
{
	int64_t at = 0;

	for (const struct item *item = t->items; item < t->items + t->n; item++) {
		if (item->state == ITEM_GONE || item->lost)
			continue;
		at--;			/* the oldest lies at the right end */
		if (m->by_place && m->at != at)
			continue;
		if (item->state == ITEM_MOVING && item->sent && makes_move(script, item->move) && script_move_names(m, tray_raw(t, item), item->len))
			return item;
	}
	return NULL;
}

static int moves_sent(const struct tray *t)
{
	int n = 0;

	for (int i = 0; i < t->n; i++)
		n += t->items[i].state == ITEM_MOVING && t->items[i].sent;
	return n;
}

/* The other list gets the producer's message; in a shared queue nothing before it. */
static void check_result(const struct script_move *m, const char *raw, size_t len)
{
	bool bare = worker->env->conf->shared || (m->line_len == 0 && m->strip > 0);
	struct message before, after;
	struct buffer result = {0};
	size_t skip;

	script_move_result(m, raw, len, &result);
	message_parse(&before, &worker->env->keys.lines, raw, len);
	message_parse(&after, &worker->env->keys.lines, result.data, result.len);
	skip = bare ? 0 : after.wrapper_len;
	FUZZ_ASSERT(result.len - skip == before.raw_len - before.wrapper_len);
	FUZZ_ASSERT(result.len == skip || memcmp(result.data + skip, raw + before.wrapper_len, result.len - skip) == 0);
	buffer_free(&result);
}

/* Nothing moves but what was to move so. A place is right only while nothing else is leaving its tray. */
static void check_move(const struct fake_command *c, const struct script_move *m)
{
	int i = tray_named(m->list);
	const struct item *item;

	if (i == -1)
		return;		/* of an incarnation before: the name is nobody's now */
	item = moving_item(&worker->trays.tray[i], m, c->script);
	FUZZ_ASSERT(item != NULL);
	FUZZ_ASSERT(!m->by_place || (moves_sent(&worker->trays.tray[i]) == 1 && !worker->trays.tray[i].mixed));
	FUZZ_ASSERT(strcmp(c->script, "retry") != 0 || (m->line_len > 0 && !worker->env->conf->shared));
	FUZZ_ASSERT((item->move == MOVE_ASIDE) == (strcmp(c->argv[5], worker->env->keys.aside) == 0));
	if (strcmp(c->script, "done") != 0)
		check_result(m, tray_raw(&worker->trays.tray[i], item), item->len);
}

/* The last message of a tray that is acknowledged. */
static bool is_last_done(const struct tray *t, const struct script_move *m)
{
	const struct item *last = NULL;

	for (const struct item *item = t->items; item < t->items + t->n; item++)
		if (item->state == ITEM_DONE) {
			FUZZ_ASSERT(last == NULL);
			last = item;
		}
	return last != NULL && script_move_names(m, tray_raw(t, last), last->len);
}

static void check_removal(const struct fake_command *c)
{
	const struct script_move m = { .head = c->argv[3], .head_len = c->len[3], .len = c->len[3], .tail = "" };
	int i = tray_named(c->argv[1]);
	const struct tray *t = i == -1 ? NULL : &worker->trays.tray[i];

	if (t != NULL && t->state == TRAY_DELETING)
		FUZZ_ASSERT(t->sent && is_last_done(t, &m));
	else
		FUZZ_ASSERT(t == NULL || moving_item(t, &m, "done") != NULL);
}

/* ---- what the lease counts ---- */

static void begin_lease(const struct fake_command *c)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10);

	if (strcmp(lease.incarnation, c->argv[args + 1]) == 0)
		return;
	memset(&lease, 0, sizeof(lease));
	strlcpy(lease.incarnation, c->argv[args + 1], sizeof(lease.incarnation));
}

static bool is_lease(const char *key)
{
	return worker->session.owner.keys != NULL && strcmp(worker->session.owner.lease, key) == 0;
}

/* variant: Redis has returned to an earlier state. */
static void lease_counts(struct buffer *out, unsigned variant)
{
	char text[24];

	fake_array(out, QUEUE_TRAYS);
	for (int i = 0; i < QUEUE_TRAYS; i++) {
		snprintf(text, sizeof(text), "%" PRId64, lease.left[i] - (variant == 2));
		if (variant == 1)
			fake_nil(out);
		else
			fake_text(out, text);
	}
}

/* What leaves a tray alive is counted with it. */
static bool leaves_alive(const char *script)
{
	static const char *const scripts[] = { "retry", "escape", "hand_back", "too_large", "too_large_seen" };

	for (size_t i = 0; i < nitems(scripts); i++)
		if (strcmp(scripts[i], script) == 0)
			return true;
	return false;
}

/* The script allows for a wrapper. */
static void check_too_large(const struct fake_command *c)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10);

	FUZZ_ASSERT(strtoll(c->argv[args + 1], NULL, 10) == worker->env->conf->message_max);
}

/* Asked to acknowledge a whole tray: what it counted is not what the worker counted. */
static bool counts_disagree(const struct fake_command *c, int tray)
{
	size_t args = 3 + strtoul(c->argv[2], NULL, 10);

	return strcmp(c->script, "done") == 0 && strcmp(c->argv[args], "0") == 0 &&
	       lease.left[tray] != strtoll(c->argv[args + 5], NULL, 10);
}

static bool script_answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	struct script_move m;
	int i = tray_named(c->argv[4]);

	if (strcmp(c->script, "renew") == 0)
		begin_lease(c);
	if (strcmp(c->script, "too_large") == 0 || strcmp(c->script, "too_large_seen") == 0)
		check_too_large(c);
	if (strcmp(c->script, "done") == 0)
		check_done(c);
	if (script_move_read(c, &worker->env->keys.lines, &m))
		check_move(c, &m);
	if (i == -1 || variant == 1 || variant == 0x1f)
		return false;
	lease.left[i] += leaves_alive(c->script);
	if (!counts_disagree(c, i))
		return false;
	fake_integer(out, -1);
	return true;
}

/* What it believes to be in a tray: newest first. variant: less the newest, or with more than it knows of. */
static void list_tray(const struct tray *t, struct buffer *out, unsigned variant)
{
	unsigned there = (unsigned)(t->n - t->count[ITEM_GONE]), more = variant >= 0x10 ? variant & 0xf : 0;
	unsigned less = variant < 0x10 ? variant : 0;

	if (variant == 0x1f)
		more = 1001;
	less = less > there ? there : less;
	fake_array(out, there - less + more);
	while (more-- > 0)
		fake_message(out);
	for (int i = t->n - 1; i >= 0; i--)
		if (t->items[i].state != ITEM_GONE && (less == 0 || less-- == 0))
			fake_string(out, tray_raw(t, &t->items[i]), t->items[i].len);
}

bool worker_server_answer(const struct fake_command *c, struct buffer *out, unsigned variant)
{
	int i;

	if (c->script != NULL)
		return script_answer(c, out, variant);
	if (fake_redis_is(c, "DEL"))
		check_bare_delete(c->argv[1]);
	if (fake_redis_is(c, "LREM"))
		check_removal(c);
	if (fake_redis_is(c, "HMGET") && is_lease(c->argv[1])) {
		lease_counts(out, variant);
		return true;
	}
	if (!fake_redis_is(c, "LRANGE"))
		return false;
	i = tray_named(c->argv[1]);
	if (i == -1)
		fake_array(out, 0);
	else
		list_tray(&worker->trays.tray[i], out, variant);
	return true;
}
